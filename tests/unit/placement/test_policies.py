"""The policies side by side, on one GPU and on several, and how nodes are scored by them."""

from __future__ import annotations

import pytest

from hetserve.base.units import MiB, Millionths, Percent, Seconds
from hetserve.objects.gpu_sharing import SharingTerms
from hetserve.placement.decision.decide import decide, feasible, scores
from hetserve.placement.decision.wording import decision_text, refusal_text
from hetserve.placement.ledger.inventory import Gpu, NodeInventory
from hetserve.placement.ledger.ledger import Ledger
from hetserve.placement.pods.requests import GpuRequest, GpuSelector, PolicyName
from hetserve.registry.placement_policies import PLACEMENT_POLICIES

W, D, B, S, P = map(PolicyName, PLACEMENT_POLICIES.names)
"""For pods without terms, the last one is the first."""
Held = dict[tuple[str, str], list[int]]
"""What pods hold: MiB per pod, by place."""


def _ledger(sizes: dict[str, list[int]], held: Held | None = None) -> Ledger:
    """Nodes with GPUs of these MiB, numbered from 0."""
    ledger = Ledger()
    for name, memory in sizes.items():
        gpus = tuple(Gpu(str(number), "V100", MiB(mib)) for number, mib in enumerate(memory))
        ledger.put_node(NodeInventory(name, f"uid-{name}", gpus))
    for place, pods in (held or {}).items():
        for number, mib in enumerate(pods):
            ledger.reserve(_request(f"{place}-{number}", mib), [place], Seconds(1e9))
    return ledger


def _request(uid: str = "p", mib: int = 1000, gpus: int = 1, **fields: object) -> GpuRequest:
    return GpuRequest(uid, "d", uid, MiB(mib), gpus=gpus, **fields)  # type: ignore[arg-type]


def _chosen(ledger: Ledger, request: GpuRequest, policy: PolicyName = W) -> list[str]:
    """Ids of the chosen GPUs, as "node/gpu"."""
    chosen = decide(ledger.index, request, sorted(ledger.inventories()), policy=policy).chosen
    return [f"{node}/{gpu}" for node, gpu in chosen.places] if chosen else []


ONE_GPU: dict[str, tuple[dict[str, list[int]], Held, dict[PolicyName, str]]] = {
    "an idle small GPU, a shared large one": (
        {"a": [32000], "b": [16000]},
        {("a", "0"): [1000]},
        {W: "b/0", D: "a/0", B: "a/0", S: "b/0"},
    ),
    "all shared, by one pod each": (
        {"a": [32000], "b": [16000]},
        {("a", "0"): [1000], ("b", "0"): [1000]},
        {W: "a/0", D: "a/0", B: "b/0", S: "a/0"},
    ),
    "one large pod or two small ones": (
        {"a": [32000], "b": [32000]},
        {("a", "0"): [9000], ("b", "0"): [1000, 1000]},
        {W: "b/0", D: "b/0", B: "a/0", S: "a/0"},
    ),
    "idle GPUs on a busy and on a quiet node": (
        {"a": [32000, 32000], "b": [16000, 32000]},
        {("a", "0"): [1000]},
        {W: "a/1", D: "a/1", B: "a/0", S: "b/1"},
    ),
    "too little room on the fullest": (
        {"a": [32000], "b": [32000]},
        {("a", "0"): [31500], ("b", "0"): [1000]},
        {W: "b/0", D: "b/0", B: "b/0", S: "b/0"},
    ),
    "all equal": ({"b": [32000], "a": [32000, 32000]}, {}, {W: "a/0", D: "a/0", B: "a/0", S: "a/0"}),
}


def test_pods_on_terms_open_no_gpu_that_they_need_not_and_others_get_idle_ones() -> None:
    terms = SharingTerms(Millionths(300_000), Millionths(1_750_000))
    ledger = _ledger({"a": [32000, 16000], "b": [16000]})
    for number, place in enumerate((("a", "0"), ("a", "0"), ("a", "1"))):
        ledger.reserve(_request(f"{number}", compute=Percent(100), sharing=terms), [place], Seconds(1e9))
    on_terms = _request(compute=Percent(100), sharing=terms)
    assert [_chosen(ledger, on_terms, policy) for policy in (P, W, B)] == [["a/0"], ["b/0"], ["a/1"]]
    assert [_chosen(ledger, _request(), policy) for policy in (P, W)] == [["b/0"], ["b/0"]]


