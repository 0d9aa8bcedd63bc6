"""Compute is booked beside memory: what pods declare, who shares with whom, and what is said where it is short."""

from __future__ import annotations

import re
from typing import Any

import pytest

from hetserve.api import names
from hetserve.base.units import MiB, Percent, Seconds
from hetserve.objects.fields import InvalidObjectError
from hetserve.placement.check import violations
from hetserve.placement.decision.decide import decide
from hetserve.placement.decision.explain import explain
from hetserve.placement.decision.wording import refusal_text, too_late_text
from hetserve.placement.event_handlers import NodeEventHandler, PodEventHandler
from hetserve.placement.ledger.bookings import LedgerError
from hetserve.placement.ledger.compare import ClusterHoldings, Kind, compare
from hetserve.placement.ledger.inventory import Gpu, NodeInventory, parse_node
from hetserve.placement.ledger.ledger import Ledger
from hetserve.placement.ledger.problems import problem_lines
from hetserve.placement.placer import Placer
from hetserve.placement.pods.requests import GpuRequest, PolicyName
from hetserve.placement.pods.view import parse_pod
from hetserve.placement.queues.clustering import Shape, distance
from testing.cluster import gpu_node, gpu_pod

Json = dict[str, Any]
COMPUTE = names.RESOURCE_GPU_COMPUTE
SOON = Seconds(10)
NODE = gpu_node("n0", gpus=2, memory_mib=16384)


def ledger_of(*pods: Json, node: Json = NODE) -> Ledger:
    ledger = Ledger()
    ledger.put_node(parse_node(node))
    for pod in pods:
        ledger.observe(parse_pod(pod))
    return ledger


def held(name: str, compute: int | None, gpu: str = "0", **fields: Any) -> Json:
    given: dict[str, Any] = {"memory_mib": 2048, "model": name} | fields
    return gpu_pod(name, compute=compute, node="n0", gpu=gpu, **given)


def asks(compute: int | None, mib: int = 2048, gpus: int = 1, **fields: Any) -> GpuRequest:
    percent = None if compute is None else Percent(compute)
    return GpuRequest("new", "default", "new", MiB(mib), "new", gpus, compute=percent, **fields)


def chosen(ledger: Ledger, request: GpuRequest) -> list[str]:
    found = decide(ledger.index, request, ["n0"]).chosen
    return [] if found is None else [gpu for _, gpu in found.places]


def refused(ledger: Ledger, request: GpuRequest) -> str:
    (refusal,) = decide(ledger.index, request, ["n0"]).refusals
    return refusal_text(refusal)


# What a pod declares


def container(percent: str | None, mib: str = "100") -> Json:
    limits = {names.RESOURCE_GPU_MEMORY: mib} | ({} if percent is None else {COMPUTE: percent})
    return {"name": "c", "resources": {"limits": limits}}


@pytest.mark.parametrize(
    ("containers", "compute"),
    [
        ([container(None)], None),
        ([container("0")], None),
        ([container("1")], 1),
        ([container("100")], 100),
        ([container("40"), container("25")], 65),
        ([container(None), container("25")], 25),
    ],
)
def test_containers_sum_to_what_the_pod_declares(containers: list[Json], compute: int | None) -> None:
    raw = gpu_pod()
    raw["spec"]["containers"] = containers
    assert parse_pod(raw).placeable().compute == compute


@pytest.mark.parametrize(
    ("limits", "words"),
    [
        (
            {COMPUTE: "101", names.RESOURCE_GPU_MEMORY: "1"},
            f"{COMPUTE}: 101 is too much; it counts percent, at most 100",
        ),
        ({COMPUTE: "0.5", names.RESOURCE_GPU_MEMORY: "1"}, f"{COMPUTE}: 0.5 is no whole percent; write 1"),
        ({COMPUTE: "500m", names.RESOURCE_GPU_MEMORY: "1"}, f"{COMPUTE}: 500m is no whole percent; write 1"),
        ({COMPUTE: "-5", names.RESOURCE_GPU_MEMORY: "1"}, COMPUTE),
        ({COMPUTE: "half", names.RESOURCE_GPU_MEMORY: "1"}, COMPUTE),
        ({COMPUTE: "30"}, f"{COMPUTE}: 30 without {names.RESOURCE_GPU_MEMORY}: name the MiB that the pod needs"),
        (
            {COMPUTE: "30", names.RESOURCE_GPU: "2"},
            f"{COMPUTE}: 30 beside {names.RESOURCE_GPU}: 2: a whole GPU has all its compute; leave {COMPUTE} away",
        ),
    ],
)
def test_what_cannot_be_is_refused_by_field_value_and_remedy(limits: dict[str, str], words: str) -> None:
    raw = gpu_pod()
    raw["spec"]["containers"] = [{"name": "c", "resources": {"limits": limits, "requests": limits}}]
    with pytest.raises(InvalidObjectError, match=re.escape(words)):
        parse_pod(raw).placeable()


