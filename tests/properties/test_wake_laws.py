"""A service that a change of the cluster does not wake has nothing to do."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from changing_cluster import PROFILES, SERVICES, THINGS, Json, Watches
from effort import examples
from hetserve.api.kinds import INFERENCE_SERVICE
from hetserve_operator.watch.handlers import EventHandlers
from hetserve_operator.workqueue import Key
from testing.builders import service
from testing.operator import SimulatedOperator, path_of
from testing.scenes import GPU_TYPE, node, rm2_scene


def put(raw: Json) -> Callable[[SimulatedOperator], None]:
    return lambda sim: sim.add(raw)


def remove(raw: Json) -> Callable[[SimulatedOperator], None]:
    return lambda sim: sim.api.remove(path_of(raw))


CHANGES = st.one_of(
    st.sampled_from(THINGS).map(lambda raw: ("put", raw)), st.sampled_from(THINGS).map(lambda raw: ("remove", raw))
)


class Watched:
    """A simulated operator that looks only at the services that events wake, as the real one does."""

    def __init__(self) -> None:
        self.sim = SimulatedOperator()
        self.sim.add(*rm2_scene(), *SERVICES, PROFILES[0])
        self.woken: set[Key] = set()
        wake = self.woken.add
        feed = EventHandlers(self.sim.cache, self.sim.observer.interests, wake, wake, wake)
        self.events = Watches(self.sim.api, feed).tell

    async def settle(self) -> None:
        """Looks at whom events wake, and moves the cluster, until nothing changes."""
        for _ in range(200):
            self.events()
            keys = sorted(self.woken)
            self.woken.clear()
            for key in keys:
                wait = await self.sim.controller.reconcile(key)
                if wait is not None and wait < 1.0:
                    self.woken.add(key)
            before = self.sim.versions()
            self.sim.cluster.tick()
            self.sim.clock += 1.0
            if not self.woken and not keys and before == self.sim.versions():
                return
        raise AssertionError(f"still changing: {self.sim.api.writes[-6:]}")

    async def change(self, act: Callable[[SimulatedOperator], None]) -> None:
        """Makes a change, and shows that a look at anybody else writes nothing."""
        act(self.sim)
        self.events()
        everybody = {Key("default", raw["metadata"]["name"]) for raw in (*SERVICES, service("rm2"))}
        for key in sorted(everybody - self.woken):
            written = len(self.sim.api.writes)
            await self.sim.controller.reconcile(key)
            assert self.sim.api.writes[written:] == [], f"{key} was not woken"


@settings(max_examples=examples(25), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(CHANGES, min_size=1, max_size=12))
def test_whoever_is_not_woken_has_nothing_to_do(changes: list[tuple[str, Json]]) -> None:
    async def story() -> None:
        watched = Watched()
        await watched.settle()
        for kind, raw in changes:
            await watched.change(put(raw) if kind == "put" else remove(raw))
            await watched.settle()

    asyncio.run(story())


def test_a_service_whose_ideal_plan_runs_is_woken_by_no_node_and_one_that_lacks_room_is() -> None:
    async def story() -> None:
        watched = Watched()
        await watched.settle()
        watched.sim.add(node("gpu-9", GPU_TYPE, gpus=1))
        watched.events()
        assert Key("default", "starved") in watched.woken
        assert Key("default", "missing") not in watched.woken
        (idle,) = [
            raw for _, raw in watched.sim.api.items(INFERENCE_SERVICE.plural) if raw["metadata"]["name"] == "named"
        ]
        assert next(c for c in idle["status"]["conditions"] if c["type"] == "Ready")["status"] == "True"
        assert Key("default", "named") not in watched.woken

    asyncio.run(story())