@pytest.mark.parametrize("policy", PLACEMENT_POLICIES.names)
@pytest.mark.parametrize("what", ONE_GPU)
def test_one_gpu(what: str, policy: PolicyName) -> None:
    sizes, held, expected = ONE_GPU[what]
    assert _chosen(_ledger(sizes, held), _request(), policy) == [expected.get(policy, expected[W])]


SEVERAL: dict[str, tuple[dict[str, list[int]], Held, dict[PolicyName, list[str]]]] = {
    "the n best GPUs of a node, in the order of their ids": (
        {"a": [32000, 16000, 24000, 32000]},
        {("a", "0"): [1000]},
        {W: ["a/2", "a/3"], D: ["a/2", "a/3"], B: ["a/0", "a/1"], S: ["a/2", "a/3"]},
    ),
    "the lowest of the n decides between nodes": (
        {"a": [32000, 8000], "b": [16000, 16000]},
        {},
        {W: ["b/0", "b/1"], D: ["b/0", "b/1"], B: ["b/0", "b/1"], S: ["b/0", "b/1"]},
    ),
    "where the lowest are equal the next one does": (
        {"a": [16000, 16000], "b": [16000, 32000]},
        {},
        {W: ["b/0", "b/1"], D: ["b/0", "b/1"], B: ["a/0", "a/1"], S: ["b/0", "b/1"]},
    ),
    "equal nodes go by name": ({"b": [16000] * 2, "a": [16000] * 2}, {}, {key: ["a/0", "a/1"] for key in (W, D, B, S)}),
    "a node with too few GPUs does not count": (
        {"a": [64000], "b": [8000, 8000]},
        {},
        {key: ["b/0", "b/1"] for key in (W, D, B, S)},
    ),
}


@pytest.mark.parametrize("policy", PLACEMENT_POLICIES.names)
@pytest.mark.parametrize("what", SEVERAL)
def test_two_gpus(what: str, policy: PolicyName) -> None:
    sizes, held, expected = SEVERAL[what]
    assert _chosen(_ledger(sizes, held), _request(gpus=2), policy) == expected.get(policy, expected[W])


def test_a_pods_own_policy_goes_before_that_of_the_installation() -> None:
    ledger = _ledger({"a": [32000], "b": [16000]})
    assert _chosen(ledger, _request(policy=B), W) == ["b/0"]
    assert _chosen(ledger, _request(policy=W), B) == ["a/0"]
    assert scores(ledger.index, _request(policy=B), ["a", "b"], policy=W) == {"a": 9, "b": 10}


def test_whole_gpus_are_idle_ones() -> None:
    ledger = _ledger({"a": [32000, 32000], "b": [16000, 16000]}, {("a", "0"): [1]})
    assert _chosen(ledger, _request(mib=0, whole=True)) == ["a/1"]
    assert _chosen(ledger, _request(mib=0, whole=True), B) == ["b/0"]
    assert _chosen(ledger, _request(mib=0, whole=True, gpus=2)) == ["b/0", "b/1"]


REFUSED: dict[str, tuple[GpuRequest, str]] = {
    "more memory than any GPU has": (
        _request(mib=40000),
        "no GPU with 40000 MiB free; the most free on any eligible GPU is 16000 MiB",
    ),
    "two GPUs where one has room": (
        _request(mib=12000, gpus=2),
        "fewer than 2 GPUs with 12000 MiB free; the most on any node is 1",
    ),
    "whole GPUs where too few are idle": (
        _request(mib=0, whole=True, gpus=2),
        "fewer than 2 idle GPUs; the most on any node is 1",
    ),
    "more GPUs than the node has": (_request(gpus=4), "fewer than 4 GPUs on the node"),
    "products that the node does not have": (
        _request(selector=GpuSelector(products=("A100", "T4"))),
        "no GPU of product A100 or T4",
    ),
    "the only product excluded": (
        _request(selector=GpuSelector(products_excluded=("V100",))),
        "no GPU of another product than V100",
    ),
    "a GPU that is elsewhere": (_request(selector=GpuSelector(ids=("GPU-x",))), "no GPU with id GPU-x"),
    "every GPU excluded by its id": (
        _request(selector=GpuSelector(ids_excluded=("0", "1", "2"))),
        "no GPU with another id than 0 or 1 or 2",
    ),
    "more ids than an event can show": (
        _request(selector=GpuSelector(ids=tuple(f"GPU-{number}" for number in range(100)))),
        "no GPU with id GPU-0 or GPU-1 or GPU-2 or 97 others",
    ),
    "two GPUs where one is accepted": (
        _request(gpus=2, selector=GpuSelector(products=("V100",), ids=("0",))),
        "fewer than 2 GPUs of product V100 and with id 0",
    ),
    "two GPUs without the model where one has it not": (
        _request(gpus=2, model="m"),
        "fewer than 2 GPUs without the same model",
    ),
}