def test_containers_that_sum_to_more_than_a_gpu_are_refused() -> None:
    raw = gpu_pod()
    raw["spec"]["containers"] = [container("60"), container("50")]
    with pytest.raises(InvalidObjectError, match=f"{COMPUTE} sums to 110 percent; at most 100 percent is possible"):
        parse_pod(raw)


def test_a_pod_that_runs_with_compute_of_no_shared_gpu_closes_no_node() -> None:
    whole = gpu_pod("whole", memory_mib=0, gpus=1, compute=30, node="n0", gpu="0")
    lone = gpu_pod("lone", compute=30, node="n0")
    del lone["spec"]["containers"][0]["resources"]["limits"][names.RESOURCE_GPU_MEMORY]
    ledger = ledger_of(whole, lone)
    assert chosen(ledger, asks(100)) == ["1"]
    assert [use.booked_compute for use in ledger.gpus()] == [100, 0]


# Who fits where


def test_pods_share_a_gpu_up_to_all_of_its_compute() -> None:
    ledger = ledger_of(held("a", 60), held("b", 80, "1"))
    assert chosen(ledger, asks(40)) == ["0"]
    assert chosen(ledger, asks(20)) == ["0"], "worst fit as published: equal memory, the first"
    assert chosen(ledger, asks(41)) == []
    assert (
        refused(ledger, asks(41)) == "no GPU with 2048 MiB and 41 percent of compute free;"
        " the most compute free on any GPU with the memory is 40 percent"
    )


def test_compute_is_needed_on_each_of_several_gpus() -> None:
    ledger = ledger_of(held("a", 60))
    assert chosen(ledger, asks(40, gpus=2)) == ["0", "1"]
    assert (
        refused(ledger, asks(50, gpus=2))
        == "fewer than 2 GPUs with 2048 MiB and 50 percent of compute free; the most on any node is 1"
    )


def test_memory_is_named_first_where_both_are_short() -> None:
    ledger = ledger_of(held("a", 60, "0,1", gpus=2, memory_mib=15000))
    assert refused(ledger, asks(90)).startswith("no GPU with 2048 MiB free; the most free on any eligible GPU is 1384")


def test_who_declares_none_shares_only_with_others_who_declare_none() -> None:
    undeclared, declared = ledger_of(held("a", None)), ledger_of(held("a", 5))
    assert chosen(undeclared, asks(1)) == ["1"]
    assert chosen(declared, asks(None)) == ["1"]
    assert chosen(ledger_of(held("a", None), held("b", 1, "1")), asks(None)) == ["0"]
    full = [held("b", None, "1", memory_mib=16384)]
    assert refused(ledger_of(held("a", None), *full), asks(1)) == (
        f"pods that declare no {COMPUTE} are on every GPU with 2048 MiB free"
    )
    assert refused(ledger_of(held("a", 5), *full), asks(None)) == (
        f"pods that declare {COMPUTE} are on every GPU with 2048 MiB free"
    )
    assert refused(ledger_of(held("a", None)), asks(1, gpus=2)) == (
        "fewer than 2 GPUs with 2048 MiB free without pods that declare no compute"
    )


def test_whole_gpus_are_idle_ones_whatever_others_declare() -> None:
    assert chosen(ledger_of(held("a", 1)), asks(None, 0, whole=True)) == ["1"]
    assert chosen(ledger_of(held("w", None, memory_mib=0, gpus=1)), asks(100)) == ["1"]


def test_each_gpu_says_by_how_much_it_is_short_and_of_what() -> None:
    ledger = ledger_of(held("a", 70), held("b", None, "1", memory_mib=16000))
    said = {one.gpu.id: [reason.text for reason in one.reasons] for one in explain(ledger, asks(50))}
    assert said["0"] == ["20 percent of compute short: 30 percent free, 50 percent wanted"]
    assert said["1"] == [
        "1664 MiB short: 384 MiB free, 2048 wanted",
        "default/b there declares no compute, and shares only with pods that declare none",
    ]
    said = {one.gpu.id: [reason.text for reason in one.reasons] for one in explain(ledger, asks(None))}
    assert said["0"] == [f"default/a there declares compute, and this pod declares none: name {COMPUTE}"]
    assert [one.free_compute for one in explain(ledger, asks(50))] == [30, None]


