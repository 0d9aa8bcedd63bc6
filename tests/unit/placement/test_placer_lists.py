"""A list of all pods instead of those known: what changed is told, what did not is not."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from itertools import product
from typing import Any

import pytest

from hetserve.api import names
from hetserve.base.units import Seconds
from hetserve.placement.event_handlers import NodeEventHandler, PodEventHandler
from hetserve.placement.ledger.bookings import LedgerError
from hetserve.placement.ledger.ledger import Ledger
from hetserve.placement.ledger.problems import problem_lines
from hetserve.placement.placer import Placer
from hetserve.placement.pods.read_ahead import ReducedPod
from hetserve.placement.pods.view import PodView, parse_pod
from hetserve_extender.leader.fence import listed_pod
from testing.cluster import gpu_node, gpu_pod

Json = dict[str, Any]


def placer() -> Placer:
    made = Placer(clock=lambda: Seconds(0.0), hold=Seconds(30.0))
    NodeEventHandler(made).replace([gpu_node("n0")])
    return made


def test_of_a_list_the_queues_hear_of_the_pods_that_it_shows_otherwise() -> None:
    """Ten thousand pods that wait as before are no news."""
    made, told = placer(), list[str]()
    made.on_pod = told.append
    made.observe_all([gpu_pod("same"), gpu_pod("edited"), gpu_pod("bound"), gpu_pod("gone")])
    assert sorted(told) == ["uid-bound", "uid-edited", "uid-gone", "uid-same"]
    told.clear()
    made.observe_all([gpu_pod("same"), gpu_pod("edited", priority=7), gpu_pod("bound", node="n0", gpu="0"), gpu_pod()])
    assert sorted(told) == ["uid-bound", "uid-edited", "uid-gone", "uid-p0"]
    assert sorted(made.pods) == ["uid-edited", "uid-p0", "uid-same"]


def test_a_list_that_was_read_ahead_says_the_same_as_one_that_was_not() -> None:
    raws = [
        gpu_pod("waits"),
        gpu_pod("odd", memory_mib="much"),
        gpu_pod("bound", node="n0", gpu="0"),
        gpu_pod("unsaid", node="n0"),
        gpu_pod("over", phase="Succeeded"),
        gpu_pod("other", memory_mib=0),
    ]
    ahead = [ReducedPod.of(raw) for raw in raws]
    for pod in ahead:
        pod.read()
    early, late = placer(), placer()
    early.observe_all(ahead)
    late.observe_all(raws)
    assert early.pods == late.pods
    assert list(early.pods) == ["uid-waits"]
    assert early.ledger.bookings() == late.ledger.bookings()
    assert problem_lines(early.problems()) == problem_lines(late.problems())
    assert len(early.problems()) == 2


def test_a_list_ends_the_complaint_about_a_pod_that_it_does_not_show_bound() -> None:
    made = placer()
    made.observe_all([gpu_pod("unsaid", node="n0")])
    assert len(made.problems()) == 1
    made.observe_all([gpu_pod("unsaid")])
    assert "uid-unsaid" not in made.ledger.annotation_problems()


def bound(name: str, **changes: Any) -> Json:
    usual: Json = {"node": "n0", "gpu": "0", "memory_mib": 1024, "model": name}
    return gpu_pod(name, **(usual | changes))


def compared(placer: Placer, raws: list[Json]) -> list[ReducedPod]:
    """Pods of a list, looked at while it still comes."""
    pods = [ReducedPod.of(raw) for raw in raws]
    for pod in pods:
        pod.read(placer.ledger.bookings(), placer.pods)
    return pods


def nothing(_placer: Placer) -> None:
    pass


def anew(placer: Placer, raw: Json) -> None:
    placer.forget(raw["metadata"]["uid"])
    PodEventHandler(placer).apply("ADDED", raw)


def bind(placer: Placer, name: str) -> None:
    """To GPU 1, which has more room."""
    placer.forget(f"uid-{name}")
    booking = placer.fix_gpus(parse_pod(gpu_pod(name, memory_mib=1024, model=name)).request, "n0")
    placer.ledger.confirm_bind(booking.request.uid, Seconds(75.0))


def without_gpu(raw: Json) -> Json:
    del raw["metadata"]["annotations"][names.ANNOTATION_GPU]
    return raw


SHARES = {names.ANNOTATION_ANTI_AFFINITY: "None"}
KNOWN = {"a": bound("a"), "lax": bound("lax", annotations=SHARES), "two": bound("two", gpus=2, gpu="0,1")}
LISTED: dict[str, Json | None] = {
    "is as it was": bound("a"),
    "is gone": None,
    "has ended": bound("a", phase="Succeeded"),
    "has another model": bound("a", model="b"),
    "has no model": bound("a", model=None),
    "names another GPU": bound("a", gpu="1"),
    "names no GPU": without_gpu(bound("a")),
    "asks for nothing": bound("a", memory_mib=0),
    "cannot be read": bound("a", memory_mib="much"),
    "has no node": gpu_pod("a", memory_mib=1024, model="a"),
    "no longer shares with its model": bound("lax"),
    "shares as before": KNOWN["lax"],
    "names one of its GPUs": bound("two", gpus=2, gpu="1"),
}
MEANWHILE: dict[str, Callable[[Placer], None]] = {
    "nothing happens": nothing,
    "it is released": lambda placer: placer.forget("uid-a"),
    "it is booked elsewhere": lambda placer: anew(placer, bound("a", gpu="1")),
    "it is bound by us, and no watch has shown it": lambda placer: bind(placer, "a"),
    "it is made again": lambda placer: anew(placer, bound("a")),
    "its model changes": lambda placer: PodEventHandler(placer).apply("MODIFIED", bound("a", model="c")),
    "another no longer shares": lambda placer: PodEventHandler(placer).apply("MODIFIED", bound("lax")),
    "it loses its annotation": lambda placer: PodEventHandler(placer).apply("MODIFIED", without_gpu(bound("a"))),
    "its node goes": lambda placer: NodeEventHandler(placer).apply("DELETED", gpu_node("n0")),
    "its node comes back with one GPU": lambda placer: NodeEventHandler(placer).apply(
        "MODIFIED", gpu_node("n0", gpus=1)
    ),
}


@pytest.mark.parametrize("listed", LISTED)
def test_a_list_compared_ahead_leaves_what_one_leaves_that_is_taken_whole(listed: str) -> None:
    """Whatever was known before, and whatever happens between the look at a pod and the end of the list."""
    for before, meanwhile in product(MEANWHILE, MEANWHILE):
        early, late = both_ways(listed, before, meanwhile)
        case = f"before, {before}; meanwhile, {meanwhile}"
        assert early.ledger.bookings() == late.ledger.bookings(), case
        assert early.pods == late.pods, case
        assert problem_lines(early.problems()) == problem_lines(late.problems()), case
        assert list(early.ledger.gpus()) == list(late.ledger.gpus()), case


def both_ways(listed: str, before: str, meanwhile: str) -> tuple[Placer, Placer]:
    """Placers that took a list compared ahead, and whole."""
    early, late = placer(), placer()
    shown = {**KNOWN}
    if (changed := LISTED[listed]) is None:
        del shown["a"]
    else:
        shown[changed["metadata"]["name"]] = changed
    final = list(shown.values())
    for one in (early, late):
        one.observe_all(list(KNOWN.values()))
        MEANWHILE[before](one)
    pods = compared(early, final)
    for one in (early, late):
        with suppress(LedgerError):  # the node has gone before
            MEANWHILE[meanwhile](one)
    early.observe_all(pods)
    late.observe_all(final)
    return early, late


def test_a_bound_pod_that_is_as_it_was_is_not_taken_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 18,000 pods they are nearly all, and to take one is five times the work of seeing that it is known."""
    made, taken, real = placer(), list[str](), Ledger.observe
    raws = [bound(f"p{number}") for number in range(9)]
    made.observe_all(raws)
    held = dict(made.ledger.bookings())

    def observe(ledger: Ledger, pod: PodView, verify_at: Seconds | None = None) -> None:
        taken.append(pod.uid)
        real(ledger, pod, verify_at)

    monkeypatch.setattr(Ledger, "observe", observe)
    raws[3] = bound("p3", model="other")
    made.observe_all(compared(made, [*raws, bound("new")]))
    assert taken == ["uid-p3", "uid-new"]
    assert all(made.ledger.booking(uid) is booking for uid, booking in held.items() if uid != "uid-p3")


