"""Pods and inventories made to hurt the account of several and of whole GPUs; each failure message states the harm."""

from __future__ import annotations

import pytest

from hetserve.api import names
from hetserve.base.units import Seconds
from hetserve.objects.resources import MAX_GPUS_PER_NODE
from hetserve.placement.check import RawObject, violations
from hetserve.placement.decision.decide import decide, scores
from hetserve.placement.decision.wording import texts_by_node
from hetserve.placement.event_handlers import NodeEventHandler, PodEventHandler
from hetserve.placement.ledger.bookings import Booking, LedgerError
from hetserve.placement.ledger.inventory import parse_node
from hetserve.placement.ledger.ledger import Ledger
from hetserve.placement.placer import Mode, Placer
from hetserve.placement.pods.requests import MOST_WISHES, GpuRequest, PolicyName
from hetserve.placement.pods.view import parse_pod
from hetserve.registry.placement_policies import PLACEMENT_POLICIES
from testing.cluster import gpu_node, gpu_pod

ALL = 32768


def _placer(*nodes: RawObject, mode: Mode = Mode.DECIDE) -> Placer:
    placer = Placer(clock=lambda: Seconds(0.0), hold=Seconds(30.0), mode=mode)
    NodeEventHandler(placer).replace(nodes or [gpu_node("n0")])
    return placer


def _free(ledger: Ledger) -> list[int]:
    return [use.free_mib for use in ledger.gpus()]


def _request(**fields: object) -> GpuRequest:
    return parse_pod(gpu_pod(**fields)).placeable()  # type: ignore[arg-type]


SPOILT = {
    names.ANNOTATION_PLACEMENT_POLICY: "Random",
    names.ANNOTATION_GPU_UUID: ",",
    names.ANNOTATION_ANTI_AFFINITY: "Soft",
    names.ANNOTATION_GPU_PRODUCT: ",,,",
}


@pytest.mark.parametrize(("key", "value"), SPOILT.items())
def test_spoiling_an_annotation_of_a_running_pod_does_not_free_its_gpu(key: str, value: str) -> None:
    placer = _placer()
    raw = gpu_pod(node="n0", gpu="0,1", gpus=2, memory_mib=ALL)
    PodEventHandler(placer).apply("ADDED", raw)
    raw["metadata"]["annotations"][key] = value
    PodEventHandler(placer).apply("MODIFIED", raw)
    assert _free(placer.ledger) == [0, 0], "an annotation frees two full GPUs"
    PodEventHandler(placer).replace([raw])
    assert _free(placer.ledger) == [0, 0], "after a restart an annotation frees two full GPUs"


def test_a_wish_that_cannot_be_read_does_not_keep_a_pod_behind_the_gate_in_silence() -> None:
    placer = _placer()
    raw = gpu_pod(gates=(names.QUEUE_GATE,), annotations={names.ANNOTATION_PLACEMENT_POLICY: "Random"})
    PodEventHandler(placer).apply("ADDED", raw)
    assert "uid-p0" in placer.pods, "the pod is never released, and no event says why"


def test_a_pod_on_two_gpus_is_never_half_booked() -> None:
    ledger = Ledger()
    ledger.put_node(parse_node(gpu_node("n0")))
    ledger.reserve(_request(name="there", memory_mib=ALL, model="x"), [("n0", "1")], Seconds(1))
    with pytest.raises(LedgerError):
        ledger.reserve(_request(gpus=2), [("n0", "0"), ("n0", "1")], Seconds(1))
    assert _free(ledger) == [ALL, 0], "a pod that got nothing keeps half of what it wanted"
    assert ledger.booking("uid-p0") is None


def test_an_annotation_that_names_a_gpu_twice_books_it_once() -> None:
    ledger = Ledger()
    ledger.put_node(parse_node(gpu_node("n0")))
    ledger.observe(parse_pod(gpu_pod(node="n0", gpu="0,0", gpus=2, memory_mib=20000)))
    assert _free(ledger) == [ALL - 20000, ALL], "memory is counted twice"
    assert ledger.problems(), "and nobody is told"
    ledger.release("uid-p0")
    assert _free(ledger) == [ALL, ALL], "a release leaves memory behind"


def test_a_whole_gpu_is_not_opened_by_writing_a_small_number_into_its_annotation() -> None:
    ledger = Ledger()
    ledger.put_node(parse_node(gpu_node("n0", gpus=1)))
    raw = gpu_pod(node="n0", gpu="0", gpus=1, memory_mib=0, model="x")
    for written in ("1", "-5", "much", ""):
        raw["metadata"]["annotations"][names.ANNOTATION_GPU_MEMORY] = written
        ledger.relist_pods([], Seconds(0))
        ledger.observe(parse_pod(raw))
        assert decide(ledger.index, _request(memory_mib=1), ["n0"]).chosen is None, f"{written!r} opens a whole GPU"


