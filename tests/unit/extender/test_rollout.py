"""In a rolling update the old extenders make way as soon as a new one is ready, and for nobody that never leads."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hetserve.api.names import LABEL_LEADER
from hetserve_extender import extender
from hetserve_extender.extender import Extender
from hetserve_extender.leader import rollout
from hetserve_extender.leader.rollout import DEFERENCE, HURRY_FOR, Rollout
from leadership_scene import LEASE, SYSTEM, cluster, leads, running, settings, until
from testing.kit.apiserver import FakeApiServer

APPLICATION = {f"app.kubernetes.io/{key}": key for key in ("name", "instance", "component")}


def pod(name: str, template: str, minute: int, *, ready: bool = True, **metadata: Any) -> dict[str, Any]:
    """A pod of the extender's Deployment, created in that minute of an hour."""
    meta = {
        "name": name,
        "namespace": SYSTEM,
        "labels": {**APPLICATION, "pod-template-hash": template},
        "creationTimestamp": f"2026-11-23T10:{minute:02d}:00Z",
    }
    conditions = [{"type": "Initialized", "status": "True"}, {"type": "Ready", "status": str(ready)}]
    return {"kind": "Pod", "metadata": meta | metadata, "status": {"conditions": conditions}}


class Scene:
    """One extender's view; `now` [s]."""

    def __init__(self, *pods: dict[str, Any], own: str = "own") -> None:
        self.now = 1000.0
        self.changes = 0
        self.rollout = Rollout(own, lambda: self.now, self.changed)
        self.rollout.replace(list(pods))

    def changed(self) -> None:
        self.changes += 1


OWN = pod("own", "old", 10)
LABELS = {**APPLICATION, "pod-template-hash": "new"}


@pytest.mark.parametrize(
    ("other", "why"),
    [
        (pod("other", "new", 11), ""),
        (pod("other", "new", 11, ready=False), "not ready"),
        (pod("other", "new", 9), "it came earlier, so ours is the wanted template"),
        (pod("other", "new", 10), "nothing tells which is wanted"),
        (pod("other", "old", 11), "of our own template"),
        (pod("other", "new", 11, deletionTimestamp="2026-11-23T10:12:00Z"), "it ends"),
        (pod("other", "new", 11, labels={**LABELS, "app.kubernetes.io/component": "operator"}), "no extender"),
        (pod("other", "new", 11, labels={**LABELS, "app.kubernetes.io/instance": "second"}), "of another release"),
        (pod("other", "new", 11, labels={"pod-template-hash": "new"}), "of nobody knows what"),
        (pod("other", "new", 11) | {"status": None}, "the kubelet has not spoken"),
    ],
)
def test_only_a_ready_extender_of_a_newer_template_is_given_way(other: dict[str, Any], why: str) -> None:
    words = Scene(OWN, other).rollout.defers()
    assert words == ("" if why else "other is of a newer template, and ready")


def test_who_is_given_way_and_never_leads_ends_nothing() -> None:
    scene = Scene(OWN, pod("other", "new", 11))
    scene.now += DEFERENCE - 0.1
    assert scene.rollout.defers()
    scene.now += 0.2
    assert scene.rollout.defers() == ""
    scene.rollout.apply("MODIFIED", pod("another", "new", 12))
    assert scene.rollout.defers() == "", "another of that template is no better"
    scene.rollout.apply("ADDED", pod("latest", "newest", 13))
    assert scene.rollout.defers() == "latest is of a newer template, and ready"


def test_a_pod_that_an_old_replica_set_makes_again_is_no_newer_than_its_template() -> None:
    """As after an eviction, or where a rollout that is paused is scaled."""
    scene = Scene(pod("first", "old", 10), pod("own", "new", 11))
    scene.rollout.apply("ADDED", pod("again", "old", 12))
    scene.rollout.apply("DELETED", pod("first", "old", 10))
    assert scene.rollout.defers() == ""
    assert scene.rollout.hurries(), "it is as old as ever"


