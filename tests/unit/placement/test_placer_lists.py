"""A list of all pods instead of those known: what changed is told, what did not is not."""

from __future__ import annotations

from hetserve.placement import NodeSink, Placer
from hetserve.placement.reduced import reduced_pod
from hetserve.testing.cluster import gpu_node, gpu_pod
from hetserve.units import Seconds


def placer() -> Placer:
    made = Placer(clock=lambda: Seconds(0.0), hold=Seconds(30.0))
    NodeSink(made).replace([gpu_node("n0")])
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
    ahead = [reduced_pod(raw) for raw in raws]
    for pod in ahead:
        pod.read_ahead()
    early, late = placer(), placer()
    early.observe_all(ahead)
    late.observe_all(raws)
    assert early.pods == late.pods
    assert list(early.pods) == ["uid-waits"]
    assert early.ledger.bookings() == late.ledger.bookings()
    assert early.problems() == late.problems()
    assert len(early.problems()) == 2


def test_a_list_ends_the_complaint_about_a_pod_that_it_does_not_show_bound() -> None:
    made = placer()
    made.observe_all([gpu_pod("unsaid", node="n0")])
    assert len(made.problems()) == 1
    made.observe_all([gpu_pod("unsaid")])
    assert "uid-unsaid" not in made.ledger.unplaced()
