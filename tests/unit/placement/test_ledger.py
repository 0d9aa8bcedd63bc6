"""Bookings live by pod UID: reserved, bound, released; what does not add up is reported, never clipped."""

from __future__ import annotations

import pytest

from hetserve.base.units import MiB, Seconds
from hetserve.placement.event_handlers import NodeEventHandler
from hetserve.placement.ledger.bookings import LedgerError, State
from hetserve.placement.ledger.inventory import Gpu, NodeInventory, parse_node
from hetserve.placement.ledger.ledger import Ledger
from hetserve.placement.ledger.problems import problem_lines
from hetserve.placement.placer import Placer
from hetserve.placement.pods.read_ahead import ReducedPod
from hetserve.placement.pods.requests import GpuRequest
from hetserve.placement.pods.view import parse_pod
from testing.cluster import gpu_node, gpu_pod

PLACE = ("n0", "0")


def _ledger(*nodes: str) -> Ledger:
    ledger = Ledger()
    for name in nodes or ("n0",):
        ledger.put_node(parse_node(gpu_node(name)))
    return ledger


def _request(uid: str = "p", mib: int = 4096) -> GpuRequest:
    return GpuRequest(uid, "default", uid, MiB(mib), "resnet")


def test_a_reservation_ends_at_its_deadline() -> None:
    ledger = _ledger()
    ledger.reserve(_request(), [PLACE], Seconds(10))
    assert ledger.expire(Seconds(9.9)) == ((), ())
    ended, overdue = ledger.expire(Seconds(10))
    assert [booking.request.uid for booking in ended] == ["p"]
    assert overdue == ()
    assert ledger.free(PLACE) == 32768


def test_a_later_reservation_replaces_the_earlier_one() -> None:
    ledger = _ledger()
    ledger.reserve(_request(mib=20000), [PLACE], Seconds(10))
    ledger.reserve(_request(mib=30000), [PLACE], Seconds(20))
    ledger.reserve(_request(mib=30000), [("n0", "1")], Seconds(30))
    assert ledger.free(PLACE) == 32768
    assert ledger.expire(Seconds(29)) == ((), ())
    assert ledger.free(("n0", "1")) == 2768


def test_a_gpu_never_takes_more_than_it_has() -> None:
    ledger = _ledger()
    ledger.reserve(_request("a", 30000), [PLACE], Seconds(10))
    with pytest.raises(LedgerError, match="has 2768 MiB free, not 4096"):
        ledger.reserve(_request("b"), [PLACE], Seconds(10))
    assert ledger.booking("b") is None


def test_a_bind_under_way_has_no_deadline() -> None:
    ledger = _ledger()
    ledger.reserve(_request(), [PLACE], Seconds(10))
    ledger.begin_bind("p")
    assert ledger.expire(Seconds(1e9)) == ((), ())
    with pytest.raises(LedgerError, match="already binding on node n0"):
        ledger.reserve(_request(), [("n0", "1")], Seconds(10))


def test_a_bind_that_the_watch_does_not_show_is_looked_up_once_per_deadline() -> None:
    ledger = _ledger()
    ledger.reserve(_request(), [PLACE], Seconds(10))
    ledger.begin_bind("p")
    ledger.confirm_bind("p", Seconds(60))
    _, overdue = ledger.expire(Seconds(60))
    assert [booking.request.uid for booking in overdue] == ["p"]
    assert ledger.expire(Seconds(1e9)) == ((), ())
    assert ledger.free(PLACE) == 32768 - 4096


def test_the_watch_confirms_a_bind_and_takes_its_deadline_away() -> None:
    ledger = _ledger()
    pod = parse_pod(gpu_pod("p", uid="p", node="n0", gpu="0"))
    ledger.reserve(_request(), [PLACE], Seconds(10))
    ledger.begin_bind("p")
    ledger.observe(pod)
    ledger.confirm_bind("p", Seconds(60))
    assert ledger.expire(Seconds(1e9)) == ((), ())
    booking = ledger.booking("p")
    assert booking is not None
    assert booking.confirmed
    assert booking.state is State.BOUND


def test_an_unbound_pod_seen_late_does_not_end_its_reservation() -> None:
    ledger = _ledger()
    ledger.reserve(_request("uid-p"), [PLACE], Seconds(10))
    ledger.observe(parse_pod(gpu_pod("p", gpu="1")))
    assert ledger.free(PLACE) == 32768 - 4096


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_finished_pod_holds_nothing(phase: str) -> None:
    ledger = _ledger()
    ledger.observe(parse_pod(gpu_pod(node="n0", gpu="0")))
    ledger.observe(parse_pod(gpu_pod(node="n0", gpu="0", phase=phase)))
    assert ledger.free(PLACE) == 32768


def test_a_terminating_pod_still_holds_its_gpu() -> None:
    ledger = _ledger()
    ledger.observe(parse_pod(gpu_pod(node="n0", gpu="0", terminating=True)))
    assert ledger.free(PLACE) == 32768 - 4096


def test_pods_of_one_name_are_distinguished_by_uid() -> None:
    ledger = _ledger()
    ledger.observe(parse_pod(gpu_pod("p", uid="new", node="n0", gpu="1")))
    ledger.release("old")
    assert ledger.free(("n0", "1")) == 32768 - 4096


def test_an_inventory_that_shrinks_is_over_used_not_clipped() -> None:
    ledger = _ledger()
    ledger.observe(parse_pod(gpu_pod(node="n0", gpu="0", memory_mib=20000)))
    ledger.put_node(parse_node(gpu_node("n0", memory_mib=16384)))
    assert ledger.free(PLACE) == 16384 - 20000
    assert "GPU 0 of node n0: 20000 MiB are held of 16384" in problem_lines(ledger.problems())
    ledger.release("uid-p0")
    assert ledger.free(PLACE) == 16384
    assert ledger.problems() == ()


