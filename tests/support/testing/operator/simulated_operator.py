"""An operator with its cluster, over an API server in memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from hetserve.api.inference_service import NOT_OBSERVED
from hetserve.api.kinds import INFERENCE_SERVICE
from hetserve.demand.observed import Demand
from hetserve.planning.inputs import PlanSettings
from hetserve.planning.plan import Plan
from hetserve.planning.problem import Problem
from hetserve.reconcile.snapshot import RouterFact
from hetserve_operator.leadership import OperatorLeadership
from hetserve_operator.metrics import OperatorMetrics
from hetserve_operator.plans.queue import PlannerQueue
from hetserve_operator.watch.cache import Cache
from hetserve_operator.watch.observe import Observer
from hetserve_operator.work.announcer import Announcer
from hetserve_operator.work.apply import Writer
from hetserve_operator.work.controller import AFTER_RECORD, Controller, StuckError
from hetserve_operator.workqueue import Key
from hetserve_shell.kube.client import ApiServer, ApiStatusError
from hetserve_shell.kube.connection import ApiUnreachableError
from testing.kit.apiserver import FakeApiServer, path_of
from testing.kit.deployments import copied
from testing.operator.controllers import Controllers
from testing.operator.planning import PlansAtOnce, decided

Json = dict[str, Any]
STATUSES = {INFERENCE_SERVICE.plural: {"observedGeneration": NOT_OBSERVED}}
"""The status that the CRD gives a service by default."""


class CrashError(BaseException):
    """A crash of the operator at a request; the operator must not catch it."""


class SimulatedOperator:
    """An operator with its simulated cluster. clock: seconds, advanced only by the test. settings: from a restart on.

    router: that serves every namespace; None: none does. plans: what answers the questions of its steps; None:
    `planner`, at once. demand: of a service with spec.metrics, at a time; set by the test.
    """

    def __init__(self, planner: Callable[[Problem], Plan] = decided, plans: PlannerQueue | None = None) -> None:
        self.api = FakeApiServer(statuses=STATUSES)
        self.cluster = Controllers(self.api)
        self.clock = 1000.0
        self.settings = PlanSettings()
        self.demand: Callable[[Key, datetime], Demand | None] = lambda _key, _now: None
        self._plans = PlansAtOnce(planner) if plans is None else plans
        self.router: RouterFact | None = None
        self._lags = False
        self.metrics = OperatorMetrics()
        self.restart()

    def restart(self, plans: PlannerQueue | None = None) -> None:
        """Starts a new operator process, with empty memory and cache. plans: None: those of before."""
        self._plans = self._plans if plans is None else plans
        api = self.connection()
        self.cache = Cache()
        self.observer = Observer(
            api,
            self.cache,
            self.settings,
            self._now,
            lambda: self.cluster.counts_pairs,
            demand=lambda key, wanted: None if wanted is None else self.demand(key, self._now()),
            router=lambda _namespace: self.router,
        )
        self.announcer = Announcer(api, "simulated", self._now)
        self.leadership = OperatorLeadership()
        self.controller = Controller(
            self.observer,
            Writer(api),
            self.metrics,
            lambda: self.clock,
            self._plans,
            self.announcer,
            self.leadership,
        )

    def connection(self) -> ApiServer:
        """A new process's way to the API server; subclasses may put a bad network between."""
        return self.api

    def add(self, *manifests: Mapping[str, Any]) -> None:
        """Creates or replaces objects as a user would."""
        for raw in manifests:
            self.api.put(path_of(raw), copied(dict(raw)))

    def edit(self, path: str, change: Callable[[Json], object]) -> None:
        """Changes an object in place, as an administrator."""
        raw = copied(self.api.objects[path])
        change(raw)
        self.api.put(path, raw)

    def lag(self) -> None:
        """From now on no watch tells anything, and lists show as little as they may of what anybody writes."""
        self._lags = True
        self.api.cache.lag(self.api.revision, self.api.objects)

    async def look(self, key: Key) -> bool:
        """Reconciles a service with a fresh cache; False if it failed and must be repeated."""
        try:
            if not self._lags:
                self.api.cache.catch_up()
                await self.observer.relist()
            while await self.controller.reconcile(key) == AFTER_RECORD:
                await self.announcer.post()
            await self.announcer.post()
        except (ApiStatusError, ApiUnreachableError, StuckError):
            return False
        return True

    async def look_all(self) -> bool:
        """Reconciles every service; False if one failed."""
        keys = [Key(path.split("/")[-3], path.split("/")[-1]) for path, _ in self.api.items(INFERENCE_SERVICE.plural)]
        return all([await self.look(key) for key in keys])

    async def round(self) -> bool:
        """Reconciles every service, then moves the cluster by one stage and the clock by a second."""
        well = await self.look_all()
        self.cluster.tick()
        self.clock += 1.0
        return well

    async def converge(self, rounds: int = 120) -> int:
        """Rounds until nothing changes. Raises AssertionError if it still changes after `rounds`."""
        for count in range(rounds):
            before = self.versions()
            well = await self.round()
            if well and before == self.versions():
                return count
        raise AssertionError(f"still changing after {rounds} rounds; last writes: {self.api.writes[-6:]}")

    def versions(self) -> dict[str, str]:
        """resourceVersion of every object."""
        return {path: raw["metadata"]["resourceVersion"] for path, raw in self.api.objects.items()}

    def service(self, name: str = "rm2", namespace: str = "default") -> Json:
        """A stored service."""
        return self.api.objects[INFERENCE_SERVICE.path(namespace, name)]

    def condition(self, kind: str, name: str = "rm2") -> Json:
        """One condition of a service."""
        found: Json = next(c for c in self.service(name)["status"]["conditions"] if c["type"] == kind)
        return found

    def replicas(self) -> dict[str, int]:
        """Replicas of every Deployment by name."""
        return {d["metadata"]["name"]: d["spec"]["replicas"] for _, d in self.api.items("deployments")}

    def _now(self) -> datetime:
        return datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=self.clock)
