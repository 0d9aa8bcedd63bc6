"""What is to be measured of a service's load, as its spec asks for it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from hetserve.api.inference_service import InferenceService
from hetserve.api.service.demand_source import MetricsSpec
from hetserve.api.service.scaling import ScalingSpec
from hetserve.base.units import Seconds, parse_duration
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
