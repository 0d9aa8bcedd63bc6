"""Inputs made to hurt placement; each failure message states the harm."""

from __future__ import annotations

import pytest

from hetserve.api import names
from hetserve.base.units import MiB, Seconds
from hetserve.placement.check import violations
from hetserve.placement.decision.decide import decide, scores
from hetserve.placement.decision.wording import UNLISTED_GPU, texts_by_node
from hetserve.placement.ledger.inventory import parse_node
from hetserve.placement.ledger.ledger import Ledger
from hetserve.placement.ledger.problems import problem_lines
from hetserve.placement.pods.view import parse_pod
from hetserve.placement.queues.rounds import Fairness, QueueSettings, Waiting
from testing.cluster import gpu_node, gpu_pod
from testing.sorted_rounds import round_of


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
    assert any(problem.startswith("node bad:") for problem in problem_lines(ledger.problems())), "and nobody is told"


def test_over_use_is_not_free_memory() -> None:
    """Unsigned subtraction wraps: the fullest GPU looks emptiest (seen in two other schedulers)."""
    ledger = _ledger("n0")
    for number in range(3):
        ledger.observe(parse_pod(gpu_pod(f"p{number}", node="n0", gpu="0", memory_mib=20000, model=f"m{number}")))
    assert (ledger.free(("n0", "0")) or 0) < 0
    chosen = decide(ledger.index, parse_pod(gpu_pod("new", memory_mib=1)).request, ["n0"]).chosen
    assert chosen is not None
    assert chosen.places == (("n0", "1"),), "an over-committed GPU is given to one pod more"


UUIDS = [{"uuid": f"GPU-{letter}", "product": "V100", "memoryMiB": 32768} for letter in "ab"]


def test_a_busy_node_that_gets_uuids_is_not_thought_idle() -> None:
    """Nobody knows which of GPU-a and GPU-b the pods on "0" and "1" fill."""
    ledger = _ledger("n0", "n1")
    pods = [gpu_pod(f"p{gpu}", node="n0", gpu=gpu, memory_mib=32768) for gpu in "01"]
    for pod in pods:
        ledger.observe(parse_pod(pod))
    assert len(ledger.index.gpus) == 4
    ledger.put_node(parse_node(gpu_node("n0", listed=UUIDS)))
    new = parse_pod(gpu_pod("new")).request
    decision = decide(ledger.index, new, ["n0", "n1"], explain=True)
    assert decision.chosen is not None
    assert decision.chosen.node == "n1", "two full GPUs are given away a second time, with the same model on them"
    alone = decide(ledger.index, new, ["n0"])
    assert alone.chosen is None, "two full GPUs are given away a second time, with the same model on them"
    assert texts_by_node(alone.refusals) == {"n0": UNLISTED_GPU}
    assert scores(ledger.index, new, ["n0", "n1"])["n0"] == 0, "the closed node is the favourite"


@pytest.mark.parametrize("order", ["pods first", "node first"])
def test_a_node_opens_again_when_the_last_pod_on_an_unlisted_gpu_ends(order: str) -> None:
    ledger = _ledger("n0")
    pods = [parse_pod(gpu_pod(f"p{gpu}", node="n0", gpu=gpu)) for gpu in "01"]
    listed = parse_node(gpu_node("n0", listed=UUIDS))
    if order == "node first":
        ledger.put_node(listed)
        assert ledger.index.open.all()
    for pod in pods:
        ledger.observe(pod)
    ledger.put_node(listed)
    new = parse_pod(gpu_pod("new")).request
    for pod in pods:
        assert decide(ledger.index, new, ["n0"]).chosen is None, "a node opens while a pod holds an unknown GPU of it"
        ledger.release(pod.uid)
    assert decide(ledger.index, new, ["n0"]).chosen is not None, "a node stays closed for ever"


def test_a_reservation_by_index_does_not_close_a_node_that_gets_uuids() -> None:
    ledger = _ledger("n0")
    ledger.reserve(parse_pod(gpu_pod("old")).request, [("n0", "0")], Seconds(30))
    ledger.put_node(parse_node(gpu_node("n0", listed=UUIDS)))
    assert ledger.booking("uid-old") is None, "a reservation of a GPU that is no more"
    assert decide(ledger.index, parse_pod(gpu_pod("new")).request, ["n0"]).chosen is not None, "closed for nothing"


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
        result = round_of(
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
        pytest.param(
            [gpu_pod("whole", node="n0", gpu="0", gpus=1, memory_mib=0, model="w"), gpu_pod(node="n0", gpu="0")],
            "is held whole and by 2 pods",
            id="a whole GPU that is shared",
        ),
        pytest.param(
            [gpu_pod(node="n0", gpu="0,1", gpus=2, memory_mib=30000), gpu_pod("b", node="n0", gpu="1", model="b")],
            "GPU 1 of node n0 is over-committed: 34096 of 32768 MiB",
            id="over-commitment of one of two",
        ),
        pytest.param([gpu_pod(node="n0", gpu="0,0", gpus=2, model=None)], "0,0 is not 2 GPUs", id="one GPU twice"),
        pytest.param([gpu_pod(node="n0", gpu="9")], "has none such", id="unknown GPU"),
        pytest.param([gpu_pod(node="n9", gpu="0")], "has none such", id="unknown node"),
    ],
)
def test_the_checker_sees_what_it_is_there_for(pods: list[dict[str, object]], words: str) -> None:
    found = violations(pods, [gpu_node("n0")])
    assert len(found) == 1, "the judge of every other test is blind"
    assert words in found[0]


def test_the_checker_counts_the_gpus_of_an_annotation() -> None:
    found = violations([gpu_pod(node="n0", gpu="0", gpus=2)], [gpu_node("n0")])
    assert found == tuple(
        f"pod default/p0: {key} {written} is not 2 GPUs"
        for key, written in ((names.ANNOTATION_GPU, "0"), (names.ANNOTATION_GPU_MEMORY, "4096"))
    ), "a pod that runs on fewer GPUs than it asked for is thought well placed"


def test_the_checker_lets_finished_and_unbound_pods_be() -> None:
    pods = [
        gpu_pod("done", node="n0", gpu="0", memory_mib=32768, phase="Succeeded"),
        gpu_pod("preset", gpu="0", memory_mib=32768),
        gpu_pod("runs", node="n0", gpu="0", memory_mib=32768),
    ]
    assert violations(pods, [gpu_node("n0")]) == ()
