"""A node takes no new pods beside one whose GPUs nobody knows: NVIDIA's plugin chose them, or it cannot be read."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest

from hetserve.api import names
from hetserve.base.units import Seconds
from hetserve.objects.fields import MOST_ITEMS, InvalidObjectError
from hetserve.objects.reduced import reduced_pod
from hetserve.placement.check import plugged, violations
from hetserve.placement.decision.explain import explain
from hetserve.placement.decision.wording import refusal_text, texts_by_node
from hetserve.placement.event_handlers import NodeEventHandler, PodEventHandler
from hetserve.placement.ledger.bookings import LedgerError
from hetserve.placement.ledger.problems import problem_lines
from hetserve.placement.log.journal import JournaledPlacer, plain
from hetserve.placement.log.replay import replay
from hetserve.placement.log.what_if import what_if
from hetserve.placement.placer import Mode, Placer
from hetserve.placement.pods.requests import PolicyName
from hetserve.placement.pods.view import parse_pod
from testing.cluster import gpu_node, gpu_pod, plugin_pod

Json = dict[str, Any]
NODES = ["n0", "n1"]
PLUGGED = "pods on the node hold GPUs through nvidia.com/gpu, and nobody knows which; it takes new pods once they end"
MIXED = (
    "pods on the node hold GPUs through nvidia.com/gpu, nvidia.com/mig-1g.5gb, and nobody knows which;"
    " it takes new pods once they end"
)
HUGE = "1e9999999"


def unread_pod(name: str = "odd", node: str | None = "n0", **given: Any) -> Json:
    return gpu_pod(name, node=node, memory_mib=HUGE, **given)


def placer_with(*pods: Json, mode: Mode = Mode.DECIDE, log: list[Any] | None = None) -> Placer:
    clock, hold = (lambda: Seconds(0.0)), Seconds(30.0)
    made = Placer(clock, hold, mode) if log is None else JournaledPlacer(clock, hold, log.append, mode=mode)
    NodeEventHandler(made).replace([gpu_node(name) for name in NODES])
    PodEventHandler(made).replace(pods)
    return made


def takes_new_pods(placer: Placer, node: str = "n0") -> bool:
    """What every verb says, of a pod that waits; nothing is left booked."""
    waiting = gpu_pod("asks", model="asked")
    passed = bool(placer.filter(waiting, [node]).passed)
    scored = placer.prioritize(waiting, [node])[node] > 0
    placer.forget("uid-asks")
    try:
        placer.fix_gpus(parse_pod(waiting).request, node)
    except LedgerError:
        bound = False
    else:
        bound = True
    placer.forget("uid-asks")
    assert passed == scored == bound, f"filter {passed}, prioritize {scored}, bind {bound}"
    assert (
        any(verdict.fits for verdict in explain(placer.ledger, parse_pod(waiting).request) if verdict.node == node)
        == passed
    )
    return passed


@pytest.mark.parametrize("mode", Mode)
@pytest.mark.parametrize("stranger", [plugin_pod("past-us"), unread_pod("past-us")], ids=["plugin", "unread"])
@pytest.mark.parametrize("listed", [True, False], ids=["listed", "watched"])
def test_a_node_with_such_a_pod_takes_no_new_pods_until_it_ends(mode: Mode, stranger: Json, *, listed: bool) -> None:
    placer = placer_with(*([stranger] if listed else []), mode=mode)
    if not listed:
        PodEventHandler(placer).apply("ADDED", stranger)
    assert not takes_new_pods(placer), "the same GPU is given twice"
    assert takes_new_pods(placer, "n1")
    ending = json.loads(json.dumps(stranger))
    ending["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    PodEventHandler(placer).apply("MODIFIED", ending)
    assert not takes_new_pods(placer), "it holds its GPU until it is gone"
    PodEventHandler(placer).apply("DELETED", ending)
    assert takes_new_pods(placer)
    assert placer.problems() == ()


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
@pytest.mark.parametrize("stranger", [plugin_pod, unread_pod])
def test_one_that_has_finished_holds_nothing(stranger: Any, phase: str) -> None:
    assert takes_new_pods(placer_with(stranger("done", node="n0", phase=phase)))
    placer = placer_with(stranger("done", node="n0"))
    assert not takes_new_pods(placer)
    PodEventHandler(placer).apply("MODIFIED", stranger("done", node="n0", phase=phase))
    assert takes_new_pods(placer)


@pytest.mark.parametrize("stranger", [plugin_pod, unread_pod])
def test_one_on_no_node_closes_none_and_a_list_without_it_opens_its_node(stranger: Any) -> None:
    placer = placer_with(stranger("waits", node=None))
    assert takes_new_pods(placer)
    PodEventHandler(placer).replace([stranger("waits", node="n0")])
    assert not takes_new_pods(placer)
    PodEventHandler(placer).replace([])
    assert takes_new_pods(placer)


def test_pods_of_ours_that_are_there_stay_and_a_reservation_is_decided_again() -> None:
    placer = placer_with(gpu_pod("ours", node="n0", gpu="0"), gpu_pod("waits", model="w"))
    placer.filter(gpu_pod("waits", model="w"), ["n0"])
    PodEventHandler(placer).apply("ADDED", plugin_pod())
    ours = placer.ledger.booking("uid-ours")
    assert ours is not None
    assert ours.gpus == ("0",)
    with pytest.raises(LedgerError, match=r"node n0: pods on the node hold GPUs through nvidia.com/gpu"):
        placer.fix_gpus(placer.pods["uid-waits"].request, "n0")


def test_the_words_are_equal_over_nodes_and_name_the_resource_or_the_pod() -> None:
    mig = plugin_pod("mig", node="n1", resource="nvidia.com/mig-1g.5gb")
    one = placer_with(plugin_pod()).filter(gpu_pod("asks"), ["n0"])
    assert texts_by_node(one.refusals) == {"n0": PLUGGED}
    both = placer_with(plugin_pod(), mig).filter(gpu_pod("asks"), NODES)
    assert texts_by_node(both.refusals) == dict.fromkeys(NODES, MIXED)
    odd = placer_with(unread_pod(), unread_pod("more", "n1")).filter(gpu_pod("asks"), NODES)
    assert texts_by_node(odd.refusals) == dict.fromkeys(
        NODES,
        "pods on the node cannot be read, nor which GPUs they hold; it takes new pods once they end:"
        " default/more, default/odd",
    )


def test_many_pods_that_cannot_be_read_are_a_few_words() -> None:
    """The event of the scheduler is cut at 1,024 characters."""
    many = [unread_pod(f"{number:04d}" + "x" * 245, namespace="n" * 63) for number in range(1000)]
    (words,) = map(refusal_text, placer_with(*many).filter(gpu_pod("asks"), ["n0"]).refusals)
    assert words.endswith("and 997 more")
    assert len(words) < 512


def test_the_reason_of_each_gpu_names_the_pods() -> None:
    placer = placer_with(plugin_pod(), unread_pod(node="n1"), gpu_pod("unsaid", node="n1"))
    verdicts = explain(placer.ledger, parse_pod(gpu_pod("asks")).request)
    said = {verdict.node: [(reason.kind, reason.text) for reason in verdict.reasons] for verdict in verdicts}
    assert said["n0"] == [("device-plugin", f"{PLUGGED}: default/nvidia")]
    assert [kind for kind, _ in said["n1"]] == ["unlisted", "unreadable"]
    assert said["n1"][0][1].endswith("default/unsaid on GPU unknown")
    assert said["n1"][1][1].endswith("once they end: default/odd")


def test_a_wrong_pod_is_reported_once_and_only_on_nodes_with_our_gpus() -> None:
    told = (
        "pod default/nvidia holds GPUs of node n0 through nvidia.com/gpu, and nobody knows which:"
        " the node takes no new pods until it ends"
    )
    assert problem_lines(placer_with(plugin_pod()).problems()) == (told,)
    placer = placer_with(plugin_pod())
    NodeEventHandler(placer).replace([gpu_node("n0", gpus=0), gpu_node("n1")])
    assert placer.problems() == (), "a node that is none of ours"
    NodeEventHandler(placer).replace([gpu_node("n0")])
    assert problem_lines(placer.problems()) == (told,)
    assert not takes_new_pods(placer), "the inventory of a node may come after its pods"


@pytest.mark.parametrize(
    ("resource", "counts"),
    [
        ("nvidia.com/gpu", True),
        ("nvidia.com/gpu.shared", True),
        ("nvidia.com/mig-1g.5gb", True),
        ("nvidia.com/mig-3g.20gb.shared", True),
        ("nvidia.com/hostdev", False),
        ("nvidia.com/gpumem", False),
        ("amd.com/gpu", False),
        ("cpu", False),
    ],
)
@pytest.mark.parametrize("where", ["containers", "initContainers"])
@pytest.mark.parametrize("kind", ["requests", "limits"])
def test_what_nvidias_plugin_gives_counts_in_any_container(
    resource: str, where: str, kind: str, *, counts: bool
) -> None:
    raw = plugin_pod()
    raw["spec"]["containers"] = [{"name": "plain"}]
    raw["spec"][where] = [{"name": "plain"}, {"name": "cuda", "resources": {kind: {resource: "1"}}}]
    assert bool(parse_pod(raw).through) == bool(parse_pod(reduced_pod(raw)).through) == bool(plugged(raw)) == counts


def test_none_of_it_is_nothing() -> None:
    assert parse_pod(plugin_pod(amount="0")).through == ()
    assert parse_pod(plugin_pod(amount=HUGE)).through == ("nvidia.com/gpu",), "what cannot be read may be any"


def test_a_tenant_that_names_hundreds_of_profiles_is_kept_short() -> None:
    raw = plugin_pod()
    named = {f"nvidia.com/mig-{number}" + "x" * 300: "1" for number in range(500)}
    raw["spec"]["containers"][0]["resources"] = {"limits": named}
    through = parse_pod(raw).through
    assert len(through) == 8
    assert max(map(len, through)) <= 80


def test_a_pod_that_wants_gpus_of_both_is_refused_by_name_and_holds_both_once_it_is_bound() -> None:
    raw = gpu_pod("both", node="n0", gpu="0")
    raw["spec"]["containers"][0]["resources"]["limits"][names.RESOURCE_NVIDIA_GPU] = "1"
    placer = placer_with(raw)
    booking = placer.ledger.booking("uid-both")
    assert booking is not None
    assert list(booking.named) == [("n0", "0")]
    assert placer.ledger.free(("n0", "0")) == 32768 - 4096
    assert not takes_new_pods(placer)
    del raw["spec"]["nodeName"]
    with pytest.raises(
        InvalidObjectError, match=r"nvidia.com/gpu beside hetserve.io/gpu-memory: .* ask for one of the two"
    ):
        placer_with().filter(raw, NODES)


def test_a_pod_that_cannot_be_read_any_more_keeps_what_it_held_and_closes_its_node() -> None:
    good, odd = gpu_pod("p", node="n0", gpu="1"), unread_pod("p")
    placer = placer_with(good)
    for listed in (False, True):
        if listed:
            PodEventHandler(placer).replace([odd])
        else:
            PodEventHandler(placer).apply("MODIFIED", odd)
        assert placer.ledger.free(("n0", "1")) == 32768 - 4096, "its GPU looks free"
        assert not takes_new_pods(placer)
    PodEventHandler(placer).apply("MODIFIED", good)
    assert takes_new_pods(placer)
    assert placer.ledger.free(("n0", "1")) == 32768 - 4096


def test_a_pod_that_can_be_read_by_now_and_holds_nothing_opens_its_node() -> None:
    placer = placer_with(unread_pod("p"))
    plain_pod = gpu_pod("p", node="n0", memory_mib="0")
    PodEventHandler(placer).apply("MODIFIED", plain_pod)
    assert takes_new_pods(placer)


def test_a_pod_that_is_bound_and_cannot_be_read_waits_no_longer() -> None:
    placer = placer_with(gpu_pod("p"))
    PodEventHandler(placer).apply("MODIFIED", unread_pod("p"))
    assert placer.pods == {}


def test_a_pod_that_cannot_be_read_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        placer = placer_with(unread_pod())
        for _ in range(3):
            PodEventHandler(placer).apply("MODIFIED", unread_pod())
            PodEventHandler(placer).replace([unread_pod()])
    assert len(caplog.records) == 1
    assert caplog.messages[0].startswith("pod default/odd: hetserve.io/gpu-memory: ")
    assert caplog.messages[0].endswith("; node n0 takes no new pods while it is there")


@pytest.mark.parametrize("part", ["metadata", "spec", "status"])
def test_whatever_cannot_be_read_of_a_bound_pod_closes_its_node_as_far_as_that_is_known(part: str) -> None:
    odd = gpu_pod("odd", node="n0", gpu="0")
    odd[part] = odd[part] | {"name": 7, "schedulingGates": 7, "phase": 7}
    placer = placer_with(odd, gpu_pod("good", node="n1", gpu="0"))
    assert not takes_new_pods(placer)
    assert placer.ledger.booking("uid-good") is not None, "one pod hides the others"


TOO_MANY = MOST_ITEMS + 25
PLAIN = {"name": "c", "resources": {"limits": {"cpu": "1"}, "requests": {f"{names.NVIDIA}hostdev": "1"}}}
ODD_BUT_WITHOUT_GPUS: dict[str, Json] = {
    "conditions": {"status": {"phase": "Running", "conditions": [{"type": "Ready"}] * TOO_MANY}},
    "containers": {"spec": {"nodeName": "n0", "containers": [PLAIN] * TOO_MANY}},
    "init containers": {"spec": {"nodeName": "n0", "initContainers": [PLAIN] * TOO_MANY}},
    "gates": {"spec": {"nodeName": "n0", "schedulingGates": [{"name": "g"}] * TOO_MANY}},
    "priority": {"spec": {"nodeName": "n0", "containers": [PLAIN], "priority": "x"}},
    "labels": {"metadata": {"name": "odd", "namespace": "default", "uid": "uid-odd", "labels": 7}},
}


@pytest.mark.parametrize("listed", [True, False], ids=["listed", "watched"])
@pytest.mark.parametrize("odd", ODD_BUT_WITHOUT_GPUS.values(), ids=ODD_BUT_WITHOUT_GPUS.keys())
def test_a_pod_that_names_no_gpu_closes_no_node_whatever_else_of_it_is_odd(odd: Json, *, listed: bool) -> None:
    raw = gpu_pod("odd", node="n0") | {"spec": {"nodeName": "n0", "containers": [PLAIN]}} | odd
    placer = placer_with(*([raw] if listed else []))
    if not listed:
        PodEventHandler(placer).apply("ADDED", raw)
    assert takes_new_pods(placer)
    assert not any("takes no new pods" in problem for problem in problem_lines(placer.problems()))


def test_conditions_of_a_bound_pod_of_ours_are_nobodys_business() -> None:
    raw = gpu_pod("ours", node="n0", gpu="0")
    raw["status"]["conditions"] = [{"type": "Ready"}] * TOO_MANY
    placer = placer_with(raw)
    ours = placer.ledger.booking("uid-ours")
    assert ours is not None
    assert ours.gpus == ("0",)
    assert takes_new_pods(placer)


def test_of_very_many_containers_those_that_name_gpus_are_counted_and_too_many_of_these_close_the_node() -> None:
    raw = gpu_pod("ours", node="n0", gpu="0")
    asking = raw["spec"]["containers"]
    raw["spec"]["containers"] = [PLAIN] * TOO_MANY + asking
    request = parse_pod(raw).request
    assert request == parse_pod(gpu_pod("ours", node="n0", gpu="0")).request
    raw["spec"]["containers"] = asking * TOO_MANY
    with pytest.raises(InvalidObjectError, match=f"containers: {TOO_MANY} that may have GPUs; at most 1000 are read"):
        parse_pod(raw)
    assert not takes_new_pods(placer_with(raw))


def test_the_independent_checker_refuses_a_pod_of_ours_beside_one_of_the_plugin() -> None:
    nodes = [gpu_node(name) for name in NODES]
    ours = gpu_pod("ours", node="n0", gpu="0")
    assert violations([ours, plugin_pod(node="n1"), plugin_pod(phase="Succeeded")], nodes) == ()
    assert violations([ours, plugin_pod()], nodes) == (
        "pod default/nvidia has GPUs of node n0 through nvidia.com/gpu, which pods of ours may hold",
    )


@pytest.mark.parametrize("mode", Mode)
def test_the_placement_log_knows_them(mode: Mode) -> None:
    log: list[Any] = []
    placer = placer_with(plugin_pod(), unread_pod(node="n1"), mode=mode, log=log)
    assert isinstance(placer, JournaledPlacer)
    placer.filter(gpu_pod("asks"), NODES)
    checkpoint = plain(placer.journaled.checkpoint())
    PodEventHandler(placer).apply("DELETED", plugin_pod())
    placer.filter(gpu_pod("asks"), NODES)
    header, after = placer.header(0.0), len(log)
    told = json.loads(json.dumps([plain(record) for record in [header, *log]]))
    assert replay(told).difference is None
    since = json.loads(json.dumps([plain(record) for record in [header, checkpoint, *log[after - 2 :]]]))
    assert replay(since).difference is None
    assert "passed" in since[-1]["result"]


def test_another_policy_asked_afterwards_gives_their_gpus_to_nobody_either() -> None:
    log: list[Any] = []
    placer = placer_with(plugin_pod(), unread_pod(node="n1"), log=log)
    assert isinstance(placer, JournaledPlacer)
    first = plain(placer.journaled.checkpoint())
    placer.filter(gpu_pod("asks"), NODES)
    PodEventHandler(placer).replace([unread_pod(node="n1"), plugin_pod(), gpu_pod("asks")])
    records = json.loads(json.dumps([plain(record) for record in [*log]]))
    course = what_if(records, PolicyName("BestFit"))
    assert (course.arrived, course.placed, course.never_placed) == (1, 0, 1)
    course = what_if([first, *records[-2:]], PolicyName("BestFit"))
    assert (course.arrived, course.placed, course.never_placed) == (1, 0, 1)
