"""What is to be measured of services' loads, and the PromQL: one set of grouped queries for all with the same window.

Histories come from Prometheus's ranges, at moments that are multiples of the step by Prometheus's own clock, so that a
moment has the same answer at every poll.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from hetserve.api.inference_service import InferenceService
from hetserve.api.service.demand_source import MetricsSpec
from hetserve.api.service.scaling import ScalingSpec
from hetserve.base.units import Seconds, parse_duration
from hetserve.demand import contract
from hetserve.demand.contract import Outcome
from hetserve.demand.windows import HELD_STEPS

STEPS_IN_WINDOW: Final = 4
"""Least number of samples per window of the rate."""
LONGEST_STEP: Final = Seconds(60.0)
MOST_STEPS: Final = 10_000
"""In the longest history: Prometheus answers no more than 11,000 points of a series."""
TREND_SPAN: Final = Seconds(180.0)
"""Least time over which the trend of a service that scales is asked for."""


@dataclass(frozen=True, slots=True)
class OwnQueries:
    """The service's own PromQL. rate: arriving queries/s; latency: seconds at the percentile; batch_sizes: by `le`."""

    rate: str
    latency: str | None = None
    batch_sizes: str | None = None


@dataclass(frozen=True, slots=True)
class MetricsQuerySpec:
    """What is wanted of one service.

    slo: latency; percentile: share of queries that meets it, below 1. window: of each rate; stale_after: age of a
    sample. up_window, down_window: stabilization windows, 0 without scaling. scales: whether a trend is wanted, too.
    own: None: the metrics of hetserve's contract.
    """

    namespace: str
    name: str
    slo: Seconds
    percentile: float
    window: Seconds
    stale_after: Seconds
    up_window: Seconds = Seconds(0.0)
    down_window: Seconds = Seconds(0.0)
    scales: bool = False
    own: OwnQueries | None = None

    @property
    def span(self) -> Seconds:
        """Seconds before now for which rates are asked, so that a sample holds at the beginning of each window."""
        return self._held(self._history)

    @property
    def attained_span(self) -> Seconds:
        """The same for attainment, which counts in the up window alone."""
        return self._held(max(self.up_window, self.window))

    @property
    def steps(self) -> int:
        """Steps that cover a window."""
        return math.ceil(round(self.window * 1000) / round(self.step * 1000))

    @property
    def step(self) -> Seconds:
        """Distance of samples, whole milliseconds: a quarter of the window, at most a minute; where that is too fine
        for the history, as much as there may be steps in it.
        """
        fine = self.window / max(STEPS_IN_WINDOW, math.ceil(self.window / LONGEST_STEP))
        return Seconds(math.ceil(max(fine, (self._history + self.window) / MOST_STEPS) * 1000) / 1000)

    @property
    def _history(self) -> Seconds:
        trend = TREND_SPAN if self.scales else Seconds(0.0)
        return max(self.up_window, self.down_window, trend, self.stale_after, Seconds(2 * self.window))

    def _held(self, span: Seconds) -> Seconds:
        return Seconds(span + HELD_STEPS * self.step)


def wanted_of(service: InferenceService, namespace: str) -> MetricsQuerySpec | None:
    """What a valid service asks for; None: its load is not measured (it has no spec.metrics)."""
    source = service.spec.metrics
    return None if source is None else wanted_by(service, namespace, source, service.spec.scaling)


def wanted_by(
    service: InferenceService, namespace: str, source: MetricsSpec, scaling: ScalingSpec | None
) -> MetricsQuerySpec:
    """The same with a source and rules of scaling in place of the spec's, which may have none."""
    queries = source.queries
    return MetricsQuerySpec(
        namespace=namespace,
        name=service.metadata.name,
        slo=parse_duration(service.spec.slo.latency),
        percentile=float(service.spec.slo.percentile) / 100,
        window=source.window_seconds,
        stale_after=source.stale_after_seconds,
        up_window=Seconds(0.0) if scaling is None else scaling.scale_up_or_default.window_seconds,
        down_window=Seconds(0.0) if scaling is None else scaling.scale_down_or_default.window_seconds,
        scales=scaling is not None,
        own=None if queries is None else OwnQueries(queries.rate, queries.latency, queries.batch_sizes),
    )


CLOCK: Final = "time()"
"""PromQL for Prometheus's own time [Unix seconds]."""
MIX_WINDOW: Final = Seconds(600.0)
"""Time over which the mix of batch sizes is measured."""

_BY_SERVICE: Final = f"{contract.NAMESPACE}, {contract.SERVICE}"
_RECEIVED: Final = f'{contract.REQUESTS}{{{contract.OUTCOME}="{Outcome.RECEIVED}"}}'
_ENDED: Final = f'{contract.REQUESTS}{{{contract.OUTCOME}=~"{Outcome.SERVED}|{Outcome.DROPPED}"}}'


Place = tuple[str, str]
"""Namespace and name of a service, which are DNS labels."""


class Part(StrEnum):
    """What a query asks for. The first four are of the contract, LATENCY and BATCH_SIZES of a service's own queries.

    RATE: queries/s; SAMPLED_AT: time of the newest sample behind it; ENDED: answered or dropped queries/s; IN_TIME:
    those answered within a latency; MIX: queries by batch size.
    """

    RATE = "rate"
    SAMPLED_AT = "sampled at"
    ENDED = "ended"
    IN_TIME = "in time"
    MIX = "mix"
    LATENCY = "latency"
    BATCH_SIZES = "batchSizes"


