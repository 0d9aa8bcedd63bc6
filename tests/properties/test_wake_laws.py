"""A service that a change of the cluster does not wake has nothing to do."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Callable
from functools import partial
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hetserve.api.kinds import INFERENCE_SERVICE, INSTANCE_TYPE, MODEL_PROFILE
from hetserve.testing.builders import instance_type, model_profile, service
from hetserve.testing.cluster import gpu_pod
from hetserve.testing.scenes import CPU_TYPE, GPU_TYPE, cpu_profile, cpu_type, node, rm2_scene
from hetserve_operator.testing import SimulatedOperator, path_of
from hetserve_operator.watch.handlers import EventHandlers
from hetserve_operator.workqueue import Key

Json = dict[str, Any]
LABELS = {"metadata.labels": {"tier": "gpu"}}
SERVICES = [
    service("starved", {"spec.budget.hourly": "9", "spec.model.name": "rm2"}),
    service(
        "named", {"spec.instanceTypes": {"names": [GPU_TYPE]}, "spec.model.name": "named", "spec.budget.hourly": "0.6"}
    ),
    service(
        "selecting", {"spec.instanceTypes": {"selector": {"matchLabels": {"tier": "gpu"}}}, "spec.model.name": "rm2"}
    ),
    service("missing", {"spec.instanceTypes": {"names": ["later"]}}),
    service("unprofiled", {"spec.model.name": "later"}),
]
PROFILES = [model_profile("named", {"spec.model": "named"}), model_profile("named-later", {"spec.model": "named"})]


def put(raw: Json) -> Callable[[SimulatedOperator], None]:
    return lambda sim: sim.add(raw)


def remove(raw: Json) -> Callable[[SimulatedOperator], None]:
    return lambda sim: sim.api.remove(path_of(raw))


def broken(raw: Json, part: str) -> Json:
    raw = copy.deepcopy(raw)
    raw["spec"][part] = "odd"
    return raw


def foreign(name: str, on: str, gpu: str | None, model: str = "other", mib: str = "12000") -> Json:
    raw = gpu_pod(name, node=on, gpu=gpu, memory_mib=mib)
    raw["metadata"].pop("uid", None)
    raw["metadata"]["labels"]["hetserve.io/model"] = model
    return raw


CORDONED = {"spec": {"unschedulable": True}}
LATER = instance_type("later", {"spec.nodeSelector": {"node.kubernetes.io/instance-type": GPU_TYPE}})
THINGS: list[Json] = [
    *(node(f"gpu-{n}", GPU_TYPE, gpus=gpus) for n in (0, 1, 9) for gpus in (1, 2)),
    *(node(f"gpu-{n}", GPU_TYPE, gpus=1) | CORDONED for n in (0, 1)),
    node("gpu-0", CPU_TYPE),
    *(node(f"cpu-{n}", CPU_TYPE, pods=pods) for n in (0, 99) for pods in (1, 2)),
    node("cpu-1", CPU_TYPE) | CORDONED,
    *(foreign(f"f{n}", on, gpu) for n, on, gpu in ((0, "gpu-0", "0"), (1, "gpu-1", "0"), (2, "gpu-2", None))),
    foreign("same", "gpu-3", "0", "rm2", "100"),
    foreign("same", "gpu-3", "0", "other", "100"),
    instance_type(),
    instance_type(overrides=LABELS),
    instance_type(overrides={"spec.price.hourly": "0.6"}),
    instance_type(overrides={"spec.maxInstances": 1}),
    broken(instance_type(), "price"),
    cpu_type(),
    cpu_type(LABELS),
    cpu_type({"spec.price.hourly": "0.11"}),
    LATER,
    broken(LATER, "price"),
    instance_type("later", LABELS),
    model_profile(),
    broken(model_profile(), "latency"),
    cpu_profile(),
    model_profile("again"),
    model_profile("elsewhere", {"metadata.namespace": "team"}),
    model_profile("later", {"spec.model": "later"}),
    model_profile("later", {"spec.model": "rm2", "spec.instanceType": "later"}),
    *PROFILES,
]
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
        self.feed = EventHandlers(self.sim.cache, self.sim.observer.interests, wake, wake, lambda _: None)
        self.seen: dict[str, Json] = {}

    def events(self) -> None:
        """Feeds what has changed since the last call."""
        objects = self.sim.api.objects
        for path in self.seen.keys() - objects.keys():
            self._event(path, self.seen.pop(path), deleted=True)
        for path, raw in objects.items():
            if self.seen.get(path, {}).get("metadata") != raw["metadata"]:
                self.seen[path] = copy.deepcopy(raw)
                self._event(path, self.seen[path], deleted=False)

    def _event(self, path: str, raw: Json, *, deleted: bool) -> None:
        takers: dict[str, Callable[..., None]] = {
            "nodes": self.feed.node,
            "pods": self.feed.pod,
            "deployments": self.feed.deployment,
            INFERENCE_SERVICE.plural: self.feed.service,
            INSTANCE_TYPE.plural: partial(self.feed.plan_input, INSTANCE_TYPE),
            MODEL_PROFILE.plural: partial(self.feed.plan_input, MODEL_PROFILE),
        }
        take = takers.get(path.rsplit("/", 2)[1])
        if take is not None:
            take(raw, deleted=deleted)

    async def settle(self) -> None:
        """Looks at whom events wake, and moves the cluster, until nothing changes."""
        for _ in range(200):
            self.events()
            keys = sorted(self.woken)
            self.woken.clear()
            for key in keys:
                if (await self.sim.controller.reconcile(key) or 99.0) < 1.0:
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


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
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
