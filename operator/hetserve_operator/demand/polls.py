"""Polls of Prometheus: of the contract, a few grouped queries however many services there are; and of own queries.

A service with queries of its own is asked by itself, and fails by itself.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import ClassVar, Final, Protocol

from hetserve.demand.answers import Series
from hetserve.demand.grouped import Grouped, buckets_by_service, buckets_of, take_apart
from hetserve.demand.observed import Trouble
from hetserve.demand.queries import (
    MIX_WINDOW,
    MetricsQuerySpec,
    OwnQueries,
    Part,
    Place,
    Query,
    group_of,
    group_queries,
    groups,
    mix_query,
    own_queries,
)
from hetserve.demand.reading import PrometheusSamples, read_demand, unknown
from hetserve_operator.demand.cache import DemandCache
from hetserve_operator.demand.prometheus import CONNECTIONS, PrometheusError
from hetserve_operator.metrics import OperatorMetrics
from hetserve_operator.workqueue import Key
from hetserve_shell.tasks.slices import Slices

log = logging.getLogger(__name__)

CONTRACT: Final = "Hetserve"
QUERIES: Final = "Queries"
"""Sources, as spec.metrics.source names them."""


class Asking(Protocol):
    """A Prometheus server."""

    async def clock(self) -> float:
        """Its own time [Unix seconds]. Raises PrometheusError."""
        ...

    async def ask(self, query: Query, now: float, /) -> list[Series]:
        """Series of a query at `now` [Unix seconds]. Raises PrometheusError."""
        ...


Answer = list[Series] | PrometheusError


async def ask_all(prometheus: Asking, queries: Iterable[Query], now: float) -> list[Answer]:
    """The answer to each query; one that fails leaves the others theirs."""

    async def one(query: Query) -> Answer:
        try:
            return await prometheus.ask(query, now)
        except PrometheusError as error:
            return error

    return await asyncio.gather(*map(one, queries))


@dataclass(eq=False)
class Poll:
    """One kind of polls. source: as spec.metrics.source names it; clock: seconds."""

    source: ClassVar[str]
    _cache: DemandCache
    _prometheus: Asking
    _metrics: OperatorMetrics
    _clock: Callable[[], float]
    _pauses: Pauses
    _trouble: str = field(default="", init=False)

    async def time(self, keys: Iterable[Key]) -> float | None:
        """Prometheus's time; None: it does not answer, so that the demand of these services ages."""
        try:
            return await self._prometheus.clock()
        except PrometheusError as error:
            self.fail(keys, error)
            return None

    def fail(self, keys: Iterable[Key], error: PrometheusError) -> None:
        """Prometheus does not answer about these services: logged once, until it does or its message changes."""
        if self._trouble != (message := str(error)):
            log.warning("demand is not measured: %s", message)
        self._trouble = message
        self.count("failed")
        for key in keys:
            self._cache.fail(key, message)

    def settle(self) -> None:
        """Prometheus answers."""
        if self._trouble:
            log.info("demand is measured again")
        self._trouble = ""

    def count(self, result: str) -> None:
        self._metrics.demand_polls.labels(self.source, result).inc()


LONGEST_PAUSE: Final = 300.0
"""Seconds until a question that fails again and again is asked once more."""


@dataclass(frozen=True, slots=True)
class _Failures:
    """In a row, of a question. until: not asked before [s]."""

    question: object
    count: int
    until: float


class Pauses:
    """Services whose questions have failed. interval: seconds between two polls; clock: seconds."""

    def __init__(self, clock: Callable[[], float], interval: float) -> None:
        self._clock = clock
        self._interval = interval
        self._of: dict[Key, _Failures] = {}

    def __contains__(self, key: Key) -> bool:
        """Whether the last question of a service has failed."""
        return key in self._of

    def keep(self, keys: Collection[Key]) -> None:
        """Forgets all other services."""
        self._of = {key: failed for key, failed in self._of.items() if key in keys}

    def is_due(self, key: Key, question: object) -> bool:
        """Whether to ask; another question than the one that failed at once."""
        failed = self._of.get(key)
        return failed is None or failed.question != question or failed.until <= self._clock()

    def fail(self, key: Key, question: object) -> None:
        """Doubles the pause of a service, from one interval on."""
        count = self._of[key].count + 1 if key in self._of else 1
        pause = min(self._interval * 2.0 ** (count - 1), LONGEST_PAUSE)
        self._of[key] = _Failures(question, count, self._clock() + pause - self._interval / 2)

    def note(self, key: Key, question: object) -> None:
        """A part of its question has failed, so that it is asked again without a pause."""
        self._of[key] = _Failures(question, 0, self._clock())

    def settle(self, keys: Collection[Key]) -> None:
        """Their questions were answered."""
        for key in keys:
            self._of.pop(key, None)


