"""Answers to grouped queries, taken apart by service."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from hetserve.demand import contract
from hetserve.demand.answers import Points, Series
from hetserve.demand.queries import MetricsQuerySpec, Part, Place
from hetserve.demand.reading import PrometheusSamples


@dataclass(frozen=True, slots=True)
class Grouped:
    """Answers to the queries of one group at `now` [Unix seconds]: series by service; None: they name no service."""

    now: float
    series: Mapping[Part, Mapping[Place | None, list[Series]]]

    def answered(
        self, wanted: MetricsQuerySpec, buckets: Mapping[float, float] | None, notes: tuple[str, ...] = ()
    ) -> PrometheusSamples:
        """What was answered about one service. buckets: of its batch sizes; None: not asked for, or none there."""
        rate, sampled_at, ended, in_time = (
            self.series[part].get((wanted.namespace, wanted.name), [])
            for part in (Part.RATE, Part.SAMPLED_AT, Part.ENDED, Part.IN_TIME)
        )
        return PrometheusSamples(
            last=self.now,
            rate=rate,
            sampled_at=sampled_at[-1].points if sampled_at else [],
            ended=ended[-1].points if ended else [],
            in_time=_by_bound(in_time),
            buckets=buckets,
            hint=self._hint(),
            notes=notes,
        )

    def _hint(self) -> str:
        nameless = len(self.series[Part.RATE].get(None, ()))
        if not nameless:
            return ""
        return (
            f"{nameless} series of {contract.REQUESTS} lack the label {contract.NAMESPACE} or {contract.SERVICE}: "
            "the exporter's labels must survive the scrape (honorLabels: true)"
        )


def take_apart(answers: Mapping[Part, Iterable[Series]], now: float) -> Grouped:
    """Answers to `group_queries`, by service."""
    return Grouped(now, {part: _by_service(found) for part, found in answers.items()})


def buckets_by_service(found: Iterable[Series]) -> dict[Place, dict[float, float]]:
    """Cumulative queries by batch bound, by service, of an answer to `mix_query`."""
    told = {place: _by_bound(series) for place, series in _by_service(found).items() if place is not None}
    return {
        place: {bound: points[-1][1] for bound, points in bounds.items() if points}
        for place, bounds in told.items()
        if bounds
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


def _by_service(found: Iterable[Series]) -> dict[Place | None, list[Series]]:
    by_service: dict[Place | None, list[Series]] = {}
    for series in found:
        namespace, name = series.labels.get(contract.NAMESPACE), series.labels.get(contract.SERVICE)
        by_service.setdefault((namespace, name) if namespace and name else None, []).append(series)
    return by_service


def _by_bound(found: Iterable[Series]) -> dict[float, Points]:
    """Points by bound; of a bound that exporters write in two ways, the sum."""
    bounds: dict[float, Points] = {}
    for series in found:
        bound = _bound(series)
        if bound is not None:
            bounds[bound] = _sum(bounds[bound], series.points) if bound in bounds else series.points
    return bounds


def _sum(one: Points, other: Points) -> Points:
    total = dict(one)
    for at, value in other:
        total[at] = total.get(at, 0.0) + value
    return sorted(total.items())


def _bound(series: Series) -> float | None:
    try:
        bound = float(series.labels.get(contract.BOUND, ""))
    except ValueError:
        return None
    return None if math.isnan(bound) else bound
