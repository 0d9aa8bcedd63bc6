"""spec.metrics: where the demand of a service is measured.

For decisions: `MetricsSpec.window_seconds` and `MetricsSpec.stale_after_seconds`, with what absent fields mean.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Final, Literal

from pydantic import Field

from hetserve.api.base import ApiModel, Rule
from hetserve.api.scalars import Window, nanoseconds
from hetserve.base.units import Seconds, parse_duration

DEFAULT_WINDOW: Final = "1m"
LEAST_STALE_AFTER: Final = Seconds(120.0)
"""Without staleAfter a sample counts for this time, or for the window where that is longer."""

_NOT_BLANK: Final = r"[^ \t\r\n]"


def _promql(description: str) -> Any:
    return Field(min_length=1, max_length=4096, pattern=_NOT_BLANK, description=description)


class MetricQueries(ApiModel):
    """The service's own PromQL, where the installation allows it (chart value metrics.allowQueries)."""

    rate: Annotated[str, _promql("PromQL of one series: arriving queries/s")]
    latency: Annotated[str, _promql("PromQL of one series: seconds at slo.percentile")] | None = None
    batch_sizes: (
        Annotated[
            str,
            _promql("PromQL of cumulative counts with the label le: queries by their number of items, as a histogram"),
        ]
        | None
    ) = None


def _stale_after_covers_window(source: MetricsSpec) -> bool:
    return source.stale_after is None or nanoseconds(source.stale_after) >= nanoseconds(source.window or DEFAULT_WINDOW)


class MetricsSpec(ApiModel):
    """Where the demand is measured; the address of Prometheus and its token are the installation's."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "has(self.queries) == (self.source == 'Queries')",
            "queries must be set exactly where source is Queries",
            lambda m: (m.queries is not None) == (m.source == "Queries"),
        ),
        Rule(
            "!has(self.staleAfter) || duration(self.staleAfter) >="
            f" (has(self.window) ? duration(self.window) : duration('{DEFAULT_WINDOW}'))",
            f"staleAfter must not be shorter than window (absent: {DEFAULT_WINDOW})",
            _stale_after_covers_window,
        ),
    )

    source: Literal["Hetserve", "Queries"] = Field(
        description="Hetserve: the metrics that hetserve's own serving exports (docs/metrics.md). Queries: those of "
        "queries, for other servers and gateways"
    )
    queries: MetricQueries | None = None
    window: Window | None = Field(
        default=None,
        description=f"time that rates are taken over; absent: {DEFAULT_WINDOW}. The mix of batch sizes is taken over "
        "10m",
    )
    stale_after: Window | None = Field(
        default=None,
        description="age from which a sample counts as stale, and nothing shrinks; not below the window, or below "
        f"{DEFAULT_WINDOW} without one; absent: the longer of 2m and the window",
    )

    @property
    def measures_mix(self) -> bool:
        """Whether batch sizes are measured beside the rate."""
        return self.queries is None or self.queries.batch_sizes is not None

    @property
    def window_seconds(self) -> Seconds:
        """The window; absent: a minute."""
        return parse_duration(self.window or DEFAULT_WINDOW)

    @property
    def stale_after_seconds(self) -> Seconds:
        """Age from which a sample is stale; absent: the longer of two minutes and the window."""
        if self.stale_after is None:
            return max(LEAST_STALE_AFTER, self.window_seconds)
        return parse_duration(self.stale_after)