@pytest.mark.parametrize(("request_", "reason"), REFUSED.values(), ids=REFUSED)
def test_a_refusal_names_what_was_needed_and_the_most_there_is(request_: GpuRequest, reason: str) -> None:
    ledger = _ledger({"a": [16000, 16000, 16000]})
    for gpu in ("0", "1"):
        ledger.reserve(_request(f"held{gpu}", mib=8000, model="m"), [("a", gpu)], Seconds(1))
    (refusal,) = feasible(ledger.index, request_, ["a"])[1]
    assert refusal_text(refusal) == reason


def test_a_node_whose_inventory_cannot_be_read_says_so_until_it_can() -> None:
    ledger = _ledger({"a": [100]})
    for problem, reason in (
        ("node b: ...", "the GPU inventory of the node cannot be read"),
        (None, "no GPU on the node"),
    ):
        ledger.put_node(NodeInventory("b", "u", problem=problem))
        assert [refusal_text(refusal) for refusal in feasible(ledger.index, _request(), ["b"])[1]] == [reason]


def test_forty_nodes_are_scored_in_the_order_of_the_policy_with_one_best() -> None:
    names = [f"n{number:02d}" for number in range(40)]
    ledger = _ledger({name: [32000] for name in names}, {(name, "0"): [100 + n] for n, name in enumerate(names)})
    worst = scores(ledger.index, _request(), names)
    ordered = [worst[name] for name in names]
    assert ordered == sorted(ordered, reverse=True)
    assert ordered.count(10) == 1
    assert min(ordered) == 1
    best = scores(ledger.index, _request(), names, policy=B)
    assert [best[name] for name in reversed(names)] == ordered


def test_several_gpus_are_scored_by_all_of_them() -> None:
    ledger = _ledger({"a": [16000, 16000], "b": [16000, 32000], "c": [32000], "d": [8000, 64000]})
    assert scores(ledger.index, _request(gpus=2), ["a", "b", "c", "d"]) == {"b": 10, "a": 9, "d": 8, "c": 0}


def test_equal_gpus_of_a_large_node_go_by_their_ids() -> None:
    ledger = _ledger({"a": [16000, 32000] * 20})
    assert _chosen(ledger, _request(gpus=3)) == ["a/1", "a/3", "a/5"]
    assert _chosen(ledger, _request(gpus=7)) == [f"a/{number}" for number in range(1, 15, 2)]


def test_equal_nodes_score_the_same_so_that_the_scheduler_chooses_among_them() -> None:
    ledger = _ledger({"a": [32000], "b": [32000], "c": [16000], "d": [100]})
    assert scores(ledger.index, _request(), ["a", "b", "c", "d"]) == {"a": 10, "b": 10, "c": 9, "d": 0}


def test_the_next_best_is_a_gpu_where_one_is_asked_for_and_a_node_where_several_are() -> None:
    ledger = _ledger({"a": [32000, 32000], "b": [16000, 16000]})
    one = decide(ledger.index, _request(), ["a", "b"])
    two = decide(ledger.index, _request(gpus=2), ["a", "b"])
    assert decision_text(one) == "GPU 0 on a (idle, 32000 MiB free), before GPU 1 on a (idle, 32000 MiB free)"
    assert decision_text(two) == (
        "GPUs 0 (idle, 32000 MiB free), 1 (idle, 32000 MiB free) on a, "
        "before GPUs 0 (idle, 16000 MiB free), 1 (idle, 16000 MiB free) on b"
    )