MIX_INTERVAL: Final = 60.0
"""Seconds between two queries for the mix, which is over ten minutes."""


Members = dict[Key, MetricsQuerySpec]


@dataclass(eq=False)
class ContractPoll(Poll):
    """Asks for all services that hetserve's own metrics measure.

    A question that Prometheus refuses is asked anew about half of its services, until it is known who is to blame. Who
    is asked about alone from then on, and ever more seldom where no rates come.
    """

    source = CONTRACT
    _sleep: Callable[[float], Awaitable[object]]
    _buckets: dict[Place, dict[float, float]] = field(default_factory=dict, init=False)
    _buckets_at: float = field(default=-math.inf, init=False)
    _mix_trouble: dict[Place, str] = field(default_factory=dict, init=False)

    async def ask(self) -> float | None:
        """Prometheus's time; None: nothing was to be asked, or it does not answer."""
        members = self._cache.to_ask(own=False)
        at = self._clock()
        now = await self.time(members) if members else None
        if now is None:
            return None
        await self._ask_mix(list(members.values()), now)
        self._pauses.keep(members)
        together = {key: one for key, one in members.items() if key not in self._pauses}
        for group in groups(together.values()):
            of_group = {key: one for key, one in together.items() if group.holds(one)}
            await self._ask_group(of_group, now, at, named=len(of_group) < len(members))
        for key, one in members.items():
            if key in self._pauses and self._pauses.is_due(key, one):
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
            self._pauses.settle(members)
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
            self._pauses.note(key, wanted)
            return
        self._pauses.fail(key, wanted)
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


class OwnPoll(Poll):
    """Asks the queries of services."""

    source = QUERIES

    async def ask(self) -> float | None:
        """Prometheus's time; None: nothing was to be asked, or it does not answer."""
        members = self._cache.to_ask(own=True)
        self._pauses.keep(members)
        due = {key: (one, one.own) for key, one in members.items() if one.own and self._pauses.is_due(key, one.own)}
        at = self._clock()
        now = await self.time(due) if due else None
        if now is None:
            return None
        self.settle()
        turns = asyncio.Semaphore(CONNECTIONS)

        async def one(key: Key, wanted: MetricsQuerySpec, own: OwnQueries) -> None:
            async with turns:
                asked_at = self._clock()
                await self._ask_one(key, wanted, own, now + (asked_at - at), asked_at)

        await asyncio.gather(*(one(key, *rest) for key, rest in due.items()))
        return now

    async def _ask_one(self, key: Key, wanted: MetricsQuerySpec, own: OwnQueries, now: float, at: float) -> None:
        queries = own_queries(wanted, own)
        answers = dict(zip(queries, await ask_all(self._prometheus, queries.values(), now), strict=True))
        rate = answers[Part.RATE]
        if isinstance(rate, PrometheusError):
            self._rate_failed(key, wanted, own, rate, at)
            return
        self._pauses.settle([key])
        last = queries[Part.RATE].last_moment(now)
        answered = _answered(rate, answers, last)
        self._cache.take(key, wanted, read_demand(wanted, answered, now), at)
        self.count("ok")

    def _rate_failed(
        self, key: Key, wanted: MetricsQuerySpec, own: OwnQueries, error: PrometheusError, at: float
    ) -> None:
        """A refused query is wrong until it is edited, or Prometheus knows more; one without an answer may get one."""
        self.count("refused" if error.refused else "failed")
        message = f"spec.metrics.queries.{Part.RATE} {own.rate!r}: {error}"
        if error.refused:
            message = f"{message}; it must be PromQL for queries/s"
            self._cache.take(key, wanted, unknown(Trouble.QUERY_REFUSED, message), at)
        else:
            self._cache.fail(key, message)
        self._pauses.fail(key, own)


