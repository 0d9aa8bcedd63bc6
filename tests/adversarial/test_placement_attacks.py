"""Inputs made to hurt placement; each failure message states the harm."""

from __future__ import annotations

import pytest

from hetserve.api import names
from hetserve.placement import Fairness, Ledger, QueueSettings, Waiting, decide, next_round, parse_node, parse_pod
from hetserve.placement.check import violations
from hetserve.testing.cluster import gpu_node, gpu_pod
from hetserve.units import MiB, Seconds


def _ledger(*nodes: str) -> Ledger:
    ledger = Ledger()
    for name in nodes:
        ledger.put_node(parse_node(gpu_node(name)))
    return ledger


def test_a_preset_gpu_does_not_steal_from_a_gpu() -> None:
    ledger = _ledger("n0")
    ledger.observe(parse_pod(gpu_pod(gpu="0", memory_mib=32768)))
    assert ledger.free(("n0", "0")) == 32768, "anybody could fill a GPU by writing an annotation"


def test_one_broken_node_does_not_hide_the_others() -> None:
    ledger = _ledger("good")
    broken = gpu_node("bad")
    broken["metadata"]["annotations"] = {names.ANNOTATION_NODE_GPUS: "[{"}
    ledger.put_node(parse_node(broken))
    decision = decide(ledger.index, parse_pod(gpu_pod()).request, ["bad", "good"])
    assert decision.chosen is not None, "one bad annotation stops the whole cluster"
    assert any(problem.startswith("node bad:") for problem in ledger.problems()), "and nobody is told"


def test_over_use_is_not_free_memory() -> None:
    """Unsigned subtraction wraps: the fullest GPU looks emptiest (seen in two other schedulers)."""
    ledger = _ledger("n0")
    for number in range(3):
        ledger.observe(parse_pod(gpu_pod(f"p{number}", node="n0", gpu="0", memory_mib=20000, model=f"m{number}")))
    assert (ledger.free(("n0", "0")) or 0) < 0
    chosen = decide(ledger.index, parse_pod(gpu_pod("new", memory_mib=1)).request, ["n0"]).chosen
    assert chosen is not None
    assert chosen.key.gpu == "1", "an over-committed GPU is given to one pod more"


def test_the_same_name_with_a_new_uid_is_another_pod() -> None:
    ledger = _ledger("n0")
    ledger.observe(parse_pod(gpu_pod("p", uid="new", node="n0", gpu="0")))
    ledger.release("old")
    assert ledger.booking("new") is not None, "a late deletion of the old pod frees the GPU of the new one"


def test_a_lone_old_pod_is_not_drowned_by_a_flood() -> None:
    old = Waiting("old", "d", "old", MiB(32000), "rare", Seconds(0))
    fairness, rules = Fairness(), QueueSettings(beta=8)
    for second in range(1, 4):
        flood = [Waiting(f"f{second}-{n}", "d", f"f{n}", MiB(1000), "flood", Seconds(1)) for n in range(5000)]
        result = next_round(
            [old, *flood],
            outstanding=0,
            now=Seconds(second),
            largest_gpu=MiB(32768),
            settings=rules,
            fairness=fairness,
        )
        fairness = result.fairness
        if any(release.pod is old for release in result.releases):
            assert second == 1
            return
    pytest.fail("a service that starts many pods starves everybody else")


@pytest.mark.parametrize(
    ("pods", "words"),
    [
        pytest.param(
            [gpu_pod(model, node="n0", gpu="0", memory_mib=20000, model=model) for model in "xy"],
            "over-committed: 40000 of 32768 MiB",
            id="over-commitment",
        ),
        pytest.param(
            [gpu_pod(name, node="n0", gpu="1", memory_mib=1) for name in "ab"], "resnet 2 times", id="model twice"
        ),
        pytest.param([gpu_pod(node="n0", gpu="9")], "has none such", id="unknown GPU"),
        pytest.param([gpu_pod(node="n9", gpu="0")], "has none such", id="unknown node"),
    ],
)
def test_the_checker_sees_what_it_is_there_for(pods: list[dict[str, object]], words: str) -> None:
    found = violations(pods, [gpu_node("n0")])
    assert len(found) == 1, "the judge of every other test is blind"
    assert words in found[0]


def test_the_checker_lets_finished_and_unbound_pods_be() -> None:
    pods = [
        gpu_pod("done", node="n0", gpu="0", memory_mib=32768, phase="Succeeded"),
        gpu_pod("preset", gpu="0", memory_mib=32768),
        gpu_pod("runs", node="n0", gpu="0", memory_mib=32768),
    ]
    assert violations(pods, [gpu_node("n0")]) == ()
