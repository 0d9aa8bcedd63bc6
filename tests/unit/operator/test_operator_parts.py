"""The small parts of the operator: delay queue, memory, cache, settings, event handlers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hetserve.api.kinds import INSTANCE_TYPE
from hetserve.reconcile import Rendered
from hetserve.reconcile.api_messages import ApiRefusal
from hetserve.testing.builders import instance_type
from hetserve.testing.cluster import gpu_node, gpu_pod
from hetserve_operator.cache import Cache, Store
from hetserve_operator.handlers import EventHandlers
from hetserve_operator.memory import BETWEEN_CUTS, CALM, FREE_REPAIRS, LONGEST_HOLD, Memory
from hetserve_operator.settings import OperatorSettings
from hetserve_operator.workqueue import FIRST_RETRY, LONGEST_RETRY, DelayQueue, Key
from hetserve_shell.settings import SettingsError, load_settings

A, B = Key("ns", "a"), Key("ns", "b")


def test_a_burst_of_changes_is_one_look_at_the_first_due_time() -> None:
    queue = DelayQueue()
    queue.add(A, 1.0)
    queue.add(A, 5.0)
    assert queue.pop(0.9) is None
    assert queue.pop(1.0) == A
    assert queue.pop(9.0) is None


def test_a_key_in_work_comes_again_after_and_never_beside_it() -> None:
    queue = DelayQueue()
    queue.add(A, 0.0)
    queue.add(B, 0.0)
    assert (queue.pop(0.0), queue.pop(0.0)) == (A, B)
    queue.add(A, 0.0)
    assert queue.pop(1.0) is None
    assert queue.next_due() is None
    queue.done(A)
    assert queue.pop(1.0) == A


def test_failures_back_off_and_events_do_not_shorten_the_delay() -> None:
    queue = DelayQueue()
    delays = []
    now = 0.0
    for _ in range(9):
        queue.add(A, now)
        assert queue.pop(now) == A
        delays.append(queue.failed(A, now))
        queue.add(A, now)
        assert queue.pop(now) is None
        now += delays[-1]
    assert delays[:3] == [FIRST_RETRY, 2 * FIRST_RETRY, 4 * FIRST_RETRY]
    assert delays[-1] == LONGEST_RETRY
    assert queue.pop(now) == A
    queue.done(A)
    queue.add(A, now)
    assert queue.pop(now) == A
    assert queue.failed(A, now) == FIRST_RETRY


def test_repairs_are_free_at_first_then_ever_rarer_then_free_again_after_calm() -> None:
    memory = Memory()
    for _ in range(FREE_REPAIRS - 1):
        memory.note_repair("d", 0.0)
    assert memory.held(0.0) == {}
    for _ in range(20):
        memory.note_repair("d", 0.0)
    assert memory.held(0.0) == {"d": LONGEST_HOLD}
    assert memory.held(LONGEST_HOLD) == {}
    memory.note_repair("d", CALM + 1)
    assert memory.held(CALM + 1) == {}


def test_refusals_are_forgotten_after_a_while_and_renderings_are_not() -> None:
    memory = Memory()
    memory.keep_rendered("good", Rendered(spec={}), 0.0)
    memory.keep_rendered("bad", Rendered(refusal="no"), 0.0)
    memory.keep_refused("apply x", ApiRefusal("forbidden"), 0.0)
    assert memory.wake_after(10.0) == 20.0
    assert memory.rendered(31.0).keys() == {"good"}
    assert memory.refused(31.0) == {}
    assert memory.wake_after(31.0) is None


def versioned(raw: dict[str, Any], version: int) -> dict[str, Any]:
    return {**raw, "metadata": {**raw["metadata"], "resourceVersion": str(version)}}


def test_an_old_event_does_not_undo_a_newer_view() -> None:
    store: Store[int] = Store(lambda raw: int(raw["value"]))
    raw = {"metadata": {"uid": "u"}}
    assert store.put(versioned({**raw, "value": 2}, 20)) == (None, 2)
    assert store.put(versioned({**raw, "value": 1}, 10)) == (2, 2)
    assert list(store) == [2]


def test_a_list_taken_before_a_deletion_does_not_bring_the_object_back() -> None:
    store: Store[int] = Store(lambda raw: int(raw["value"]))
    raw = {"metadata": {"uid": "u"}, "value": 1}
    store.put(versioned(raw, 10))
    assert store.drop(versioned(raw, 15)) == 1
    store.relist([versioned(raw, 10)], 12)
    assert list(store) == []
    store.relist([], 20)
    assert list(store) == []


def test_a_full_list_ends_what_the_watch_has_lost() -> None:
    store: Store[int] = Store(lambda raw: int(raw["value"]))
    store.put(versioned({"metadata": {"uid": "u"}, "value": 1}, 10))
    store.put(versioned({"metadata": {"uid": "newer"}, "value": 2}, 30))
    store.relist([], 20)
    assert list(store) == [2]


def test_an_object_that_cannot_be_read_does_not_hide_the_others() -> None:
    cache = Cache()
    good, bad = (versioned({**gpu_node(name), "kind": "Node"}, 1) for name in ("good", "bad"))
    bad["status"] = {"allocatable": {"cpu": "many"}}
    cache.nodes.relist([bad, good], 5)
    assert [node.name for node in cache.nodes] == ["good"]


class Heard:
    def __init__(self) -> None:
        self.keys: list[Key] = []
        self.all: list[str | None] = []
        self.renewed: list[Key] = []
        self.feed = EventHandlers(Cache(), self.keys.append, self.all.append, self.renewed.append)


def test_a_pod_wakes_its_service_and_a_bound_one_everybody() -> None:
    heard = Heard()
    pod = versioned(gpu_pod("p"), 1)
    pod["metadata"]["labels"]["hetserve.io/service"] = "rm2"
    heard.feed.pod(pod, deleted=False)
    assert (set(heard.keys), heard.all) == ({Key("default", "rm2")}, [])
    bound = versioned({**pod, "spec": {**pod["spec"], "nodeName": "n"}}, 2)
    heard.feed.pod(bound, deleted=False)
    assert heard.all == [None]
    heard.feed.pod(bound, deleted=False)
    assert heard.all == [None], "an event without news wakes nobody"
    heard.feed.pod(versioned(bound, 3), deleted=True)
    assert heard.all == [None, None]


def test_a_heartbeat_of_a_node_wakes_nobody() -> None:
    heard = Heard()
    node = versioned(gpu_node(), 1)
    heard.feed.node(node, deleted=False)
    beat = versioned({**node, "status": {"conditions": [{"type": "Other", "lastHeartbeatTime": "x"}]}}, 2)
    heard.feed.node(beat, deleted=False)
    assert heard.all == [None]


def test_a_new_price_wakes_everybody_once() -> None:
    heard = Heard()
    raw = instance_type()
    raw["metadata"]["uid"] = "t"
    heard.feed.plan_input(INSTANCE_TYPE, versioned(raw, 1), deleted=False)
    heard.feed.plan_input(INSTANCE_TYPE, versioned(raw, 2), deleted=False)
    assert heard.all == [None]


def test_settings_are_read_and_flags_override_them(tmp_path: Path) -> None:
    path = tmp_path / "settings.yaml"
    path.write_text('probePort: 1\nsaturationThreshold: "0.9"\nlaunchWeight: "0.5"\ndebounce: 50ms\nresync: 2m\n')
    found = load_settings(OperatorSettings, path, {"probe_port": 2, "log_level": None})
    assert (found.probe_port, found.saturation_threshold, found.debounce, found.resync) == (2, 0.9, 0.05, 120.0)
    assert found.planning.launch_weight == 0.5


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("portt: 1", "portt: unknown setting"),
        ("debounce: 5", "debounce: 5: a duration is a text"),
        ("plannerDeadline: 0s", "plannerDeadline: 0.0: Input should be greater"),
        ("plannerProcesses: 0", "plannerProcesses: 0"),
        ("saturationThreshold: 0", "saturationThreshold: 0"),
        ("- a", "settings are a mapping such as logLevel: info"),
    ],
)
def test_settings_that_cannot_be_used_are_named(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "settings.yaml"
    path.write_text(text)
    with pytest.raises(SettingsError, match=words.replace("(", r"\(")):
        load_settings(OperatorSettings, path, {})


def test_a_renewed_key_does_not_wait_for_earlier_failures() -> None:
    queue, now = DelayQueue(), 0.0
    queue.add(A, now)
    for _ in range(6):
        assert queue.pop(now) == A
        now += queue.failed(A, now)
    assert queue.pop(now - 1.0) is None
    queue.renew(A, now - 1.0)
    assert queue.pop(now - 1.0) == A
    assert queue.failed(A, now) == FIRST_RETRY


def test_only_a_service_that_is_deleted_or_declared_anew_renews_its_key() -> None:
    heard = Heard()
    raw = {
        "metadata": {"namespace": "ns", "name": "a", "uid": "u", "generation": 2},
        "status": {"observedGeneration": 2},
    }
    heard.feed.service(raw, deleted=False)
    assert heard.renewed == [], "a status of our own making shortens no delay"
    heard.feed.service({**raw, "status": {"observedGeneration": 1}}, deleted=False)
    heard.feed.service({"metadata": raw["metadata"]}, deleted=False)
    heard.feed.service(raw, deleted=True)
    assert heard.renewed == [A, A, A]


def test_repairs_that_the_budget_asks_for_come_at_most_once_in_five_seconds() -> None:
    memory = Memory()
    memory.note_cut("d", 10.0)
    assert memory.cut_held(12.0) == {"d": 3.0}
    assert memory.cut_held(10.0 + BETWEEN_CUTS) == {}