def _answered(rate: list[Series], answers: Mapping[Part, Answer], last: float) -> PrometheusSamples:
    """Answers about one service; those beside the rate that failed are notes."""
    notes: list[str] = []
    latency, batches = answers.get(Part.LATENCY), answers.get(Part.BATCH_SIZES)
    if isinstance(latency, PrometheusError):
        notes.append(f"attainment is not known: spec.metrics.queries.{Part.LATENCY}: {latency}")
        latency = None
    buckets: dict[float, float] | None = None
    trouble: object = batches if isinstance(batches, PrometheusError) else None
    if isinstance(batches, list):
        try:
            buckets = buckets_of(batches)
        except ValueError as error:
            trouble = error
    if trouble is not None:
        notes.append(f"the mix of batch sizes is not known: spec.metrics.queries.{Part.BATCH_SIZES}: {trouble}")
    return PrometheusSamples(last=last, rate=rate, latency=latency, buckets=buckets, notes=tuple(notes))


EARLY: Final = 2.0
"""Seconds for which new wishes are gathered before Prometheus is asked out of turn."""
_JUST_AFTER: Final = 0.1
"""Seconds after a moment of Prometheus's clock at which its samples are there."""


class DemandPoller:
    """Fills a cache with demand: one loop for the contract, one for own queries, so that these delay only their kind.

    prometheus, own: two ways to the same server, the second for services' own queries.

    wanted: what each service wants now. interval: seconds; clock: seconds.
    """

    def __init__(
        self,
        cache: DemandCache,
        prometheus: Asking,
        own: Asking,
        wanted: Callable[[], Mapping[Key, MetricsQuerySpec]],
        metrics: OperatorMetrics,
        *,
        interval: float,
        clock: Callable[[], float],
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        self._cache = cache
        self._wanted = wanted
        self._metrics = metrics
        self._interval = interval
        self._clock = clock
        self._sleep = sleep
        self._early = {source: asyncio.Event() for source in (CONTRACT, QUERIES)}
        self._contract = ContractPoll(cache, prometheus, metrics, clock, Pauses(clock, interval), sleep)
        self._own = OwnPoll(cache, own, metrics, clock, Pauses(clock, interval))

    def loops(self) -> list[Callable[[], Awaitable[None]]]:
        """What to run until it is cancelled."""
        asks = {CONTRACT: self._contract.ask, QUERIES: self._own.ask}
        return [partial(self._run, source, ask) for source, ask in asks.items()]

    def soon(self) -> None:
        """Asks out of turn: what a service wants has changed."""
        for event in self._early.values():
            event.set()

    async def poll(self) -> float | None:
        """Asks for the services of the contract once; Prometheus's time, None without an answer."""
        return await self._poll(CONTRACT, self._contract.ask)

    async def _run(self, source: str, ask: Callable[[], Awaitable[float | None]]) -> None:
        while True:
            begun = self._clock()
            self._early[source].clear()
            now = await self._poll(source, ask)
            # What is asked for are multiples of a step by Prometheus's clock: a new one is asked for as it comes.
            passed = 0.0 if now is None else (now + self._clock() - begun) % self._interval - _JUST_AFTER
            await self._pause(source, self._interval - passed)

    async def _poll(self, source: str, ask: Callable[[], Awaitable[float | None]]) -> float | None:
        self._cache.follow(self._wanted())
        asks = bool(self._cache.to_ask(own=source == QUERIES))
        with self._metrics.demand_seconds.labels(source).time() if asks else contextlib.nullcontext():
            now = await ask()
            await self._tick()
        return now

    async def _pause(self, source: str, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._early[source].wait()
                await self._sleep(EARLY)

    async def _tick(self) -> None:
        slices = Slices(self._sleep)
        for _ in self._cache.tick():
            await slices.turn()
