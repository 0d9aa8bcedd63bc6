"""What is known of a service's load at a moment: measured rates, their age, and how far they can be trusted."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from hetserve.base.units import QPS, Seconds
from hetserve.demand.mix import BatchMix


class Freshness(StrEnum):
    """How far what was measured can be acted on.

    FRESH: in full. STALE: it was true once: nothing shrinks. MISSING: nothing was ever measured, or not enough of the
    window. INVALID: something answers, but no rate: NaN, infinite, negative, or several series.
    """

    FRESH = "Fresh"
    STALE = "Stale"
    MISSING = "Missing"
    INVALID = "Invalid"


class Trouble(StrEnum):
    """Why demand is not Fresh, where the samples themselves are not to blame.

    NOT_ASKED: it will be, for the first time. NOT_CONFIGURED: there is no Prometheus to ask. UNREACHABLE: it gives no
    whole answer. QUERY_REFUSED: the service's own query is wrong. QUERIES_NOT_ALLOWED: those of tenants are not run.
    """

    NOT_ASKED = "NotAsked"
    NOT_CONFIGURED = "NotConfigured"
    UNREACHABLE = "Unreachable"
    QUERY_REFUSED = "QueryRefused"
    QUERIES_NOT_ALLOWED = "QueriesNotAllowed"


@dataclass(frozen=True, slots=True)
class RateSample:
    """A rate [queries/s] over the window that ends at `at` [Unix seconds, by the clock of who measured]."""

    at: float
    qps: QPS


@dataclass(frozen=True, slots=True)
class ShareSample:
    """Share of queries that met the SLO's latency in the window that ends at `at` [Unix seconds, as above].

    Where only the latency at the SLO's percentile is measured: that percentile if it is met, else 0, each the least
    that the share can be. queries: how many ended in the window; None: not known, and no chance is allowed for.
    """

    at: float
    share: float
    queries: float | None = None


@dataclass(frozen=True, slots=True)
class Demand:
    """A service's load as measured. Missing is not zero: without a sample there is no rate.

    why: what is wrong, in words; empty if FRESH. now: when it was looked at [Unix seconds, by the clock of who
    measured]. samples: oldest first, at most `step` apart but for gaps. window: of each rate. lower_bound: only
    completed queries are counted, so that a rate at saturation is less than the load. attained: as samples; empty where
    no latency is measured. mix: of batch sizes as measured; None: not known. trouble: why it is not FRESH, where the
    samples are not to blame. notes: what else is not known, and why. mix_queries: how many queries told the mix; None:
    not known, and no chance is allowed for. mix_bounds: sizes up to which they were counted; empty: each by itself.
    """

    freshness: Freshness
    why: str = ""
    now: float = 0.0
    samples: tuple[RateSample, ...] = ()
    window: Seconds = Seconds(60.0)
    step: Seconds = Seconds(15.0)
    lower_bound: bool = False
    attained: tuple[ShareSample, ...] = ()
    mix: BatchMix | None = None
    trouble: Trouble | None = None
    notes: tuple[str, ...] = ()
    mix_queries: float | None = None
    mix_bounds: tuple[int, ...] = ()

    @property
    def latest(self) -> RateSample | None:
        """The newest sample; None if there is none."""
        return self.samples[-1] if self.samples else None

    @property
    def age(self) -> Seconds | None:
        """Of the newest sample; None if there is none."""
        return None if self.latest is None else Seconds(max(self.now - self.latest.at, 0.0))
