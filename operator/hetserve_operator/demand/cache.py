"""What is known of the load of each service: the last answer, which ages until the next one comes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from typing import Final

from hetserve.base.units import Seconds
from hetserve.demand.observed import Demand, Trouble
from hetserve.demand.queries import MetricsQuerySpec
from hetserve.demand.reading import aged, unknown
from hetserve.demand.windows import attained_below, highest, is_late, lowest, surely_missed
from hetserve_operator.workqueue import Key

MOVE: Final = 0.01
"""Relative change of a figure for which a service has a pass."""
_NOT_CONFIGURED: Final = "no Prometheus is configured (metrics.prometheus.url)"
_NOT_ALLOWED: Final = "spec.metrics.source is Queries, which this installation does not allow (metrics.allowQueries)"

IsQuiet = Callable[[Key, Demand], bool]
"""Whether demand is known to change nothing for a service."""


@dataclass(slots=True)
class _ServiceDemand:
    """demand: as answered at `at` [s]; failing: why there is no newer answer; shown: as of its last pass."""

    wanted: MetricsQuerySpec
    demand: Demand
    at: float
    failing: str = ""
    shown: Demand | None = None


@dataclass(eq=False)
class DemandCache:
    """Demand of all services. clock: seconds that never go back.

    wake: called with a service that should have a pass; is_quiet: keeps it from that where only figures moved. show:
    called with the demand of each service at each tick; None: it is measured no longer.
    """

    _clock: Callable[[], float]
    _wake: Callable[[Key], None]
    configured: bool
    allow_queries: bool = False
    is_quiet: IsQuiet = lambda _key, _demand: False
    show: Callable[[Key, Demand | None], None] = lambda _key, _demand: None
    _pages: dict[Key, _ServiceDemand] = field(default_factory=dict, init=False)

    def follow(self, wanted: Mapping[Key, MetricsQuerySpec]) -> None:
        """These services are measured from now on, and no others."""
        for key in [key for key in self._pages if key not in wanted]:
            del self._pages[key]
            self.show(key, None)
        for key, one in wanted.items():
            page = self._pages.get(key)
            if page is None or not _same_source(page.wanted, one):
                shown = None if page is None else page.shown
                self._pages[key] = _ServiceDemand(one, self._unasked(one), self._clock(), shown=shown)
            elif page.wanted != one:
                if (page.wanted.slo, page.wanted.percentile) != (one.slo, one.percentile):
                    page.demand = replace(page.demand, attained=())
                page.wanted = one

    def to_ask(self, *, own: bool) -> dict[Key, MetricsQuerySpec]:
        """Services to ask Prometheus for. own: those with queries of their own, else those of the contract."""
        if not self.configured or (own and not self.allow_queries):
            return {}
        return {key: page.wanted for key, page in self._pages.items() if (page.wanted.own is not None) is own}

    def take(self, key: Key, wanted: MetricsQuerySpec, demand: Demand, at: float) -> None:
        """An answer to what was asked at `at` [s]; one to another question is dropped."""
        page = self._pages.get(key)
        if page is not None and _same_source(page.wanted, wanted):
            page.demand, page.at, page.failing = demand, at, ""

    def fail(self, key: Key, message: str) -> None:
        """There was no answer: what was known stays, and ages."""
        if key in self._pages:
            self._pages[key].failing = message

    def demand(self, key: Key, wanted: MetricsQuerySpec | None) -> Demand | None:
        """What a pass sees, for what a service wants; None: nothing is wanted. Later demand is compared to it."""
        if wanted is None:
            return None
        page = self._pages.get(key)
        if page is None or not _same_source(page.wanted, wanted):
            return self._unasked(wanted)
        page.shown = self._aged(page)
        return page.shown

    def tick(self) -> Iterator[Key]:
        """Wakes the services whose demand may matter since they were last woken; yields each that it compares."""
        for key, page in list(self._pages.items()):
            if self._pages.get(key) is not page:
                continue  # replaced while others had their turn
            demand = self._aged(page)
            self.show(key, demand)
            before = page.shown
            if before is None or self._concerns(key, before, demand):
                page.shown = demand
                self._wake(key)
            yield key

    def _aged(self, page: _ServiceDemand) -> Demand:
        by = Seconds(max(0.0, self._clock() - page.at))
        return aged(page.demand, by, page.wanted.stale_after, page.failing)

    def _unasked(self, wanted: MetricsQuerySpec) -> Demand:
        if not self.configured:
            return unknown(Trouble.NOT_CONFIGURED, _NOT_CONFIGURED)
        if wanted.own is not None and not self.allow_queries:
            return unknown(Trouble.QUERIES_NOT_ALLOWED, _NOT_ALLOWED)
        return unknown(Trouble.NOT_ASKED, "Prometheus has not been asked yet")

    def _concerns(self, key: Key, before: Demand, after: Demand) -> bool:
        """Whether the state is another, or a figure has moved and may change a decision.

        Figures move by more than a percent; by less, if they leave those at which the decision was to stay.
        """
        wanted = self._pages[key].wanted
        if _state(before, wanted) != _state(after, wanted):
            return True
        if self.is_quiet(key, after):
            return False
        if _is_late(before, wanted) is not _is_late(after, wanted):
            return True
        figures = zip_longest(_figures(before, wanted), _figures(after, wanted))
        return any(moved(one, other) for one, other in figures) or self.is_quiet(key, before)


def moved(before: float | None, after: float | None) -> bool:
    """Whether a figure differs by more than a percent; what becomes known, or is no longer, does."""
    if before is None or after is None:
        return before is not after
    return abs(after - before) > MOVE * max(abs(before), abs(after))


def _same_source(one: MetricsQuerySpec, other: MetricsQuerySpec) -> bool:
    """Whether the rates that answer one are those of the other."""
    return (one.window, one.own) == (other.window, other.own)


def _state(demand: Demand, wanted: MetricsQuerySpec) -> tuple[object, ...]:
    """What counts however little figures move: of 99 % in time and 98.6 %, one keeps the SLO and one does not."""
    window = max(wanted.up_window, demand.step)
    late = (judge(demand, wanted.percentile, window) for judge in (attained_below, surely_missed))
    return demand.freshness, demand.trouble, bool(demand.attained), demand.mix is None, *late


def _is_late(demand: Demand, wanted: MetricsQuerySpec) -> bool:
    """What keeps instances that could go. By itself it wakes nobody who stays quiet: single samples come and go."""
    return is_late(demand, wanted.percentile, max(wanted.up_window, demand.step))


def _figures(demand: Demand, wanted: MetricsQuerySpec) -> Iterator[float | None]:
    """What decisions read: the newest rate, the extremes of the windows, the newest attainment, the mix."""
    yield demand.latest.qps if demand.latest else None
    for window in (wanted.up_window, wanted.down_window):
        yield lowest(demand, window)
        yield highest(demand, window)
    yield demand.attained[-1].share if demand.attained else None
    yield demand.mix_queries
    if demand.mix is not None:
        yield from demand.mix.batches
        yield from demand.mix.shares