def test_a_rollback_makes_an_earlier_template_newer_once_none_of_its_pods_was_left() -> None:
    scene = Scene(pod("first", "one", 10), pod("own", "two", 11))
    scene.rollout.apply("DELETED", pod("first", "one", 10))
    scene.rollout.apply("ADDED", pod("back", "one", 12))
    assert scene.rollout.defers() == "back is of a newer template, and ready"
    assert not scene.rollout.hurries()


def test_a_template_that_comes_again_is_given_way_again() -> None:
    scene = Scene(OWN, other := pod("other", "new", 11))
    scene.now += DEFERENCE + 1.0
    scene.rollout.apply("DELETED", other)
    scene.now += 7200.0
    scene.rollout.apply("ADDED", pod("another", "new", 50))
    assert scene.rollout.defers() == "another is of a newer template, and ready"


def test_a_leader_ends_only_where_a_third_one_could_take_over() -> None:
    scene = Scene(OWN, pod("other", "new", 11))
    assert scene.rollout.makes_way() == "", "one replica: the Deployment ends us next"
    scene.rollout.apply("ADDED", pod("follower", "old", 10, ready=False))
    assert scene.rollout.makes_way() == "other is of a newer template, and ready"
    scene.now += DEFERENCE
    assert scene.rollout.makes_way() == ""


def test_pods_without_our_labels_concern_nobody() -> None:
    plain = [pod(name, "", minute, labels=labels) for name, minute, labels in (("own", 1, {}), ("web", 2, {"a": "b"}))]
    scene = Scene(*plain)
    scene.rollout.apply("ADDED", pod("other", "new", 11, labels={"pod-template-hash": "new"}))
    scene.rollout.apply("ADDED", pod("another", "new", 12))
    assert (scene.rollout.defers(), scene.rollout.hurries(), scene.changes) == ("", False, 1)


def test_a_pod_that_is_gone_is_given_way_no_longer() -> None:
    other = pod("other", "new", 11)
    scene = Scene(OWN, other)
    scene.rollout.apply("DELETED", other)
    assert scene.rollout.defers() == ""
    scene.rollout.replace([])
    assert scene.rollout.defers() == "", "nothing is known of ourselves either"
    scene.rollout.apply("DELETED", other)
    assert scene.changes == 3


def test_a_new_one_looks_at_the_lease_more_often_for_as_long_as_a_rollout_takes() -> None:
    old = pod("old", "before", 1, ready=False)
    scene = Scene(OWN, old)
    assert scene.rollout.hurries()
    scene.now += HURRY_FOR
    assert not scene.rollout.hurries(), "the rollout is paused"
    scene.rollout.apply("DELETED", old)
    scene.rollout.apply("ADDED", old)
    assert scene.rollout.hurries()
    scene.rollout.apply("DELETED", old)
    assert not scene.rollout.hurries()


@given(
    st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 5), st.booleans(), st.booleans()), min_size=1, max_size=6)
)
def test_of_any_pods_that_are_ready_one_contends(drawn: list[tuple[str, int, bool, bool]]) -> None:
    """Else an update could end placing until the time of deference is over."""
    ends = {"deletionTimestamp": "2026-11-23T11:00:00Z"}
    pods = [
        pod(f"pod-{number}", template, minute, ready=ready, **(ends if ending else {}))
        for number, (template, minute, ready, ending) in enumerate(drawn)
    ]
    names = [f"pod-{number}" for number, (*_, ready, ending) in enumerate(drawn) if ready and not ending]
    defer = [name for name in names if Scene(*pods, own=name).rollout.defers()]
    assert not names or len(defer) < len(names)


@pytest.fixture(autouse=True)
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("LINGER", "LINGER_LEAST", "LINGER_WITHIN"):
        monkeypatch.setattr(extender, name, 0.1)