def test_pods_bound_before_their_node_is_known_are_remembered_and_reported() -> None:
    ledger = Ledger()
    ledger.observe(parse_pod(gpu_pod(node="n0", gpu="0")))
    assert problem_lines(ledger.problems()) == ("pod default/p0 holds 4096 MiB, but node n0 is not known",)
    ledger.put_node(parse_node(gpu_node("n0")))
    assert ledger.problems() == ()
    assert ledger.free(PLACE) == 32768 - 4096


def test_a_gpu_that_the_node_does_not_have_is_reported() -> None:
    ledger = _ledger()
    ledger.observe(parse_pod(gpu_pod(node="n0", gpu="7")))
    assert problem_lines(ledger.problems()) == ("pod default/p0 holds 4096 MiB, but node n0 has no GPU 7",)


def test_bound_pods_hold_their_gpu_through_the_return_of_a_node_but_reservations_end() -> None:
    ledger = _ledger()
    ledger.observe(parse_pod(gpu_pod(node="n0", gpu="0")))
    ledger.reserve(_request("r"), [("n0", "1")], Seconds(10))
    ledger.put_node(parse_node(gpu_node("n0", uid="again")))
    assert ledger.booking("r") is None
    assert not ledger.drop_node("n0", "uid-n0"), "a late deletion of the earlier node must not drop the new one"
    assert ledger.free(PLACE) == 32768 - 4096
    assert ledger.drop_node("n0", "again")
    assert ledger.free(PLACE) is None


def test_a_bound_pod_without_a_gpu_is_reported() -> None:
    ledger = _ledger()
    ledger.observe(parse_pod(gpu_pod(node="n0")))
    assert problem_lines(ledger.problems()) == (
        "pod default/p0 is bound to n0 for 4096 MiB, but no annotation says on which GPU",
    )


def test_an_annotation_edited_later_does_not_move_the_pod() -> None:
    ledger = _ledger()
    ledger.observe(parse_pod(gpu_pod(node="n0", gpu="0")))
    ledger.observe(parse_pod(gpu_pod(node="n0", gpu="1")))
    assert ledger.free(PLACE) == 32768 - 4096
    assert problem_lines(ledger.problems()) == ("pod default/p0: annotation names GPU 1, it was bound to 0",)


def test_an_annotation_that_differs_from_the_request_is_reported_and_the_request_counts() -> None:
    ledger = _ledger()
    raw = gpu_pod(node="n0", gpu="0")
    raw["metadata"]["annotations"]["hetserve.io/gpu-memory"] = "1"
    ledger.observe(parse_pod(raw))
    assert ledger.free(PLACE) == 32768 - 4096
    assert problem_lines(ledger.problems()) == ("pod default/p0 asks for 4096 MiB, its annotation says '1'",)


def test_one_model_twice_on_a_gpu_and_pods_on_a_sick_gpu_are_reported() -> None:
    ledger = Ledger()
    ledger.put_node(NodeInventory("n0", "u", (Gpu("0", "T4", MiB(16384), healthy=False),)))
    for name in ("a", "b"):
        ledger.observe(parse_pod(gpu_pod(name, node="n0", gpu="0")))
    assert problem_lines(ledger.problems()) == (
        "GPU 0 of node n0 holds model default/resnet 2 times",
        "GPU 0 of node n0 is unhealthy and holds 2 pods",
    )


def test_a_relist_ends_what_is_gone_and_doubts_what_is_younger_than_the_list() -> None:
    ledger = _ledger()
    gone, stays = (parse_pod(gpu_pod(name, node="n0", gpu="0")) for name in ("gone", "stays"))
    ledger.observe(gone)
    ledger.observe(stays)
    ledger.reserve(_request("young"), [("n0", "1")], Seconds(100))
    ledger.begin_bind("young")
    ledger.confirm_bind("young", Seconds(100))
    ledger.relist_pods([stays], Seconds(50))
    assert set(ledger.bookings()) == {"uid-stays", "young"}
    _, overdue = ledger.expire(Seconds(50))
    assert [booking.request.uid for booking in overdue] == ["young"]


@pytest.mark.parametrize("node", [None, "n1"])
def test_a_pod_that_left_its_node_with_a_restored_copy_of_etcd_is_booked_as_listed(node: str | None) -> None:
    placer = Placer(clock=lambda: Seconds(0), hold=Seconds(30))
    NodeEventHandler(placer).replace([gpu_node("n0"), gpu_node("n1")])
    placer.observe(gpu_pod("pod", node="n0", gpu="0"))
    listed = ReducedPod.of(gpu_pod("pod", node=node, gpu="0" if node else None))
    listed.read(placer.ledger.bookings())
    placer.observe_all([listed])
    booking = placer.ledger.booking("uid-pod")
    assert (booking and booking.places) == (((node, "0"),) if node else None)


def test_a_heartbeat_of_a_node_changes_nothing() -> None:
    ledger = _ledger()
    index = ledger.index
    assert not ledger.put_node(parse_node(gpu_node("n0")))
    assert ledger.index is index


def test_the_order_of_events_does_not_matter_to_a_rebuilt_ledger() -> None:
    pods = [parse_pod(gpu_pod(f"p{i}", node="n0", gpu=str(i % 2), model=f"m{i}")) for i in range(6)]
    first, second = _ledger(), Ledger()
    first.relist_pods(pods, Seconds(0))
    second.relist_pods(reversed(pods), Seconds(0))
    second.put_node(parse_node(gpu_node("n0")))
    assert list(first.gpus()) == list(second.gpus())
