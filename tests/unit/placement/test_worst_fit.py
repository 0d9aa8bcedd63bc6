"""HetSev's rule: idle GPUs first, then the most free memory; a refusal says what would have been needed."""

from __future__ import annotations

import pytest

from hetserve.base.units import MiB, Seconds
from hetserve.placement.decision.decide import decide, scores
from hetserve.placement.decision.wording import decision_text, refusal_text
from hetserve.placement.ledger.inventory import Gpu, NodeInventory
from hetserve.placement.ledger.ledger import Ledger
from hetserve.placement.pods.requests import GpuRequest, GpuSelector


def _gpu(id_: str, mib: int = 32768, product: str = "V100", *, healthy: bool = True) -> Gpu:
    return Gpu(id_, product, MiB(mib), healthy)


def _ledger(**nodes: list[Gpu]) -> Ledger:
    ledger = Ledger()
    for name, gpus in nodes.items():
        ledger.put_node(NodeInventory(name, f"uid-{name}", tuple(gpus)))
    return ledger


def _request(uid: str = "p", mib: int = 4096, model: str | None = "resnet", product: str | None = None) -> GpuRequest:
    return GpuRequest(uid, "default", uid, MiB(mib), model, selector=GpuSelector((product,) if product else ()))


def _hold(ledger: Ledger, node: str, gpu: str, mib: int, model: str | None = "other") -> None:
    ledger.reserve(_request(f"{node}-{gpu}-{mib}-{model}", mib, model), [(node, gpu)], Seconds(1e9))


def test_an_idle_gpu_goes_before_a_shared_one_with_more_free_memory() -> None:
    ledger = _ledger(a=[_gpu("0")], b=[_gpu("0", 16384, "T4")])
    _hold(ledger, "a", "0", 1000)
    decision = decide(ledger.index, _request(), ["a", "b"])
    assert decision.chosen is not None
    assert decision.runner_up is not None
    assert decision.chosen.places == (("b", "0"),)
    assert decision.runner_up.places == (("a", "0"),)
    assert decision_text(decision) == "GPU 0 on b (idle, 16384 MiB free), before GPU 0 on a (shared, 31768 MiB free)"


def test_among_shared_gpus_the_most_free_one_is_taken() -> None:
    ledger = _ledger(a=[_gpu("0"), _gpu("1")])
    _hold(ledger, "a", "0", 9000)
    _hold(ledger, "a", "1", 8000)
    chosen = decide(ledger.index, _request(), ["a"]).chosen
    assert chosen is not None
    assert chosen.places == (("a", "1"),)


def test_ties_go_to_the_first_node_name_and_gpu_id() -> None:
    ledger = _ledger(b=[_gpu("0")], a=[_gpu(str(index)) for index in (10, 9, 2)])
    chosen = decide(ledger.index, _request(), ["b", "a"]).chosen
    assert chosen is not None
    assert chosen.places == (("a", "10"),)  # inventories come in the order of ids from parse_node


def test_only_offered_nodes_are_used() -> None:
    ledger = _ledger(a=[_gpu("0")], b=[_gpu("0")])
    chosen = decide(ledger.index, _request(), ["b", "unheard-of"]).chosen
    assert chosen is not None
    assert chosen.node == "b"
    assert chosen.gpus[0].free_mib == 32768


def test_a_pod_too_large_for_any_gpu_is_refused_with_the_most_that_is_free() -> None:
    ledger = _ledger(a=[_gpu("0")], b=[_gpu("0", 16384, "T4")])
    decision = decide(ledger.index, _request(mib=90000), ["a", "b"])
    assert decision.chosen is None
    (refusal,) = decision.refusals
    assert refusal_text(refusal) == "no GPU with 90000 MiB free; the most free on any eligible GPU is 32768 MiB"
    assert refusal.nodes == ("a", "b")


def test_one_instance_more_than_gpus_is_refused_for_its_model_on_every_node() -> None:
    ledger = _ledger(a=[_gpu("0"), _gpu("1")], b=[_gpu("0")])
    for uid in ("1", "2", "3"):
        chosen = decide(ledger.index, _request(uid), ["a", "b"]).chosen
        assert chosen is not None
        ledger.reserve(_request(uid), chosen.places, Seconds(1))
    (refusal,) = decide(ledger.index, _request("4"), ["a", "b"]).refusals
    assert refusal_text(refusal) == "same model on every GPU"
    assert decide(ledger.index, _request("5", model="bert"), ["a", "b"]).chosen is not None
    assert decide(ledger.index, _request("6", model=None), ["a", "b"]).chosen is not None


def test_a_pod_without_a_model_has_no_anti_affinity() -> None:
    ledger = _ledger(a=[_gpu("0")])
    _hold(ledger, "a", "0", 1, model=None)
    assert decide(ledger.index, _request(model=None), ["a"]).chosen is not None


def test_the_most_free_leaves_out_gpus_that_hold_the_model() -> None:
    ledger = _ledger(a=[_gpu("0")], b=[_gpu("0", 16384)])
    _hold(ledger, "a", "0", 10, model="resnet")
    reasons = {
        node: refusal_text(refusal)
        for refusal in decide(ledger.index, _request(mib=20000), ["a", "b"]).refusals
        for node in refusal.nodes
    }
    assert reasons == {
        "a": "same model on every GPU",
        "b": "no GPU with 20000 MiB free; the most free on any eligible GPU is 16384 MiB",
    }


@pytest.mark.parametrize(
    ("gpus", "product", "reason"),
    [
        pytest.param([], None, "no GPU on the node", id="no GPU"),
        pytest.param([_gpu("0")], "T4", "no GPU of product T4", id="another product"),
        pytest.param([_gpu("0", healthy=False)], None, "no healthy GPU on the node", id="unhealthy"),
    ],
)
def test_a_node_that_cannot_serve_says_so(gpus: list[Gpu], product: str | None, reason: str) -> None:
    ledger = _ledger(a=gpus)
    (refusal,) = decide(ledger.index, _request(product=product), ["a"]).refusals
    assert (refusal_text(refusal), refusal.nodes) == (reason, ("a",))


def test_a_cluster_without_gpus_refuses_every_node() -> None:
    (refusal,) = decide(Ledger().index, _request(), ["a", "b", "a"]).refusals
    assert refusal.nodes == ("a", "b")


def test_explaining_a_success_names_the_nodes_that_were_refused() -> None:
    ledger = _ledger(a=[_gpu("0")], b=[_gpu("0", 1024)])
    decision = decide(ledger.index, _request(), ["a", "b", "c"], explain=True)
    assert decision.chosen is not None
    assert {refusal_text(refusal).split(";")[0]: refusal.nodes for refusal in decision.refusals} == {
        "no GPU with 4096 MiB free": ("b",),
        "no GPU on the node": ("c",),
    }


def test_scores_put_idle_gpus_above_shared_ones_and_refusals_at_zero() -> None:
    ledger = _ledger(a=[_gpu("0")], b=[_gpu("0")], c=[_gpu("0", 1024)], d=[_gpu("0", 16384)])
    _hold(ledger, "a", "0", 1)
    found = scores(ledger.index, _request(), ["a", "b", "c", "d", "e"])
    assert found["b"] == 10
    assert found["d"] > found["a"] > 0
    assert found["c"] == found["e"] == 0
    assert all(0 <= score <= 10 for score in found.values())