def versioned(name: str, revision: str, **changes: Any) -> Json:
    raw = gpu_pod(name, **changes)
    raw["metadata"]["resourceVersion"] = revision
    return raw


def test_a_waiting_pod_that_is_as_it_was_is_the_same_object_and_its_version_is_that_of_the_list() -> None:
    """To find 18,000 pods equal field by field takes 30 ms, to find them the same 2."""
    made, told = placer(), list[str]()
    made.observe_all([listed_pod(versioned(name, "1")) for name in ("same", "touched", "edited", "gone")])
    same = made.pods["uid-same"]
    made.on_pod = told.append
    listed = [versioned("same", "1"), versioned("touched", "2"), versioned("edited", "3", priority=7)]
    made.observe_all([listed_pod(raw, made) for raw in listed])
    assert told == ["uid-edited", "uid-gone"]
    assert made.pods["uid-same"] is same
    assert made.pods["uid-touched"].revision == "2", "filter would take an old version for the present one"
    assert (made.pods["uid-edited"].request.priority, made.pods["uid-edited"].revision) == (7, "3")
    for priority in (8, 9):
        made.observe_all(compared(made, [gpu_pod("edited", priority=priority)]))
        assert made.pods["uid-edited"].request.priority == priority, "of pods without a version the content counts"
