"""Whom a watch event wakes: a service whose own objects change, and those whose decision may become another."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hetserve.api.kinds import INSTANCE_TYPE, MODEL_PROFILE
from hetserve.reconcile.deployments.build import deployment_name, may_be_of
from hetserve.reconcile.snapshot import Interest
from hetserve_operator.memory import Interests
from hetserve_operator.watch.cache import Cache
from hetserve_operator.watch.handlers import EventHandlers
from hetserve_operator.workqueue import Key
from testing.builders import instance_type, model_profile, service
from testing.cluster import gpu_pod
from testing.scenes import CPU_TYPE, GPU_TYPE, autoscaler, cpu_type, node

Json = dict[str, Any]
A, B, C = (Key("default", name) for name in "abc")
NOTHING = Interest(frozenset(), frozenset())


class Scene:
    """Handlers over a cache with two types, a node of each, and services that settled with an interest."""

    def __init__(self, **settled: Interest) -> None:
        self.soon: list[Key] = []
        self.later: list[Key] = []
        self.renewed: list[Key] = []
        self.interests = Interests()
        self.version = 0
        self.feed = EventHandlers(Cache(), self.interests, self.soon.append, self.later.append, self.changed)
        self.type(instance_type())
        self.type(cpu_type())
        self.node(node("g", GPU_TYPE, gpus=2, pods=4))
        self.node(node("c", CPU_TYPE))
        for name, interest in settled.items():
            self.interests.record(Key("default", name), interest)
        self.woken()

    def changed(self, key: Key) -> None:
        self.renewed.append(key)
        self.soon.append(key)

    def service(self, name: str, **overrides: Any) -> None:
        self.feed.service(self._next(service(name, {"spec.model.name": "m", **overrides})), deleted=False)
        self.woken()

    def node(self, raw: Json, *, deleted: bool = False) -> None:
        self.feed.node(self._next(raw), deleted=deleted)

    def address(self, raw: Json, *, deleted: bool = False) -> None:
        self.feed.address(self._next(raw), deleted=deleted)

    def pod(self, raw: Json, *, deleted: bool = False) -> None:
        self.feed.pod(self._next(raw), deleted=deleted)

    def type(self, raw: Json, *, deleted: bool = False) -> None:
        self.feed.plan_input(INSTANCE_TYPE, self._next(raw), deleted=deleted)

    def profile(self, raw: Json, *, deleted: bool = False) -> None:
        self.feed.plan_input(MODEL_PROFILE, self._next(raw), deleted=deleted)

    def scaler(self, raw: Json, *, deleted: bool = False) -> None:
        self.feed.scaler(self._next(raw), deleted=deleted)

    def slice(self, name: str, *nodes: str, deleted: bool = False) -> None:
        devices = [{"name": f"gpu-{at}", "nodeName": node} for at, node in enumerate(nodes)]
        spec = {"driver": "gpu.nvidia.com", "perDeviceNodeSelection": True, "devices": devices}
        raw = {"kind": "ResourceSlice", "metadata": {"name": name}, "spec": spec}
        self.feed.resource_slice(self._next(raw), deleted=deleted)

    def woken(self) -> set[Key]:
        """Who has been woken since the last question."""
        found = {*self.soon, *self.later}
        self.soon.clear()
        self.later.clear()
        return found

    def _next(self, raw: Json) -> Json:
        self.version += 1
        meta = {"uid": f"{raw.get('kind')}-{raw['metadata']['name']}", **raw["metadata"]}
        return {**raw, "metadata": {**meta, "resourceVersion": str(self.version)}}


def on(*types: str) -> Interest:
    return Interest(frozenset(types), frozenset())


def bound(name: str = "p", to: str = "g", gpu: str = "0", **labels: str) -> Json:
    raw = gpu_pod(name, node=to, gpu=gpu)
    raw["metadata"]["labels"] |= {f"hetserve.io/{key}": value for key, value in labels.items()}
    return raw


@pytest.fixture
def scene() -> Scene:
    return Scene(a=on(GPU_TYPE), b=on(CPU_TYPE), c=NOTHING)


def test_a_pod_wakes_the_services_whose_bookings_it_breaks_when_it_comes_and_when_it_goes(scene: Scene) -> None:
    mine, alone = gpu_pod("mine", compute=40, node="g", gpu="0"), gpu_pod("alone", compute=40, node="g", gpu="1")
    for raw, name in ((mine, "c"), (alone, "b")):
        raw["metadata"]["labels"]["hetserve.io/service"] = name
        scene.pod(raw)
    scene.woken()
    fits = gpu_pod("fits", compute=60, node="g", gpu="0")
    scene.pod(fits)
    assert scene.woken() == {A}, "A is woken by room"
    for raw in (gpu_pod("old", node="g", gpu="0"), gpu_pod("much", compute=65, node="g", gpu="0")):
        scene.pod(fits, deleted=True)
        scene.woken()
        scene.pod(raw)
        assert scene.woken() == {A, C}
        scene.pod(raw, deleted=True)
        assert scene.woken() == {A, C}


def test_changes_of_the_cluster_are_gathered_and_those_of_a_service_are_not(scene: Scene) -> None:
    scene.pod(bound(service="own"))
    assert (scene.soon, scene.later) == ([Key("default", "own")], [A])


def test_a_pod_wakes_the_service_of_its_label_whatever_changes(scene: Scene) -> None:
    waiting = gpu_pod("p")
    waiting["metadata"]["labels"]["hetserve.io/service"] = "own"
    scene.pod(waiting)
    assert scene.woken() == {Key("default", "own")}
    scene.pod(waiting)
    assert scene.woken() == set(), "an event without news wakes nobody"
    waiting["metadata"]["labels"]["hetserve.io/service"] = "next"
    scene.pod(waiting)
    assert scene.woken() == {Key("default", "own"), Key("default", "next")}


def test_a_bound_pod_that_goes_or_holds_another_gpu_wakes_those_for_whom_its_room_counts(scene: Scene) -> None:
    scene.pod(bound())
    scene.woken()
    scene.pod(bound(gpu="1"))
    assert scene.woken() == {A}
    scene.pod({**bound(gpu="1"), "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}})
    assert scene.woken() == set(), "that it is ready takes nothing of its node"
    scene.pod(bound(gpu="1", model="another"))
    assert scene.woken() == {A}, "an instance of a model never shares a GPU with one of the same"
    scene.pod({**bound(gpu="1", model="another"), "status": {"phase": "Succeeded"}})
    assert scene.woken() == {A}
    scene.pod(bound("q"))
    scene.woken()
    scene.pod(bound("q"), deleted=True)
    assert scene.woken() == {A}


def test_a_pod_on_a_node_that_takes_no_instances_wakes_nobody(scene: Scene) -> None:
    cordoned = {**node("g", GPU_TYPE, gpus=2), "spec": {"unschedulable": True}}
    scene.node(cordoned)
    assert scene.woken() == {A}
    scene.pod(bound())
    scene.pod(bound("q", to="unknown"))
    assert scene.woken() == set()
    scene.node(node("g", GPU_TYPE, gpus=2))
    assert scene.woken() == {A}


def test_a_node_wakes_those_for_whom_room_of_its_types_counts_before_or_after(scene: Scene) -> None:
    scene.node(node("g", CPU_TYPE))
    assert scene.woken() == {A, B}
    scene.node(node("g", CPU_TYPE), deleted=True)
    assert scene.woken() == {B}
    scene.node(node("new", "a type that nobody declares"))
    assert scene.woken() == set()


def test_a_resource_slice_wakes_those_for_whom_room_on_its_nodes_counts(scene: Scene) -> None:
    scene.slice("s", "g")
    assert scene.woken() == {A}
    scene.slice("s", "g")
    assert scene.woken() == set(), "nothing has changed"
    scene.slice("s", "c", "gone")
    assert scene.woken() == {A, B}
    scene.slice("s", "c", "gone", deleted=True)
    assert scene.woken() == {B}


def test_a_heartbeat_of_a_node_wakes_nobody(scene: Scene) -> None:
    beat = node("g", GPU_TYPE, gpus=2, pods=4)
    beat["status"]["conditions"].append({"type": "Other", "lastHeartbeatTime": "x"})
    scene.node(beat)
    assert scene.woken() == set()


REFERENCES: dict[str, dict[str, Any]] = {
    "by name": {"spec.instanceTypes": {"names": [GPU_TYPE]}},
    "by label": {"spec.instanceTypes": {"selector": {"matchLabels": {"tier": "gpu"}}}},
    "by profile": {},
}


@pytest.mark.parametrize("reference", REFERENCES)
def test_a_new_price_wakes_the_services_that_may_use_the_type_once(reference: str) -> None:
    scene = Scene(a=NOTHING, b=NOTHING, c=NOTHING)
    scene.type(instance_type(overrides={"metadata.labels": {"tier": "gpu"}}))
    scene.profile(model_profile(overrides={"spec.model": "m"}))
    scene.service("a", **REFERENCES[reference])
    scene.service("b", **{"spec.instanceTypes": {"names": [CPU_TYPE]}})
    scene.service("c", **{"spec.model.name": "another"})
    dearer = instance_type(overrides={"metadata.labels": {"tier": "gpu"}, "spec.price.hourly": "9"})
    scene.type(dearer)
    assert scene.woken() == {A}
    scene.type(dearer)
    assert scene.woken() == set(), "a new version of the same type wakes nobody"


@pytest.mark.parametrize("broken", [False, True])
def test_labels_that_a_type_gets_or_loses_wake_those_that_select_them(broken: bool) -> None:
    scene = Scene(a=NOTHING)
    scene.service("a", **REFERENCES["by label"])
    labelled = instance_type(overrides={"metadata.labels": {"tier": "gpu"}})
    if broken:
        labelled["spec"]["price"] = "free"
    scene.type(labelled)
    assert scene.woken() == {A}
    scene.type(instance_type())
    assert scene.woken() == {A}
    scene.type(instance_type(overrides={"metadata.labels": {"tier": "cpu"}}))
    assert scene.woken() == set()


def test_a_type_wakes_services_that_hold_it_and_those_that_cannot_be_planned() -> None:
    scene = Scene(a=Interest(frozenset(), frozenset((GPU_TYPE,))), b=Interest(frozenset()), c=NOTHING)
    for name in "abc":
        scene.service(name)
    scene.type(instance_type(overrides={"spec.price.hourly": "9"}))
    assert scene.woken() == {A, B}
    scene.type(instance_type(), deleted=True)
    assert scene.woken() == {A, B}


def test_only_a_service_that_is_deleted_or_declared_anew_renews_its_key() -> None:
    scene = Scene()
    raw = {
        "metadata": {"namespace": "default", "name": "a", "uid": "u", "generation": 2},
        "status": {"observedGeneration": 2},
    }
    scene.feed.service(raw, deleted=False)
    assert scene.renewed == [], "a status of our own making shortens no delay"
    scene.feed.service({**raw, "status": {"observedGeneration": 1}}, deleted=False)
    scene.feed.service({"metadata": raw["metadata"]}, deleted=False)
    scene.feed.service(raw, deleted=True)
    assert scene.renewed == [A, A, A]


def test_a_scaler_wakes_the_service_of_whose_deployments_its_target_may_be_one(scene: Scene) -> None:
    for name in ("rm2", "rm2.large", "other"):
        scene.service(name)
    first, second = deployment_name("rm2.large", "g4dn.xlarge"), deployment_name("other", "g4dn.xlarge")
    own = Key("default", "rm2.large")
    scene.scaler(autoscaler("hpa", first))
    assert own in scene.woken()
    scene.scaler(autoscaler("hpa", first) | {"status": {"currentReplicas": 7}})
    assert scene.woken() == set(), "what it counts is no news"
    scene.scaler(autoscaler("hpa", second))
    woken = scene.woken()
    assert {own, Key("default", "other")} <= woken, "the old target and the new one"
    scene.scaler(autoscaler("hpa", second), deleted=True)
    assert scene.woken() == {Key("default", "other")}
    scene.scaler(autoscaler("else", second, namespace="team"))
    scene.scaler(autoscaler("whose", "nobodys"))
    assert scene.woken() == set()


@given(st.text("-.az09", max_size=80).map("a{}z".format), st.sampled_from([GPU_TYPE, "a", "b" * 63]))
def test_a_service_knows_the_names_that_its_deployments_may_have(name: str, instance_type: str) -> None:
    assert may_be_of(deployment_name(name, instance_type), name)


def test_an_address_wakes_the_service_of_its_name_whatever_its_label_says() -> None:
    scene = Scene(a=NOTHING, b=NOTHING)
    for edit in ({"hetserve.io/service": "a"}, {"hetserve.io/service": "b"}):
        metadata = {"name": "a", "namespace": "default", "uid": "of-a", "labels": edit}
        scene.address({"apiVersion": "v1", "kind": "Service", "metadata": metadata})
        assert (scene.soon, scene.later) == ([A], [])
        scene.woken()
    scene.address({"apiVersion": "v1", "kind": "Service", "metadata": metadata}, deleted=True)
    assert scene.soon == [A], "a watch by label tells as deleted what has lost it"
