"""Pods on several GPUs and on whole ones share one ledger with slices."""

from __future__ import annotations

import pytest

from hetserve.api import names
from hetserve.base.units import MiB, Seconds
from hetserve.placement.ledger.bookings import LedgerError
from hetserve.placement.ledger.inventory import Gpu, NodeInventory, parse_node
from hetserve.placement.ledger.ledger import Ledger
from hetserve.placement.ledger.problems import problem_lines
from hetserve.placement.pods.requests import AntiAffinity, GpuRequest
from hetserve.placement.pods.view import parse_pod
from testing.cluster import gpu_node, gpu_pod

ALL = 32768
SOON = Seconds(10)


def _ledger(gpus: int = 4) -> Ledger:
    ledger = Ledger()
    ledger.put_node(parse_node(gpu_node("n0", gpus=gpus)))
    ledger.put_node(parse_node(gpu_node("n1", gpus=gpus)))
    return ledger


def _request(uid: str = "p", mib: int = 4096, gpus: int = 2) -> GpuRequest:
    return GpuRequest(uid, "default", uid, MiB(mib), uid, gpus=gpus, whole=mib == 0)


def _on(node: str, *gpus: str) -> list[tuple[str, str]]:
    return [(node, gpu) for gpu in gpus]


def _free(ledger: Ledger, node: str = "n0") -> list[int]:
    return [use.free_mib for use in ledger.gpus() if use.node == node]


def test_memory_is_held_on_each_of_the_gpus() -> None:
    ledger = _ledger()
    booking = ledger.reserve(_request(), _on("n0", "2", "0"), SOON)
    assert booking.gpus == ("0", "2"), "in the order of ids"
    assert booking.mib == (4096, 4096)
    assert _free(ledger) == [ALL - 4096, ALL, ALL - 4096, ALL]
    ledger.release("p")
    assert _free(ledger) == [ALL] * 4


def test_a_whole_gpu_is_held_with_all_its_memory() -> None:
    ledger = _ledger()
    booking = ledger.reserve(_request(mib=0), _on("n0", "0", "1"), SOON)
    assert booking.mib == (ALL, ALL)
    assert _free(ledger) == [0, 0, ALL, ALL]
    with pytest.raises(LedgerError, match="GPU 1 of node n0 is not idle"):
        ledger.reserve(_request("q", mib=0), _on("n0", "1", "2"), SOON)
    with pytest.raises(LedgerError, match="GPU 0 of node n0 has 0 MiB free, not 1"):
        ledger.reserve(_request("q", mib=1, gpus=1), _on("n0", "0"), SOON)


def test_a_whole_gpu_needs_an_idle_one() -> None:
    ledger = _ledger()
    ledger.reserve(_request("slice", mib=1, gpus=1), _on("n0", "0"), SOON)
    with pytest.raises(LedgerError, match="GPU 0 of node n0 is not idle"):
        ledger.reserve(_request(mib=0, gpus=1), _on("n0", "0"), SOON)


WRONG = {
    "too few": _on("n0", "0"),
    "too many": _on("n0", "0", "1", "2"),
    "one twice": _on("n0", "0", "0"),
    "on two nodes": [("n0", "0"), ("n1", "0")],
    "one that the node has not": _on("n0", "0", "9"),
}


@pytest.mark.parametrize("places", WRONG.values(), ids=WRONG)
def test_places_that_are_not_what_is_asked_for_are_refused_and_the_earlier_stand(places: list[tuple[str, str]]) -> None:
    ledger = _ledger()
    before = ledger.reserve(_request(), _on("n1", "0", "1"), SOON)
    with pytest.raises(LedgerError):
        ledger.reserve(_request(), places, Seconds(20))
    assert ledger.booking("p") == before
    assert _free(ledger) == [ALL] * 4


def test_a_later_reservation_may_overlap_the_earlier_one() -> None:
    ledger = _ledger()
    ledger.reserve(_request(mib=20000), _on("n0", "0", "1"), SOON)
    ledger.reserve(_request(mib=20000), _on("n0", "1", "2"), SOON)
    assert _free(ledger) == [ALL, ALL - 20000, ALL - 20000, ALL]
    ledger.reserve(_request("q", mib=0, gpus=1), _on("n0", "0"), SOON)
    ledger.reserve(_request("q", mib=0, gpus=1), _on("n0", "0"), SOON)
    assert _free(ledger)[0] == 0