async def test_a_pod_that_has_led_refuses_calls_until_all_nodes_know_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    """The address of a pod that is gone answers nobody: the scheduler would wait for all of its timeout."""
    for name in ("LINGER", "LINGER_LEAST", "LINGER_WITHIN"):
        monkeypatch.setattr(extender, name, 3.0)
    api = cluster()
    api.add(pod("leader", "one", 10))
    async with running(Extender(settings(), api, "leader")) as leader:
        await until(lambda: LABEL_LEADER in labels(api, "leader"))
        leader.stop.set()
        await until(lambda: not holder(api) and LABEL_LEADER not in labels(api, "leader"))
        await until_reset(leader.extender.addresses["verbs"])
        assert leader.task is not None
        assert not leader.task.done()


async def test_where_every_other_extender_ends_as_well_it_waits_for_no_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extender, "LINGER_LEAST", 60.0)
    monkeypatch.setattr(extender, "LINGER_WITHIN", 60.0)
    api = cluster()
    api.add(pod("leader", "one", 10))
    api.add(pod("other", "one", 10, deletionTimestamp="2026-11-23T11:00:00Z"))
    async with running(Extender(settings(), api, "leader")) as leader:
        await until(lambda: LABEL_LEADER in labels(api, "leader"))
        leader.stop.set()
        await until(lambda: leader.task is not None and leader.task.done())


@pytest.mark.parametrize(
    ("others", "ends"), [([], False), ([True], True), ([True, False], False), ([False], False), ([True, True], True)]
)
def test_all_end_where_there_are_others_and_each_does(others: list[bool], ends: bool) -> None:
    ending: dict[str, Any] = {"deletionTimestamp": "2026-11-23T11:00:00Z"}
    pods = [pod(f"pod-{number}", "one", 10, **(ending if one else {})) for number, one in enumerate(others)]
    assert Scene(pod("own", "one", 10), *pods, own="own").rollout.all_end() is ends


async def until_reset(address: tuple[str, int]) -> None:
    """Calls until a call is reset: for a moment nobody listens, and the kernel refuses."""
    deadline = asyncio.get_running_loop().time() + 10
    while asyncio.get_running_loop().time() < deadline:
        try:
            reader, _ = await asyncio.open_connection(*address)
            await reader.read()
        except ConnectionResetError:
            return
        except ConnectionRefusedError:
            await asyncio.sleep(0.01)
    raise AssertionError("no call was reset")


def labels(api: FakeApiServer, name: str) -> dict[str, str]:
    found: dict[str, str] = api.pod(name, SYSTEM)["metadata"]["labels"]
    return found


def holder(api: FakeApiServer) -> str:
    return str(api.objects[LEASE]["spec"]["holderIdentity"])


async def test_a_leader_ends_in_order_for_a_new_one_and_a_follower_leaves_it_the_lease(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(rollout, "DEFERENCE", 4.0)
    api = cluster()
    api.add(pod("leader", "old", 10))
    api.add(pod("follower", "old", 11))
    async with running(Extender(settings(), api, "leader")) as leader:
        await until(lambda: leads(leader.extender))
        async with running(Extender(settings(), api, "follower")) as follower:
            await until(follower.extender.ready)
            api.add(pod("new", "new", 12))
            assert leader.task is not None
            await leader.task
            assert leader.stop.is_set()
            assert holder(api) == "", "given up in order"
            assert "new is of a newer template, and ready" in follower.extender.refusal()
            await until(lambda: leads(follower.extender))
            assert not follower.stop.is_set(), "it makes way once"


async def test_a_new_one_takes_a_lease_that_is_given_up_before_others_look() -> None:
    api = cluster()
    api.objects[LEASE]["spec"]["holderIdentity"] = "old"
    api.add(pod("old", "old", 10))
    api.add(pod("new", "new", 11))
    slow = settings().leader_election.model_copy(update={"lease_duration": 30.0, "renew_deadline": 20.0})
    slow = slow.model_copy(update={"retry_period": 15.0})
    async with running(Extender(settings().model_copy(update={"leader_election": slow}), api, "new")) as new:
        await until(lambda: new.extender.ready() and new.extender.rollout.hurries())
        api.objects[LEASE]["spec"]["holderIdentity"] = ""
        api.touch(LEASE)
        await until(lambda: leads(new.extender))
