"""The whole operator but for kopf and the network, over an API server in memory: for tests, here and of users."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any

from hetserve.api.kinds import INFERENCE_SERVICE, KINDS
from hetserve.planning import plan
from hetserve.planning.inputs import PlanSettings
from hetserve.planning.plan import Plan
from hetserve.planning.problem import Problem
from hetserve.testing.apiserver import FakeApiServer
from hetserve.testing.controllers import Controllers
from hetserve_operator.api import ApiRefusalError
from hetserve_operator.apply import Writer
from hetserve_operator.cache import Cache
from hetserve_operator.controller import Controller, StuckError
from hetserve_operator.metrics import Metrics
from hetserve_operator.observe import Observer
from hetserve_operator.workqueue import Key
from hetserve_shell.kube.connection import ApiUnreachableError

Json = dict[str, Any]
_FOLDERS = {
    "Deployment": ("/apis/apps/v1", "deployments"),
    "ReplicaSet": ("/apis/apps/v1", "replicasets"),
    "Node": ("/api/v1", "nodes"),
    "Pod": ("/api/v1", "pods"),
}


decided = lru_cache(maxsize=4096)(plan)
"""The default planner, a pure function, remembered over all labs: simulated crashes ask the same many times."""


class CrashError(BaseException):
    """The operator's end at this very request; nothing in it may catch this."""


class Lab:
    """An operator with its cluster. clock: seconds, moved by the test only."""

    def __init__(self, planner: Callable[[Problem], Plan] = decided) -> None:
        self.api = FakeApiServer(ApiRefusalError)
        self.cluster = Controllers(self.api)
        self.clock = 1000.0
        self._planner = planner
        self.metrics = Metrics()
        self.restart()

    def restart(self) -> None:
        """A new operator process: everything that is only remembered is gone."""
        self.observer = Observer(self.api, Cache(), PlanSettings(), self._now)
        writer = Writer(self.api, "lab", self._now)
        self.controller = Controller(self.observer, writer, self.metrics, lambda: self.clock, self._planner)

    def add(self, *manifests: Mapping[str, Any]) -> None:
        """Create or replace objects as a user would."""
        for raw in manifests:
            self.api.put(path_of(raw), copy.deepcopy(dict(raw)))

    def edit(self, path: str, change: Callable[[Json], object]) -> None:
        """Change an object in place as somebody with every right."""
        raw = copy.deepcopy(self.api.objects[path])
        change(raw)
        self.api.put(path, raw)

    async def look(self, key: Key) -> bool:
        """One look of the operator at a service, with fresh caches; False: it failed and is to be repeated."""
        try:
            await self.observer.relist()
            await self.controller.reconcile(key)
        except (ApiRefusalError, ApiUnreachableError, StuckError):
            return False
        return True

    async def round(self) -> bool:
        """The operator looks at every service, then the cluster moves by one stage, then a second passes."""
        keys = [Key(path.split("/")[-3], path.split("/")[-1]) for path, _ in self.api.items(INFERENCE_SERVICE.plural)]
        well = all([await self.look(key) for key in keys])
        self.cluster.tick()
        self.clock += 1.0
        return well

    async def converge(self, rounds: int = 120) -> int:
        """Rounds until nothing changes any more. Raises AssertionError where that does not come."""
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
        """A service as it is stored."""
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


def path_of(raw: Mapping[str, Any]) -> str:
    """Where the API server keeps an object."""
    namespace = raw["metadata"].get("namespace")
    if raw["kind"] in KINDS:
        return KINDS[raw["kind"]].path(namespace, raw["metadata"]["name"])
    group, folder = _FOLDERS[raw["kind"]]
    place = f"{group}/namespaces/{namespace}" if namespace else group
    return f"{place}/{folder}/{raw['metadata']['name']}"