def test_a_bound_pod_is_booked_on_the_gpus_that_its_annotation_names() -> None:
    ledger = _ledger()
    ledger.observe(parse_pod(gpu_pod("p", node="n0", gpu="1,3", gpus=2)))
    assert _free(ledger) == [ALL, ALL - 4096, ALL, ALL - 4096]
    assert ledger.problems() == ()
    ledger.observe(parse_pod(gpu_pod("p", node="n0", gpu="1,3", gpus=2, phase="Succeeded")))
    assert _free(ledger) == [ALL] * 4


def test_a_bound_whole_pod_holds_all_memory_whatever_its_annotation_says() -> None:
    ledger = _ledger()
    raw = gpu_pod("p", node="n0", gpu="1", gpus=1, memory_mib=0)
    raw["metadata"]["annotations"][names.ANNOTATION_GPU_MEMORY] = "1"
    ledger.observe(parse_pod(raw))
    assert _free(ledger) == [ALL, 0, ALL, ALL]


def test_a_whole_gpu_stays_whole_when_the_inventory_grows() -> None:
    ledger = _ledger()
    ledger.observe(parse_pod(gpu_pod("p", node="n0", gpu="1", gpus=1, memory_mib=0)))
    ledger.put_node(parse_node(gpu_node("n0", gpus=4, memory_mib=2 * ALL)))
    assert _free(ledger) == [2 * ALL, 0, 2 * ALL, 2 * ALL]


def test_an_annotation_with_another_number_of_gpus_is_booked_and_reported() -> None:
    ledger = _ledger()
    ledger.observe(parse_pod(gpu_pod("p", node="n0", gpu="1", gpus=2)))
    assert _free(ledger) == [ALL, ALL - 4096, ALL, ALL]
    assert problem_lines(ledger.problems()) == (
        "pod default/p asks for 4096 MiB on each of 2 GPUs, its annotation names GPU 1",
    )


def test_a_whole_gpu_that_somebody_shares_is_over_used_and_reported() -> None:
    ledger = _ledger()
    ledger.observe(parse_pod(gpu_pod("whole", node="n0", gpu="0", gpus=1, memory_mib=0)))
    ledger.observe(parse_pod(gpu_pod("slice", node="n0", gpu="0", memory_mib=100, model="other")))
    assert _free(ledger)[0] == -100
    assert problem_lines(ledger.problems()) == ("GPU 0 of node n0 is held whole by pod default/whole and holds 2 pods",)


def test_one_stray_gpu_of_a_pod_closes_the_node_until_the_pod_ends() -> None:
    ledger = _ledger(gpus=2)
    ledger.observe(parse_pod(gpu_pod("p", node="n0", gpu="1,7", gpus=2)))
    assert problem_lines(ledger.problems()) == ("pod default/p holds 4096 MiB, but node n0 has no GPU 7",)
    assert [bool(ledger.index.open[ledger.index.row["n0", gpu]]) for gpu in "01"] == [False, False]
    ledger.release("uid-p")
    assert ledger.index.open.all()


def test_a_reservation_ends_when_any_of_its_gpus_turns_unhealthy_or_is_gone() -> None:
    def listed(*healthy: bool) -> NodeInventory:
        return NodeInventory("n0", "u", tuple(Gpu(str(n), "T4", MiB(ALL), ok) for n, ok in enumerate(healthy)))

    for after in (listed(True, False), listed(True)):
        ledger = Ledger()
        ledger.put_node(listed(True, True))
        ledger.reserve(_request(), _on("n0", "0", "1"), SOON)
        ledger.put_node(after)
        assert ledger.booking("p") is None
    ledger.put_node(listed(True, True))
    ledger.reserve(_request("q", gpus=1), _on("n0", "0"), SOON)
    ledger.put_node(listed(True, False))
    assert ledger.booking("q") is not None, "a GPU beside the sick one is still good"


SHARING = {
    "both agree": (("None", "None"), True),
    "only the first": (("None", "Hard"), False),
    "only the second": (("Hard", "None"), False),
    "neither": (("Hard", "Hard"), False),
}


@pytest.mark.parametrize(("said", "allowed"), SHARING.values(), ids=SHARING)
def test_one_model_twice_on_a_gpu_is_reported_unless_both_agree(said: tuple[str, str], allowed: bool) -> None:
    ledger = _ledger()
    for name, value in zip("ab", said, strict=True):
        wish = {names.ANNOTATION_ANTI_AFFINITY: value}
        pod = parse_pod(gpu_pod(name, node="n0", gpu="0", annotations=wish))
        assert pod.request.anti_affinity is AntiAffinity(value)
        ledger.observe(pod)
    assert problem_lines(ledger.problems()) == (
        () if allowed else ("GPU 0 of node n0 holds model default/resnet 2 times",)
    )
