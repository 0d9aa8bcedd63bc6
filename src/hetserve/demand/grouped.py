"""Answers to grouped queries, taken apart by service."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from hetserve.demand import contract
from hetserve.demand.answers import Points, Series
from hetserve.demand.queries import MetricsQuerySpec, Part, Place
from hetserve.demand.reading import PrometheusSamples


@dataclass(frozen=True, slots=True)
class Grouped:
    """Answers to the queries of one group at `now` [Unix seconds]. nameless: number of series that name no service."""

    now: float
    rate: Mapping[Place, list[Series]] = field(default_factory=dict)
    sampled_at: Mapping[Place, Points] = field(default_factory=dict)
    ended: Mapping[Place, Points] = field(default_factory=dict)
    in_time: Mapping[Place, Mapping[float, Points]] = field(default_factory=dict)
    nameless: int = 0

    def answered(
        self, wanted: MetricsQuerySpec, buckets: Mapping[float, float] | None, notes: tuple[str, ...] = ()
    ) -> PrometheusSamples:
        """What was answered about one service. buckets: of its batch sizes; None: not asked for, or none there."""
        place = (wanted.namespace, wanted.name)
        return PrometheusSamples(
            last=self.now,
            rate=self.rate.get(place, ()),
            sampled_at=self.sampled_at.get(place, []),
            ended=self.ended.get(place, []),
            in_time=self.in_time.get(place, {}),
            buckets=buckets,
            hint=self._hint(),
            notes=notes,
        )

    def _hint(self) -> str:
        if not self.nameless:
            return ""
        return (
            f"{self.nameless} series of {contract.REQUESTS} lack the label {contract.NAMESPACE} or {contract.SERVICE}: "
            "the exporter's labels must survive the scrape (honorLabels: true)"
        )


def take_apart(answers: Mapping[Part, Iterable[Series]], now: float) -> Grouped:
    """Answers to `group_queries`, by service."""
    rate: dict[Place, list[Series]] = {}
    nameless = 0
    for series in answers[Part.RATE]:
        place = _place(series)
        if place is None:
            nameless += 1
        else:
            rate.setdefault(place, []).append(series)
    return Grouped(
        now,
        rate,
        dict(_by_service(answers[Part.SAMPLED_AT])),
        dict(_by_service(answers[Part.ENDED])),
        _by_bound(answers[Part.IN_TIME]),
        nameless,
    )


def buckets_by_service(found: Iterable[Series]) -> dict[Place, dict[float, float]]:
    """Cumulative queries by batch bound, by service, of an answer to `mix_query`."""
    return {
        place: {bound: points[-1][1] for bound, points in bounds.items() if points}
        for place, bounds in _by_bound(found).items()
    }


def buckets_of(found: Iterable[Series]) -> dict[float, float]:
    """Cumulative queries by batch bound, of an answer to a service's own query. Raises ValueError in words."""
    buckets: dict[float, float] = {}
    for series in found:
        bound = _bound(series)
        if bound is None:
            raise ValueError(f"series {series} has no label {contract.BOUND} with a number")
        if bound in buckets:
            raise ValueError(f"several series have {contract.BOUND}={bound:g}; aggregate them by it")
        buckets[bound] = series.points[-1][1]
    return buckets


def _by_service(found: Iterable[Series]) -> Iterator[tuple[Place, Points]]:
    for series in found:
        place = _place(series)
        if place is not None:
            yield place, series.points


def _by_bound(found: Iterable[Series]) -> dict[Place, dict[float, Points]]:
    """Points by bound, by service; of a bound that exporters write in two ways, the sum."""
    by_service: dict[Place, dict[float, Points]] = {}
    for series in found:
        place, bound = _place(series), _bound(series)
        if place is None or bound is None:
            continue
        bounds = by_service.setdefault(place, {})
        bounds[bound] = _sum(bounds[bound], series.points) if bound in bounds else series.points
    return by_service


def _sum(one: Points, other: Points) -> Points:
    total = dict(one)
    for at, value in other:
        total[at] = total.get(at, 0.0) + value
    return sorted(total.items())


def _place(series: Series) -> Place | None:
    namespace, name = series.labels.get(contract.NAMESPACE), series.labels.get(contract.SERVICE)
    return (namespace, name) if namespace and name else None


def _bound(series: Series) -> float | None:
    try:
        bound = float(series.labels.get(contract.BOUND, ""))
    except ValueError:
        return None
    return None if math.isnan(bound) else bound
