"""What is to be measured of a service's load, as its spec asks for it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from hetserve.api.inference_service import InferenceService
from hetserve.api.scaling import ScalingSpec
from hetserve.base.units import Seconds, parse_duration
from hetserve.demand.windows import HELD_STEPS

STEPS_IN_WINDOW: Final = 4
"""Least number of samples per window of the rate."""
LONGEST_STEP: Final = Seconds(60.0)
TREND_SPAN: Final = Seconds(180.0)
"""Least time over which the trend of a service that scales is asked for."""


@dataclass(frozen=True, slots=True)
class OwnQueries:
    """The service's own PromQL. rate: arriving queries/s; latency: seconds at the percentile; batch_sizes: by `le`."""

    rate: str
    latency: str | None = None
    batch_sizes: str | None = None


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is wanted of one service.

    slo: latency; percentile: share of queries that meets it, below 1. window: of each rate; stale_after: age of a
    sample. span: time for which windows of rates are wanted, up to now; attained_span: the same of attainment.
    own: None: the metrics of hetserve's contract.
    """

    namespace: str
    name: str
    slo: Seconds
    percentile: float
    window: Seconds
    stale_after: Seconds
    span: Seconds
    attained_span: Seconds
    own: OwnQueries | None = None

    @property
    def steps(self) -> int:
        """Steps in a window."""
        return max(STEPS_IN_WINDOW, math.ceil(self.window / LONGEST_STEP))

    @property
    def step(self) -> Seconds:
        """Distance of samples, whole milliseconds: a quarter of the window, at most a minute."""
        return Seconds(math.ceil(self.window * 1000 / self.steps) / 1000)


def wanted_of(service: InferenceService, namespace: str) -> Wanted | None:
    """What a valid service asks for; None: its load is not measured (it has no spec.metrics)."""
    source = service.spec.metrics
    if source is None:
        return None
    span, attained_span = _spans(service.spec.scaling)
    queries = source.queries
    return Wanted(
        namespace=namespace,
        name=service.metadata.name,
        slo=parse_duration(service.spec.slo.latency),
        percentile=float(service.spec.slo.percentile) / 100,
        window=source.window_seconds,
        stale_after=source.stale_after_seconds,
        span=span,
        attained_span=attained_span,
        own=None if queries is None else OwnQueries(queries.rate, queries.latency, queries.batch_sizes),
    )


def _spans(scaling: ScalingSpec | None) -> tuple[Seconds, Seconds]:
    if scaling is None:
        return Seconds(0.0), Seconds(0.0)
    up, down = scaling.scale_up_or_default.window_seconds, scaling.scale_down_or_default.window_seconds
    return max(up, down, TREND_SPAN), up


def asked_span(wanted: Wanted, span: Seconds) -> Seconds:
    """Seconds before now that are asked for, so that a sample can hold at the beginning of `span`, or be stale."""
    return Seconds(max(span, wanted.stale_after) + HELD_STEPS * wanted.step)