def test_a_bind_that_comes_too_late_names_the_compute() -> None:
    (refusal,) = decide(ledger_of(held("a", 60, "0,1", gpus=2)).index, asks(50), ["n0"]).refusals
    assert too_late_text(refusal).startswith(
        "no GPU with 2048 MiB and 50 percent of compute free any more; the most compute"
    )


@pytest.mark.parametrize("request_", [asks(50), asks(50, gpus=2), asks(None), asks(1), asks(90, 30000)])
def test_no_refusal_holds_a_sign_that_the_scheduler_would_take_for_a_format(request_: GpuRequest) -> None:
    for ledger in (
        ledger_of(held("a", 60, "0,1", gpus=2)),
        ledger_of(held("a", None, "0,1", gpus=2)),
        ledger_of(held("a", 60), held("b", None, "1")),
    ):
        texts = [refusal_text(one) for one in decide(ledger.index, request_, ["n0"], explain=True).refusals]
        assert not any("%" in text for text in texts), texts


# The policy for both


def policy_choice(sizes: list[int], pods: list[tuple[str, int, int]], request: GpuRequest) -> list[str]:
    ledger = Ledger()
    gpus = tuple(Gpu(str(number), "V100", MiB(mib)) for number, mib in enumerate(sizes))
    ledger.put_node(NodeInventory("n0", "n0", gpus))
    for number, (gpu, mib, percent) in enumerate(pods):
        one = GpuRequest(f"h{number}", "d", "h", MiB(mib), compute=Percent(percent))
        ledger.reserve(one, [("n0", gpu)], SOON)
    found = decide(ledger.index, request, ["n0"], policy=PolicyName("DominantWorstFit")).chosen
    return [] if found is None else [gpu for _, gpu in found.places]


def test_the_scarcer_of_memory_and_compute_decides() -> None:
    full_of_memory, full_of_compute = ("0", 8000, 10), ("1", 1000, 70)
    assert policy_choice([16000, 16000], [full_of_memory, full_of_compute], asks(20)) == ["0"], "37 % before 10 percent"
    assert policy_choice([16000, 16000], [full_of_memory, full_of_compute], asks(5, 6000)) == ["1"], (
        "25 % before 12 percent"
    )
    assert policy_choice([16000, 16000], [("1", 1000, 10)], asks(10)) == ["0"]
    assert policy_choice([16000, 32000], [], asks(60)) == ["1"], "40 percent on both: the most free memory"
    assert policy_choice([16000, 16000], [], asks(60)) == ["0"], "equal: the first"
    assert policy_choice([16000, 32000], [], asks(None, 0, whole=True)) == ["1"]


# What the ledger takes


def test_the_ledger_takes_no_booking_beyond_the_compute_or_beside_the_other_kind() -> None:
    ledger = ledger_of(held("a", 60), held("b", None, "1"))
    with pytest.raises(LedgerError, match="GPU 0 of node n0 has 40 percent of its compute free, not 41"):
        ledger.reserve(asks(41), [("n0", "0")], SOON)
    with pytest.raises(LedgerError, match="pod default/b on GPU 1 of node n0 declares no compute"):
        ledger.reserve(asks(1), [("n0", "1")], SOON)
    with pytest.raises(LedgerError, match="pod default/a on GPU 0 of node n0 declares compute"):
        ledger.reserve(asks(None), [("n0", "0")], SOON)
    ledger.reserve(asks(40), [("n0", "0")], SOON)
    again = ledger.reserve(asks(35), [("n0", "0")], SOON)
    assert again.request.compute == 35, "its own reservation counts as free"
    assert [use.free_compute for use in ledger.gpus()] == [5, None]


def test_a_reservation_is_no_good_once_its_gpu_is_over_booked_or_mixed() -> None:
    for stranger, other in ((held("s", 50), asks(60)), (held("s", None), asks(60)), (held("s", 50), asks(None))):
        placer = Placer(clock=lambda: Seconds(0.0), hold=Seconds(30.0))
        NodeEventHandler(placer).replace([gpu_node("n0", gpus=1)])
        placer.ledger.reserve(other, [("n0", "0")], SOON)
        PodEventHandler(placer).apply("ADDED", stranger)
        with pytest.raises(LedgerError, match="node n0: "):
            placer.fix_gpus(other, "n0")