def test_no_policy_prefers_an_over_used_gpu() -> None:
    """Packed ranks: a negative number in a field would borrow from the next and make the fullest GPU the best."""
    ledger = Ledger()
    ledger.put_node(parse_node(gpu_node("n0")))
    for number in range(3):
        ledger.observe(parse_pod(gpu_pod(f"p{number}", node="n0", gpu="0", memory_mib=20000, model=f"m{number}")))
    for policy in map(PolicyName, PLACEMENT_POLICIES.names):
        chosen = decide(ledger.index, _request(name="new", memory_mib=1), ["n0"], policy=policy).chosen
        assert chosen is not None
        assert chosen.places == (("n0", "1"),), f"{policy} gives an over-committed GPU to one pod more"


def test_spread_counts_a_crowd_beyond_its_field_without_turning_round() -> None:
    ledger = Ledger()
    ledger.put_node(parse_node(gpu_node("n0", memory_mib=1 << 27)))
    ledger.index.pods[0] = 1 << 40
    chosen = decide(ledger.index, _request(memory_mib=1), ["n0"], policy=PolicyName("Spread")).chosen
    assert chosen is not None
    assert chosen.places == (("n0", "1"),), "the fullest GPU of all looks the emptiest"


def test_a_pod_on_every_gpu_of_the_largest_node_is_decided_at_once() -> None:
    ledger = Ledger()
    ledger.put_node(parse_node(gpu_node("huge", gpus=MAX_GPUS_PER_NODE)))
    ledger.put_node(parse_node(gpu_node("tiny", gpus=1)))
    decision = decide(ledger.index, _request(gpus=MAX_GPUS_PER_NODE), ["huge", "tiny"])
    assert decision.chosen is not None
    assert len(decision.chosen.places) == MAX_GPUS_PER_NODE
    assert scores(ledger.index, _request(gpus=MAX_GPUS_PER_NODE), ["huge", "tiny"]) == {"huge": 10, "tiny": 0}


def _bind(placer: Placer, raw: RawObject, node: str) -> Booking | None:
    try:
        return placer.fix_gpus(parse_pod(raw).request, node)
    except LedgerError:
        return None


def _bound(raw: RawObject, booking: Booking) -> RawObject:
    written = {
        names.ANNOTATION_GPU: ",".join(booking.gpus),
        names.ANNOTATION_GPU_MEMORY: ",".join(map(str, booking.mib)),
    }
    metadata, spec = {**raw["metadata"], "annotations": written}, {**raw["spec"], "nodeName": booking.node}
    return {**raw, "metadata": metadata, "spec": spec}


@pytest.mark.parametrize("mode", Mode)
def test_a_crowd_of_slices_and_whole_pods_over_commits_nothing_in_either_mode(mode: Mode) -> None:
    """All are filtered before any is bound, as the scheduler does with binds still under way."""
    nodes = [gpu_node(f"n{number}", gpus=4) for number in range(3)]
    placer = _placer(*nodes, mode=mode)
    shapes = [(20000, None), (0, 1), (20000, 2), (0, 2), (9000, 3)]
    pods = [
        gpu_pod(f"p{number}", memory_mib=shapes[number % 5][0], gpus=shapes[number % 5][1], model=f"m{number % 7}")
        for number in range(40)
    ]
    sent = []
    for number, raw in enumerate(pods):
        passed = placer.filter(raw, ["n0", "n1", "n2"]).passed
        sent += [(raw, passed[number % len(passed)])] if passed else []
    bound = [_bound(raw, booking) for raw, node in sent if (booking := _bind(placer, raw, node)) is not None]
    assert len(bound) >= 10
    assert violations(bound, nodes) == (), "two pods were promised the same memory"
    if mode is Mode.DECIDE:
        assert len(bound) == len(sent), "what a filter reserved was given to another"


def test_a_long_list_of_ids_does_not_make_the_answer_long() -> None:
    placer = _placer(*(gpu_node(f"n{number}") for number in range(200)))
    wish = {names.ANNOTATION_GPU_UUID: ",".join(f"GPU-{number:036d}" for number in range(MOST_WISHES))}
    outcome = placer.filter(gpu_pod(annotations=wish), [f"n{number}" for number in range(200)])
    assert sum(map(len, texts_by_node(outcome.refusals).values())) < 200 * 300, (
        "one pod's annotation is repeated for every node"
    )
