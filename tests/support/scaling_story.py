"""A service that follows its load beside two others, and everything that happens to it, in virtual time.

The whole operator with its real planner queue and demand book, over an API server in memory. It looks at a service only
where something asks for it: an object that changed, an answer of a planner, a load, or the time that it named itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from random import Random
from typing import Any, Final

from hetserve.api.names import LABEL_INSTANCE_TYPE, LABEL_SERVICE
from hetserve.base.units import QPS, Seconds
from hetserve.demand.mix import BatchMix
from hetserve.demand.observed import Demand, Freshness, RateSample, ShareSample
from hetserve.demand.queries import MetricsQuerySpec, wanted_of
from hetserve.planning.reach import JobResult, PlannerJob
from hetserve.reconcile.cluster.observed import read_service
from hetserve.reconcile.deployments.build import deployment_name
from hetserve.reconcile.plans.planner import PlannerTimedOut
from hetserve_operator.demand.cache import DemandCache
from hetserve_operator.plans.queue import PlannerQueue, Ticket
from hetserve_operator.workqueue import Key
from hetserve_shell.kube.client import ApiServer
from testing.builders import REMOVED, instance_type, model_profile, service
from testing.operator import CrashError, SimulatedOperator, path_of
from testing.operator.planning import decided, judged, worked_out
from testing.scenes import node
from unsafe_line import Line

Json = dict[str, Any]
KINDS: Final = ("small", "middle", "large")
RATES: Final = {"small": 10.0, "middle": 25.0, "large": 60.0}
"""Queries/s of an instance, of one item each."""
HEAVY: Final = 1001
"""Items of a large query, which takes twice the time."""
PRICES: Final = {"small": 100_000, "middle": 260_000, "large": 500_000}
"""Micro-dollars/h of an instance; none is the cheapest at every load."""
ROOM: Final = {"small": 8, "middle": 4, "large": 3}
"""GPUs of each type, each for one instance."""
SERVICE: Final = path_of(service("rm2"))
RM2: Final = Key("default", "rm2")
OTHER: Final = Key("default", "other")
BROKEN: Final = Key("default", "broken")
UP, DOWN, POLL = 10.0, 60.0, 5.0
"""Stabilization windows, and time between polls [s]."""
STALE: Final = 30.0
LAUNCH: Final = 20.0
_STARTED: Final = datetime(2026, 1, 1, tzinfo=UTC)


def kind_of(name: str, price: int) -> Json:
    return instance_type(
        name, {"spec.price.hourly": f"{price / 1e6:.6f}", "spec.launchTime": f"{LAUNCH:g}s", "spec.resources": REMOVED}
    )


def profile(model: str, kind: str, rate: float) -> Json:
    line = {"intercept": f"{1000 / rate * (1 - 1 / (HEAVY - 1)):.6f}ms", "slope": f"{1000 / rate / (HEAVY - 1):.9f}ms"}
    return model_profile(
        f"{model}-{kind}", {"spec.model": model, "spec.instanceType": kind, "spec.latency": {"linear": line}}
    )


def scene() -> list[Json]:
    """rm2 follows its load on three types; `other` has a type of its own; `broken` cannot be read."""
    mincost = {"spec.objective": "MinCost", "spec.planner": "ilp", "spec.budget": REMOVED}
    own = {**mincost, "spec.load.expectedQPS": 15, "spec.instanceTypes": {"names": ["own"]}}
    scaling = {
        "scaleUp": {"lookAhead": "None", "stabilizationWindow": f"{UP:g}s"},
        "scaleDown": {"stabilizationWindow": f"{DOWN:g}s"},
    }
    metrics = {"source": "Hetserve", "window": "10s", "staleAfter": f"{STALE:g}s"}
    follows = {"spec.load": REMOVED, "spec.metrics": metrics, "spec.scaling": scaling}
    return [
        *(node(name, name, gpus=gpus, pods=99) for name, gpus in (*ROOM.items(), ("own", 4))),
        *(kind_of(name, PRICES[name]) for name in KINDS),
        *(profile("rm2", name, RATES[name]) for name in KINDS),
        kind_of("own", 100_000),
        profile("other", "own", 10.0),
        service("rm2", {**mincost, **follows, "spec.instanceTypes": {"names": list(KINDS)}}),
        service("other", own),
        service("broken", {**mincost, **follows, "spec.slo.latency": "soon"}),
    ]


@lru_cache(maxsize=65536)
def _draw(second: int) -> float:
    return Random(second).uniform(-1, 1)  # noqa: S311


@dataclass
class Load:
    """The true load over time, and what Prometheus makes of it.

    noises: share by which samples vary, from a time on. freshness: of what it answers; None: it does not answer. since:
    it has no samples from before [s]. mixes: share of large queries as measured, from a time on; None: the sizes are
    not measured. queries: how many tell it. told: times at which it was answered, with that share and number. rates:
    times of Fresh answers, with the newest rate. shares: of the queries that were in time, by the time at which they
    were counted.
    """

    steps: list[tuple[float, float]]
    noises: list[tuple[float, float]] = field(default_factory=lambda: [(-1e9, 0.0)])
    freshness: Freshness | None = Freshness.FRESH
    since: float = -1e9
    lower_bound: bool = False
    mixes: list[tuple[float, float | None]] = field(default_factory=lambda: [(-1e9, None)])
    queries: float = 60_000.0
    told: list[tuple[float, float, float]] = field(default_factory=list)
    shares: list[tuple[float, float]] = field(default_factory=list)
    rates: list[tuple[float, float]] = field(default_factory=list)

    def large(self, second: float) -> float | None:
        """Share of large queries as measured at a time of the story, with a noise that is small."""
        share = next(share for begin, share in reversed(self.mixes) if begin <= second)
        return None if share is None else min(max(share + 0.01 * _draw(int(second) + 7), 0.0), 1.0)

    def mix(self, second: float) -> BatchMix | None:
        share = self.large(second)
        weights = ((1, 1.0 - (share or 0.0)), (HEAVY, share or 0.0))
        return None if share is None else BatchMix.of((size, weight) for size, weight in weights if weight > 0)

    def at(self, second: float) -> float:
        """Queries/s at a time of the story."""
        base = next((qps for begin, qps in reversed(self.steps) if begin <= second), self.steps[0][1])
        noise = next(share for begin, share in reversed(self.noises) if begin <= second)
        return base * (1 + noise * _draw(int(second)))

    def highest(self, now: float, window: float) -> float:
        """The largest rate that holds at some moment of a window, of the samples that there are."""
        first = max(int((now - window) // POLL), int(-(-self.since // POLL)))
        return max(self.at(POLL * tick) for tick in range(first, int(now // POLL) + 1))

    def answer(self, now: float) -> Demand | None:
        """The demand as Prometheus gives it at a time of the story; None: no answer."""
        moment = _STARTED.timestamp() + now
        if self.freshness is None:
            return None
        if self.freshness is not Freshness.FRESH:
            return Demand(self.freshness, f"for a test: {self.freshness}", moment)
        ticks = [POLL * tick for tick in range(int((now - 300) // POLL), int(now // POLL) + 1)]
        samples = [RateSample(_STARTED.timestamp() + at, QPS(self.at(at))) for at in ticks if at >= self.since]
        if not samples:
            return Demand(Freshness.MISSING, "nothing was ever measured", moment)
        self.rates.append((now, samples[-1].qps))
        share = self.large(now)
        if share is not None:
            self.told.append((now, share, self.queries))
        found = Demand(Freshness.FRESH, "", moment, tuple(samples), Seconds(10.0), Seconds(POLL))
        late = [(at, share) for at, share in self.shares if max(now - 300, self.since) <= at]
        attained = (ShareSample(_STARTED.timestamp() + at, share, 10.0 * self.at(at)) for at, share in late)
        found = replace(found, attained=tuple(attained))
        return replace(found, lower_bound=self.lower_bound, mix=self.mix(now), mix_queries=self.queries)


class Planners:
    """Answers the tickets of a planner queue. takes: rounds for each; fails: the next so many are stopped."""

    def __init__(self, book: PlannerQueue) -> None:
        self._book = book
        self._planned: tuple[Ticket, int] | None = None
        self.takes = 0
        self.fails = 0

    def round(self) -> None:
        """Every answer that is due."""
        while self._next() is not None:
            ticket, left = self._planned  # type: ignore[misc]
            if left > 0:
                self._planned = ticket, left - 1
                return
            self._planned = None
            self.fails, failed = max(0, self.fails - 1), self.fails > 0
            answer = PlannerTimedOut("ilp", Seconds(60.0)) if failed else _answered(ticket.work)
            self._book.settle(ticket, answer)

    def _next(self) -> tuple[Ticket, int] | None:
        if self._planned is not None and not self._book.is_planned(self._planned[0]):
            self._planned = None
        if self._planned is None:
            ticket = self._book.take()
            self._planned = None if ticket is None else (ticket, self.takes)
        return self._planned

    @property
    def busy(self) -> bool:
        return self._planned is not None or len(self._book) > 0


def _answered(work: PlannerJob) -> JobResult:
    """Of real planners; what is within reach is not tried, which takes a hundredth of the time."""
    if work.kind != "Decision":
        return worked_out(replace(work, quick=True))
    return decided(work.problem) if work.counts is None else judged(work.problem, work.counts)


class Story(SimulatedOperator):
    """The operator of the story. A round is a poll, looks at whoever is woken, planners, and a stage of the cluster."""

    def __init__(self) -> None:
        self.load = Load([(0.0, 30.0)])
        self.truth: float | None = None
        """What an instance really carries / what its profile says; None: latencies are not measured."""
        self.takes = self.fails = 0
        self.line: Line | None = None
        self.woken: set[Key] = set()
        self.wakes: dict[Key, float] = {}
        self._seen: dict[str, str] = {}
        self._wants: dict[Key, tuple[int, MetricsQuerySpec | None]] = {}
        self.waits: dict[Key, float] = {}
        super().__init__(plans=self._minds())
        self.cluster.clock = self.moment
        self.demand = lambda key, _moment: self.measured.demand(key, self.wanted(key))
        self.add(*scene())

    def moment(self) -> datetime:
        return _STARTED + timedelta(seconds=self.clock)

    def connection(self) -> ApiServer:
        """A process's line; writes of processes that are gone may still be on theirs."""
        self.line = Line(self.api, self.line)
        return self.line

    def _minds(self) -> PlannerQueue:
        """What a process remembers of plans and loads: nothing, when it starts."""
        book = PlannerQueue(lambda: self.clock, self.woken.add)
        self.planners = Planners(book)
        self.planners.takes, self.planners.fails = self.takes, self.fails
        self.measured = DemandCache(lambda: self.clock, self.woken.add, configured=True, is_quiet=self._is_quiet)
        return book

    def _is_quiet(self, key: Key, demand: Demand) -> bool:
        return self.observer.interests.is_quiet(key, demand)

    def crash(self) -> None:
        """The process ends, with all that it remembers; another starts, and looks at everybody."""
        self.restart(self._minds())
        self.wakes.clear()
        self._seen.clear()

    def wanted(self, key: Key) -> MetricsQuerySpec | None:
        """What a service wants measured, as its spec says now."""
        raw = self.service(key.name, key.namespace)
        generation = raw["metadata"]["generation"]
        if self._wants.get(key, (None,))[0] != generation:
            found = read_service(raw)
            self._wants[key] = generation, None if isinstance(found, str) else wanted_of(found, key.namespace)
        return self._wants[key][1]

    async def round(self) -> bool:
        """As above; False if a look failed and is due again."""
        self.planners.takes = self.takes
        self._poll()
        well = await self._looks()
        self.planners.round()
        self.cluster.tick()
        self.clock += POLL
        return well

    def serving(self) -> dict[str, int]:
        """Instances of rm2 that serve, by type."""
        found = dict.fromkeys(KINDS, 0)
        for path, raw in self.api.objects.items():
            labels = raw["metadata"].get("labels") or {}
            if "/pods/" not in path or labels.get(LABEL_SERVICE) != "rm2" or "deletionTimestamp" in raw["metadata"]:
                continue
            conditions = (raw.get("status") or {}).get("conditions") or ()
            ready = any((one["type"], one["status"]) == ("Ready", "True") for one in conditions)
            found[labels[LABEL_INSTANCE_TYPE]] += ready
        return found

    def carries(self, counts: Mapping[str, int]) -> bool:
        """Whether instances really carry the load of now."""
        each = 1 + (self.load.large(self.clock) or 0.0)
        held = sum(RATES[kind] * n for kind, n in counts.items()) / each
        return self.truth is None or self.load.at(self.clock) <= self.truth * held

    def _count_late(self) -> None:
        if self.truth is not None:
            self.load.shares.append((self.clock, 1.0 if self.carries(self.serving()) else 0.5))

    def _poll(self) -> None:
        self._count_late()
        wanted, demand = self.wanted(RM2), self.load.answer(self.clock)
        self.measured.follow({} if wanted is None else {RM2: wanted})
        if demand is None or wanted is None:
            self.measured.fail(RM2, "no answer")
        else:
            self.measured.take(RM2, wanted, demand, self.clock)
        for _ in self.measured.tick():
            pass

    async def _looks(self) -> bool:
        self._wake()
        due, well = sorted(self.woken), True
        self.woken.clear()
        for key in due:
            try:
                well = await self._look(key) and well
            except CrashError:
                self.crash()
                return False
        return well

    async def _look(self, key: Key) -> bool:
        """A look as the work queue makes it: again after a failure, and when it asks for one."""
        self.wakes.pop(key, None)
        if not await self.look(key):
            self.woken.add(key)
            return False
        wait = self.waits.pop(key, None)
        if wait is not None:
            self.wakes[key] = self.clock + wait
        return True

    async def look(self, key: Key) -> bool:
        """As of the operator; what the last reconciliation waits for is kept."""
        reconcile = self.controller.reconcile

        async def kept(key: Key) -> float | None:
            wait = await reconcile(key)
            if wait is not None:
                self.waits[key] = wait
            return wait

        self.controller.reconcile = kept  # type: ignore[method-assign]
        try:
            return await super().look(key)
        finally:
            self.controller.reconcile = reconcile  # type: ignore[method-assign]

    def _wake(self) -> None:
        """Whom an object that has changed concerns: everybody; and whoever asked for this time."""
        versions = self.versions()
        if versions != self._seen:
            self.woken |= {RM2, OTHER, BROKEN}
        self._seen = versions
        self.woken |= {key for key, at in self.wakes.items() if at <= self.clock}

    async def rest(self, quiet: float = 400.0, most: int = 400) -> int:
        """Rounds until nothing has changed for so many seconds, past everything that is remembered for a time."""
        since = self.clock
        for count in range(most):
            before = self.versions()
            await self.round()
            if before != self.versions() or self.planners.busy or self.woken:
                since = self.clock
            elif self.clock - since >= quiet:
                return count
            else:
                self._pass(3)
        raise AssertionError(f"still changing after {most} rounds; last writes: {self.api.writes[-8:]}")

    def _pass(self, polls: int) -> None:
        """Time of so many polls, in which Prometheus goes on to count."""
        for _ in range(polls):
            self._count_late()
            self.clock += POLL

    def type_path(self, kind: str) -> str:
        return path_of(kind_of(kind, 1))

    def deployment(self, kind: str) -> str:
        return f"/apis/apps/v1/namespaces/default/deployments/{deployment_name('rm2', kind)}"

    def spec(self, change: Callable[[Json], object]) -> None:
        """Edits the spec of rm2."""
        self.edit(SERVICE, lambda raw: change(raw["spec"]))