def test_a_pod_that_asks_for_other_compute_gets_its_gpu_chosen_again() -> None:
    placer = Placer(clock=lambda: Seconds(0.0), hold=Seconds(30.0))
    NodeEventHandler(placer).replace([NODE])
    PodEventHandler(placer).apply("ADDED", held("a", 50))
    placer.ledger.reserve(asks(30), [("n0", "0")], SOON)
    booking = placer.fix_gpus(asks(60), "n0")
    assert (booking.gpus, booking.request.compute) == (("1",), 60)


# What does not add up


def test_a_gpu_with_more_than_all_of_its_compute_or_with_both_kinds_is_a_problem() -> None:
    ledger = ledger_of(held("a", 70), held("b", 60), held("c", 30, "1"), held("d", None, "1"), held("e", None, "1"))
    assert problem_lines(ledger.problems()) == (
        "GPU 0 of node n0: 130 percent of its compute is booked",
        "GPU 1 of node n0: 30 percent of its compute is booked beside pods that declare none: default/d and 1 more",
    )
    pods = [held("a", 70), held("b", 60), held("c", 30, "1"), held("d", None, "1")]
    assert violations(pods, [NODE]) == (
        "GPU 0 of node n0 is over-booked: 130 percent of its compute",
        "GPU 1 of node n0 holds pods that declare compute beside pods that do not",
    )


@pytest.mark.parametrize("written", ["10", "", "x", None, "60,60"])
def test_the_spec_counts_whatever_the_annotation_says_and_the_difference_is_told(written: str | None) -> None:
    pod = held("a", 60)
    if written is None:
        del pod["metadata"]["annotations"][names.ANNOTATION_GPU_COMPUTE]
    else:
        pod["metadata"]["annotations"][names.ANNOTATION_GPU_COMPUTE] = written
    ledger = ledger_of(pod)
    assert [use.free_compute for use in ledger.gpus()] == [40, 100]
    (problem,) = problem_lines(ledger.problems())
    assert problem.startswith(
        f"pod default/a asks for 2048 MiB and 60 percent of compute, its annotation {COMPUTE} says "
    )


def test_who_declares_none_and_is_annotated_counts_as_undeclared() -> None:
    pod = held("a", None)
    pod["metadata"]["annotations"][names.ANNOTATION_GPU_COMPUTE] = "30"
    ledger = ledger_of(pod)
    assert [use.free_compute for use in ledger.gpus()] == [None, 100]
    assert problem_lines(ledger.problems()) == (
        f"pod default/a declares no compute, its annotation {names.ANNOTATION_GPU_COMPUTE} says '30'",
    )
    assert violations([pod], [NODE]) == (
        f"pod default/a: {names.ANNOTATION_GPU_COMPUTE} '30' is not 0 percent on 1 GPUs",
    )


def test_drift_of_compute_is_told_of_the_pod_and_of_its_gpu() -> None:
    ledger, edited = ledger_of(held("a", 60)), held("a", 60)
    assert compare(ledger, ClusterHoldings.of([held("a", 60)], [NODE])) == ()
    edited["metadata"]["annotations"][names.ANNOTATION_GPU_COMPUTE] = "10"
    found = {one.kind: one.text for one in compare(ledger, ClusterHoldings.of([edited], [NODE]))}
    assert found == {
        Kind.OTHER_COMPUTE: "pod default/a is booked with 60 percent of compute and holds 10 percent",
        Kind.OTHER_FREE_COMPUTE: (
            "GPU 0 of node n0 has 40 percent of compute free in the ledger, 90 by the cluster's pods"
        ),
    }
    del edited["metadata"]["annotations"][names.ANNOTATION_GPU_COMPUTE]
    texts = [one.text for one in compare(ledger, ClusterHoldings.of([edited], [NODE]))]
    assert "pod default/a is booked with 60 percent of compute and holds none" in texts


# The queues


def test_a_shape_is_as_large_as_the_larger_of_its_shares_and_as_published_without_compute() -> None:
    small, large = Shape(MiB(1000), "m"), Shape(MiB(1000), "m", 1, Percent(80))
    assert small.size(MiB(10_000)) == Shape(MiB(1000), "m", 1, Percent(5)).size(MiB(10_000)) == 0.1
    assert distance(small, large, MiB(10_000)) == pytest.approx(0.7)
