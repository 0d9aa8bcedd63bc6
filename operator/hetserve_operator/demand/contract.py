"""One poll of the services of the contract: a few grouped queries per window, however many services there are."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Final

from hetserve.demand.grouped import Grouped, buckets_by_service, take_apart
from hetserve.demand.observed import Trouble
from hetserve.demand.queries import (
    MIX_WINDOW,
    MetricsQuerySpec,
    Part,
    Place,
    group_of,
    group_queries,
    groups,
    mix_query,
)
from hetserve.demand.reading import read_demand, unknown
from hetserve_operator.demand.asking import CONTRACT, Asking, Pauses, Poll, ask_all
from hetserve_operator.demand.cache import DemandCache
from hetserve_operator.demand.prometheus import PrometheusError
from hetserve_operator.metrics import OperatorMetrics
from hetserve_operator.workqueue import Key
from hetserve_shell.tasks.slices import Slices

MIX_INTERVAL: Final = 60.0
"""Seconds between two queries for the mix, which is over ten minutes."""


Members = dict[Key, MetricsQuerySpec]


class ContractPoll(Poll):
    """Asks for all services that hetserve's own metrics measure. interval: seconds between two polls; clock: seconds.

    A question that Prometheus refuses is asked anew about half of its services, until it is known who is to blame. Who
    is asked about alone from then on, and ever more seldom where no rates come.
    """

    source = CONTRACT

    def __init__(
        self,
        cache: DemandCache,
        prometheus: Asking,
        metrics: OperatorMetrics,
        clock: Callable[[], float],
        sleep: Callable[[float], Awaitable[object]],
        *,
        interval: float,
    ) -> None:
        super().__init__(cache, prometheus, metrics, clock)
        self._sleep = sleep
        self._apart: Pauses[MetricsQuerySpec] = Pauses(clock, interval)
        self._buckets: dict[Place, dict[float, float]] = {}
        self._buckets_at = float("-inf")
        self._mix_trouble: dict[Place, str] = {}

    async def ask(self) -> float | None:
        """Prometheus's time; None: nothing was to be asked, or it does not answer."""
        members = self._cache.to_ask(own=False)
        at = self._clock()
        now = await self.time(members) if members else None
        if now is None:
            return None
        await self._ask_mix(list(members.values()), now)
        self._apart.keep(members)
        together = {key: one for key, one in members.items() if key not in self._apart}
        for group in groups(together.values()):
            of_group = {key: one for key, one in together.items() if group.holds(one)}
            await self._ask_group(of_group, now, at, named=len(of_group) < len(members))
        for key, one in members.items():
            if key in self._apart and self._apart.is_due(key, one):
                await self._ask_group({key: one}, now, at, named=True)
        return now

    async def _ask_group(self, members: Members, now: float, at: float, *, named: bool) -> None:
        """Without rates, or the times of their samples, there is no answer; without the rest there is a note.

        named: asks about these services alone.
        """
        queries = group_queries(group_of([*members.values()]), _places(members.values()) if named else ())
        answers = dict(zip(queries, await ask_all(self._prometheus, queries.values(), now), strict=True))
        failed = {part: answer for part, answer in answers.items() if isinstance(answer, PrometheusError)}
        vital = failed.get(Part.RATE) or failed.get(Part.SAMPLED_AT)
        if any(error.refused for error in failed.values()):
            if not named or len(members) > 1:
                for some in _halves(members) if named else (members,):
                    await self._ask_group(some, now, at, named=True)
                return
            self._set_apart(members, vital, at)
        elif not vital:
            self._apart.settle(members)
        if vital:
            if not vital.refused:
                self.fail(members, vital)
            return
        notes = [f"attainment is not known: {error}" for error in list(failed.values())[:1]]
        found = {part: [] if isinstance(answer, PrometheusError) else answer for part, answer in answers.items()}
        await self._read(take_apart(found, now), members, tuple(notes), at)
        self.count("failed" if failed else "ok")
        self.settle()

    def _set_apart(self, members: Members, vital: PrometheusError | None, at: float) -> None:
        """A service whose own series are refused; without rates its demand is not known."""
        ((key, wanted),) = members.items()
        if vital is None or not vital.refused:
            self._apart.note(key, wanted)
            return
        self._apart.fail(key, wanted)
        self.count("refused")
        message = f"{vital}; it was asked about this service alone: its exporter may have too many series"
        self._cache.take(key, wanted, unknown(Trouble.QUERY_REFUSED, message), at)

    async def _read(self, grouped: Grouped, members: Members, notes: tuple[str, ...], at: float) -> None:
        slices = Slices(self._sleep)
        for key, wanted in members.items():
            place = (wanted.namespace, wanted.name)
            said = (*notes, *filter(None, (self._mix_trouble.get(place),)))
            answered = grouped.answered(wanted, self._buckets.get(place), said)
            self._cache.take(key, wanted, read_demand(wanted, answered, grouped.now), at)
            await slices.turn()

    async def _ask_mix(self, members: Sequence[MetricsQuerySpec], now: float) -> None:
        """Asks for the mix if it is time; a failure leaves the last one for as long as its queries' window."""
        age = self._clock() - self._buckets_at
        if age < MIX_INTERVAL:
            return
        before, places = self._mix_trouble, _places(members)
        self._mix_trouble = {}
        try:
            self._buckets = await self._mix_of(places, now, named=False)
            if self._buckets:  # else those who serve have only begun
                self._buckets_at = self._clock()
        except PrometheusError as error:
            self._mix_trouble = before
            if age > MIX_WINDOW:
                self._buckets = {}
                self._mix_trouble = dict.fromkeys(places, _no_mix(error))

    async def _mix_of(self, places: Sequence[Place], now: float, *, named: bool) -> dict[Place, dict[float, float]]:
        """Raises PrometheusError, but for the service whose own series are refused, of which nothing is known."""
        try:
            return buckets_by_service(await self._prometheus.ask(mix_query(places if named else ()), now))
        except PrometheusError as error:
            if not error.refused:
                raise
            if named and len(places) == 1:
                self._mix_trouble[places[0]] = _no_mix(error)
                return {}
        middle = len(places) // 2 if named else len(places)
        parts = [await self._mix_of(some, now, named=True) for some in (places[:middle], places[middle:]) if some]
        return {place: buckets for part in parts for place, buckets in part.items()}


def _no_mix(error: PrometheusError) -> str:
    return f"the mix of batch sizes is not known: {error}"


def _places(members: Iterable[MetricsQuerySpec]) -> list[Place]:
    return sorted((one.namespace, one.name) for one in members)


def _halves(members: Members) -> tuple[Members, Members]:
    """Of those that are sorted, so that services of a namespace stay together."""
    found = sorted(members.items())
    return dict(found[: len(found) // 2]), dict(found[len(found) // 2 :])