@dataclass(frozen=True, slots=True)
class RangeQuery:
    """PromQL over the last `span` seconds, one value per `step` [s]."""

    promql: str
    span: Seconds
    step: Seconds

    @property
    def points(self) -> int:
        """Moments that it asks for."""
        return self._steps + 1

    @property
    def _steps(self) -> int:
        return math.ceil(self.span * 1000 / round(self.step * 1000))

    def moments(self, now: float) -> tuple[float, float]:
        """First and last moment that it asks for [Unix seconds]: multiples of the step, the last one not after `now`.

        Counted in whole milliseconds, as Prometheus does.
        """
        step, last = round(self.step * 1000), round(self.last_moment(now) * 1000)
        return (last - self._steps * step) / 1000, last / 1000

    def last_moment(self, now: float) -> float:
        """The second of the above."""
        step = round(self.step * 1000)
        return math.floor(now * 1000) // step * step / 1000


@dataclass(frozen=True, slots=True)
class InstantQuery:
    """PromQL at one moment."""

    promql: str

    def last_moment(self, now: float) -> float:
        return now


Query = RangeQuery | InstantQuery


@dataclass(frozen=True, slots=True)
class Group:
    """Services whose rates have the same window and step. spans: the longest that one asks for; slos: [s], rising."""

    window: Seconds
    step: Seconds
    span: Seconds
    attained_span: Seconds
    slos: tuple[Seconds, ...]

    def holds(self, one: MetricsQuerySpec) -> bool:
        """Whether the answers to the group's queries are about a service."""
        return one.own is None and (one.window, one.step) == (self.window, self.step)


def groups(wanted: Iterable[MetricsQuerySpec]) -> tuple[Group, ...]:
    """The groups of those that are measured by the contract, by rising window and step."""
    found: dict[tuple[Seconds, Seconds], list[MetricsQuerySpec]] = {}
    for one in wanted:
        if one.own is None:
            found.setdefault((one.window, one.step), []).append(one)
    return tuple(group_of(members) for _, members in sorted(found.items()))


def group_of(members: Sequence[MetricsQuerySpec]) -> Group:
    """The group of services that have the same window and step; there is at least one."""
    return Group(
        members[0].window,
        members[0].step,
        Seconds(max(one.span for one in members)),
        Seconds(max(one.attained_span for one in members)),
        tuple(sorted({one.slo for one in members})),
    )


def group_queries(group: Group, about: Collection[Place] = ()) -> dict[Part, Query]:
    """Queries for a group; each answers for all services at once. about: services that matter; empty: all that are
    measured, which others may fill with any number of series.

    The time of the newest sample is asked for a window further back, which tells from when on rates are whole.
    """
    window = _duration(group.window)
    within = _quoted("|".join(_spellings(slo) for slo in group.slos))
    received, ended = (_of(one, about) for one in (_RECEIVED, _ENDED))
    in_time = _of(f"{contract.DURATION}_bucket{{{contract.BOUND}=~{within}}}", about)
    span, step = group.span, group.step
    return {
        Part.RATE: RangeQuery(f"sum by ({_BY_SERVICE}) (rate({received}[{window}]))", span, step),
        Part.SAMPLED_AT: RangeQuery(
            f"max by ({_BY_SERVICE}) (timestamp({received}))", Seconds(span + group.window + step), step
        ),
        Part.ENDED: RangeQuery(f"sum by ({_BY_SERVICE}) (rate({ended}[{window}]))", group.attained_span, step),
        Part.IN_TIME: RangeQuery(
            f"sum by ({_BY_SERVICE}, {contract.BOUND}) (rate({in_time}[{window}]))", group.attained_span, step
        ),
    }


def mix_query(about: Collection[Place] = ()) -> InstantQuery:
    """Queries of the last ten minutes by batch size. about: as above."""
    buckets = f"{_of(f'{contract.BATCH_SIZE}_bucket', about)}[{_duration(MIX_WINDOW)}]"
    return InstantQuery(f"sum by ({_BY_SERVICE}, {contract.BOUND}) (increase({buckets}))")


def own_queries(wanted: MetricsQuerySpec, own: OwnQueries) -> dict[Part, Query]:
    """The service's own queries. Rates are asked for a window further back, as above."""
    span = Seconds(wanted.span + wanted.window + wanted.step)
    queries: dict[Part, Query] = {Part.RATE: RangeQuery(own.rate, span, wanted.step)}
    if own.latency is not None:
        queries[Part.LATENCY] = RangeQuery(own.latency, wanted.attained_span, wanted.step)
    if own.batch_sizes is not None:
        queries[Part.BATCH_SIZES] = InstantQuery(own.batch_sizes)
    return queries


def _of(selector: str, about: Collection[Place]) -> str:
    """A selector of the series of some services, and at most of others with a namespace and a name of theirs."""
    if not about:
        return selector
    parts = zip((contract.NAMESPACE, contract.SERVICE), map(sorted, map(set, zip(*about, strict=True))), strict=True)
    matchers = ",".join(f"{label}=~{_quoted('|'.join(names))}" for label, names in parts)
    return f"{selector[:-1]},{matchers}}}" if selector.endswith("}") else f"{selector}{{{matchers}}}"


def _duration(seconds: Seconds) -> str:
    return f"{math.ceil(seconds * 1000)}ms"


def _spellings(bound: Seconds) -> str:
    """A regular expression of the ways in which exporters write a bound: 1.0 and 1."""
    label = contract.bound_label(bound)
    return "|".join(map(re.escape, dict.fromkeys((label, label.removesuffix(".0")))))


def _quoted(text: str) -> str:
    """A PromQL string; escapes as in JSON."""
    return json.dumps(text)
