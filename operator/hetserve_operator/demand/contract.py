"""One poll of the services of the contract: a few grouped queries per window, however many services there are."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from hetserve.demand.grouped import Grouped, Place, buckets_by_service, take_apart
from hetserve.demand.queries import MIX_WINDOW, Group, Part, group_queries, groups, mix_query
from hetserve.demand.reading import read_demand
from hetserve.demand.wanted import Wanted
from hetserve_operator.demand.asking import CONTRACT, Asking, Complaint, ask_all
from hetserve_operator.demand.book import DemandBook
from hetserve_operator.demand.prometheus import PrometheusError
from hetserve_operator.metrics import OperatorMetrics
from hetserve_operator.workqueue import Key
from hetserve_shell.tasks.slices import Slices

MIX_INTERVAL: Final = 60.0
"""Seconds between two queries for the mix, which is over ten minutes."""


class ContractPoll:
    """Asks for all services that hetserve's own metrics measure. clock: seconds."""

    def __init__(
        self,
        book: DemandBook,
        prometheus: Asking,
        metrics: OperatorMetrics,
        clock: Callable[[], float],
        sleep: Callable[[float], Awaitable[object]],
    ) -> None:
        self._book = book
        self._prometheus = prometheus
        self._metrics = metrics
        self._clock = clock
        self._sleep = sleep
        self._buckets: dict[Place, dict[float, float]] = {}
        self._buckets_at = float("-inf")
        self._mix_trouble = ""
        self._complaint = Complaint()

    async def ask(self) -> float | None:
        """Prometheus's time; None: nothing was to be asked, or it does not answer."""
        members = self._book.to_ask(own=False)
        if not members:
            return None
        at = self._clock()
        try:
            now = await self._prometheus.clock()
        except PrometheusError as error:
            self._fail(members, error)
            return None
        await self._ask_mix(now)
        for group in groups(members.values()):
            await self._ask_group(group, {k: one for k, one in members.items() if one.window == group.window}, now, at)
        return now

    async def _ask_group(self, group: Group, members: Mapping[Key, Wanted], now: float, at: float) -> None:
        """Without rates, or the times of their samples, there is no answer; without the rest there is a note."""
        queries = group_queries(group)
        answers = dict(zip(queries, await ask_all(self._prometheus, queries.values(), now), strict=True))
        failed = {part: answer for part, answer in answers.items() if isinstance(answer, PrometheusError)}
        if vital := failed.get(Part.RATE) or failed.get(Part.SAMPLED_AT):
            self._fail(members, vital)
            return
        notes = [f"attainment is not known: {error}" for error in list(failed.values())[:1]]
        found = {part: [] if isinstance(answer, PrometheusError) else answer for part, answer in answers.items()}
        await self._read(take_apart(found, now), members, (*notes, *filter(None, (self._mix_trouble,))), at)
        self._metrics.demand_polls.labels(CONTRACT, "failed" if failed else "ok").inc()
        self._complaint.settle()

    async def _read(self, grouped: Grouped, members: Mapping[Key, Wanted], notes: tuple[str, ...], at: float) -> None:
        slices = Slices(self._sleep)
        for key, wanted in members.items():
            answered = grouped.answered(wanted, self._buckets.get((wanted.namespace, wanted.name)), notes)
            self._book.take(key, wanted, read_demand(wanted, answered, grouped.now), at)
            await slices.turn()

    async def _ask_mix(self, now: float) -> None:
        """Asks for the mix if it is time; a failure leaves the last one for as long as its queries' window."""
        age = self._clock() - self._buckets_at
        if age < MIX_INTERVAL:
            return
        try:
            self._buckets = buckets_by_service(await self._prometheus.ask(mix_query(), now))
            self._mix_trouble = ""
            if self._buckets:  # else those who serve have only begun
                self._buckets_at = self._clock()
        except PrometheusError as error:
            if age > MIX_WINDOW:
                self._buckets = {}
                self._mix_trouble = f"the mix of batch sizes is not known: {error}"

    def _fail(self, members: Mapping[Key, Wanted], error: PrometheusError) -> None:
        self._complaint.tell(str(error))
        self._metrics.demand_polls.labels(CONTRACT, "failed").inc()
        for key in members:
            self._book.fail(key, str(error))
