"""Pods that share a GPU on terms are counted by pairs: what they say, who fits beside whom, what is said otherwise."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from hetserve.api import names
from hetserve.base.units import MiB, Millionths, Percent, Seconds
from hetserve.objects.fields import InvalidObjectError
from hetserve.objects.gpu_sharing import SharingTerms, Tenant, booked_percent, terms_text
from hetserve.placement.check import violations
from hetserve.placement.decision.decide import decide, feasible, fits, scores
from hetserve.placement.decision.explain import explain
from hetserve.placement.decision.wording import refusal_text, too_late_text
from hetserve.placement.event_handlers import NodeEventHandler, PodEventHandler
from hetserve.placement.ledger.bookings import LedgerError, LedgerErrorKind
from hetserve.placement.ledger.compare import ClusterHoldings, Kind, compare
from hetserve.placement.ledger.index import GpuIndex
from hetserve.placement.ledger.inventory import parse_node
from hetserve.placement.ledger.ledger import Ledger
from hetserve.placement.ledger.problems import problem_lines
from hetserve.placement.ledger.terms import TenantSets, TermColumns
from hetserve.placement.placer import Placer
from hetserve.placement.pods.requests import AntiAffinity, GpuRequest, PolicyName
from hetserve.placement.pods.view import parse_pod
from hetserve.placement.queues.rounds import waiting
from testing.cluster import gpu_node, gpu_pod

Json = dict[str, Any]
SHARING, COMPUTE = names.ANNOTATION_GPU_SHARING, names.RESOURCE_GPU_COMPUTE
SOON = Seconds(10)
NODE = gpu_node("n0", gpus=2, memory_mib=16384)


def terms(share: float = 0.5, tolerance: float = 1.75, others: float = 1.2, **factors: float) -> SharingTerms:
    """Numbers as in the annotation; factors: by model."""
    named = tuple(sorted((model, millionths(factor - 1)) for model, factor in factors.items()))
    return SharingTerms(millionths(share), millionths(tolerance), millionths(others - 1), named)


def millionths(number: float) -> Millionths:
    return Millionths(round(number * 1_000_000))


PLAIN = terms()


def held(name: str, on: SharingTerms | None = PLAIN, gpu: str = "0", **fields: Any) -> Json:
    given: dict[str, Any] = {"memory_mib": 2048, "model": name} | fields
    return gpu_pod(name, node="n0", gpu=gpu, sharing=on, **given)


def asks(on: SharingTerms | None = PLAIN, mib: int = 2048, gpus: int = 1, model: str | None = "new") -> GpuRequest:
    return GpuRequest("new", "default", "new", MiB(mib), model, gpus, compute=Percent(100), sharing=on)


def ledger_of(*pods: Json, node: Json = NODE) -> Ledger:
    ledger = Ledger()
    ledger.put_node(parse_node(node))
    for pod in pods:
        ledger.observe(parse_pod(pod))
    return ledger


def chosen(ledger: Ledger, request: GpuRequest) -> list[str]:
    found = decide(ledger.index, request, ["n0"]).chosen
    return [] if found is None else [gpu for _, gpu in found.places]


def refused(ledger: Ledger, request: GpuRequest) -> str:
    (refusal,) = decide(ledger.index, request, ["n0"]).refusals
    return refusal_text(refusal)


# What a pod says


def test_a_pod_with_terms_asks_for_all_of_the_compute_and_is_read_with_them() -> None:
    request = parse_pod(gpu_pod(sharing=PLAIN)).placeable()
    assert (request.compute, request.sharing) == (100, PLAIN)
    assert request.amount == "4096 MiB and 0.5 of compute, slowed at most 1.75 times"
    assert parse_pod(gpu_pod(compute=100)).placeable().sharing is None


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"compute": 57}, f"annotation {SHARING} beside hetserve.io/gpu-memory: 4096 and {COMPUTE}: 57: name the MiB"),
        ({"memory_mib": 0, "gpus": 2}, f"annotation {SHARING} beside hetserve.io/gpu-memory: 0 and {COMPUTE}: 100"),
        ({"annotations": {SHARING: ""}}, f"annotation {SHARING}: '' cannot be read"),
        (
            {"annotations": {SHARING: "{}"}},
            f"annotation {SHARING}: missing 'share, tolerance, factors': must have share, tolerance, factors",
        ),
    ],
)
def test_terms_that_cannot_be_are_refused_by_field_value_and_remedy(fields: Json, words: str) -> None:
    view = parse_pod(gpu_pod(sharing=PLAIN, **fields))
    assert view.request.sharing is None
    with pytest.raises(InvalidObjectError, match=re.escape(words)):
        view.placeable()


def test_a_queue_takes_a_pod_as_large_as_its_share_of_what_it_tolerates() -> None:
    pod = waiting(parse_pod(gpu_pod(sharing=terms(share=0.35, tolerance=1.75))))
    assert pod.shape.compute == 20


# Who fits where


def test_pods_share_a_gpu_while_none_is_slowed_down_beyond_what_it_tolerates() -> None:
    ledger = ledger_of(held("a"), held("b", gpu="1", on=terms(tolerance=1.1)))
    assert chosen(ledger, asks()) == ["0"], "b would take 1.2 times as long"
    assert chosen(ledger_of(held("a"), held("b"), held("c", gpu="1")), asks()) == ["1"], "worst fit by memory"
    full = ledger_of(*(held(name + gpu, gpu=gpu) for name in "abc" for gpu in "01"))
    assert chosen(full, asks()) == [], "four shares of a half are 2 times the compute"
    assert chosen(full, asks(terms(share=0.25))) == ["0"]


def test_a_factor_of_a_pair_counts_where_it_was_measured_and_the_greatest_for_all_others() -> None:
    loud = terms(others=2.0, friend=1.1)
    ledger = ledger_of(held("a", loud, "0"), held("b", terms(others=2.5), "1"))
    assert chosen(ledger, asks(model="friend")) == ["0"]
    assert chosen(ledger, asks(model="stranger")) == []
    assert chosen(ledger, asks(model=None)) == [], "without a model nobody knows the pair"
    other = GpuRequest("new", "other", "new", MiB(2048), "friend", compute=Percent(100), sharing=PLAIN)
    assert chosen(ledger, other) == [], "another namespace may call another model so"
    assert chosen(ledger_of(held("a", terms(others=1.1, enemy=2.0), "0,1", gpus=2)), asks(model=None)) == []


def test_copies_that_may_share_are_counted_by_their_own_factor() -> None:
    wish = {names.ANNOTATION_ANTI_AFFINITY: "None"}
    ledger = ledger_of(held("a", terms(others=2.0, a=1.3), annotations=wish), held("b", terms(others=3.0), "1"))
    copy = GpuRequest(
        "new", "default", "new", MiB(2048), "a", anti_affinity=AntiAffinity.NONE, compute=Percent(100),
        sharing=terms(others=2.0, a=1.3),
    )  # fmt: skip
    assert chosen(ledger, copy) == ["0"]
    assert chosen(ledger, asks(terms(others=1.3, b=3), model="a")) == [], "the newcomer insists on being apart"


def test_terms_count_on_each_of_several_gpus() -> None:
    ledger = ledger_of(held("a"), held("b", terms(tolerance=1.1), "1"))
    assert chosen(ledger_of(held("a", gpu="0,1", gpus=2)), asks(gpus=2)) == ["0", "1"]
    assert refused(ledger, asks(gpus=2)) == (
        "fewer than 2 GPUs with 2048 MiB free tolerate the pod; the most on any node is 1"
    )


def test_every_way_to_ask_reads_the_pairs() -> None:
    index = ledger_of(held("a", terms(others=2.0, friend=1.1)), held("b", terms(others=2.5), "1")).index
    friend, stranger = asks(model="friend"), asks(model="stranger")
    assert [fits(index, one) for one in (friend, stranger)] == [True, False]
    assert [feasible(index, one, ["n0"])[0] for one in (friend, stranger)] == [("n0",), ()]
    assert [scores(index, one, ["n0"])["n0"] for one in (friend, stranger)] == [10, 0]


def test_kinds_never_mix_on_a_gpu() -> None:
    percent, none = (held(name, None, compute=compute) for name, compute in (("percent", 20), ("none", None)))
    booked = GpuRequest("new", "default", "new", MiB(2048), "new", compute=Percent(10))
    undeclared = GpuRequest("new", "default", "new", MiB(2048), "new")
    full = held("full", None, "1", memory_mib=16384)
    kinds = {"on terms": (held("a"), asks()), "by percent": (percent, booked), "undeclared": (none, undeclared)}
    for kind, (there, _) in kinds.items():
        fitting = [other for other, (_, request) in kinds.items() if chosen(ledger_of(there, full), request)]
        assert fitting == [kind]
    free = "are on every GPU with 2048 MiB free"
    assert refused(ledger_of(percent, full), asks()) == f"pods that declare no {SHARING} {free}"
    assert refused(ledger_of(none, full), asks()) == f"pods that declare no {SHARING} {free}"
    assert refused(ledger_of(held("a"), full), booked) == f"pods that declare no {COMPUTE} or declare {SHARING} {free}"
    assert refused(ledger_of(held("a"), full), undeclared) == f"pods that declare {COMPUTE} {free}"
    assert refused(ledger_of(percent), asks(gpus=2)) == (
        f"fewer than 2 GPUs with 2048 MiB free without pods that declare no {SHARING}"
    )


def test_whoever_asks_for_all_of_the_compute_without_terms_holds_the_gpu_as_before() -> None:
    alone = GpuRequest("new", "default", "new", MiB(2048), "new", compute=Percent(100))
    assert chosen(ledger_of(held("a", terms(share=0.001))), alone) == ["1"]
    assert chosen(ledger_of(held("a", None, compute=100)), asks()) == ["1"]


def test_the_percent_left_is_of_what_is_tolerated() -> None:
    ledger = ledger_of(held("a", terms(share=0.35)), held("b", terms(share=0.35, others=1.4), "1"), held("c", gpu="1"))
    assert [(use.booked_compute, use.free_compute) for use in ledger.gpus()] == [(20, 80), (80, 20)]
    assert decide(ledger.index, asks(), ["n0"]).chosen.gpus[0].free_compute == 80  # type: ignore[union-attr]
    dominant = PolicyName("DominantWorstFit")
    assert decide(ledger.index, asks(terms(share=0.1)), ["n0"], policy=dominant).chosen.places == (("n0", "0"),)  # type: ignore[union-attr]


# What is said where a pod does not fit


def test_the_refusal_names_whose_tolerance_would_be_exceeded_where_it_comes_nearest() -> None:
    ledger = ledger_of(held("a", terms(tolerance=1.15)), held("b", terms(tolerance=1.1), "1"))
    assert refused(ledger, asks()) == (
        "no GPU with 2048 MiB free tolerates the pod; on GPU 0 of node n0 a pod of model default/a would take 1.2 times"
        " as long as alone and tolerates 1.15"
    )
    ledger = ledger_of(held("a", gpu="0,1", gpus=2, model=None, on=terms(tolerance=1)))
    assert "a pod of namespace default would take 1.2" in refused(ledger, asks())
    assert "GPU 0 of node n0 the pod would take 1.2 times" in refused(
        ledger_of(held("a"), held("b", gpu="1")), asks(terms(tolerance=1.1))
    )


def test_a_refusal_names_no_gpu_of_a_node_that_has_room() -> None:
    ledger = ledger_of(held("a", terms(tolerance=1.19)))
    ledger.put_node(parse_node(gpu_node("n1", gpus=1, memory_mib=16384)))
    ledger.observe(parse_pod(gpu_pod("b", node="n1", gpu="0", model="b", sharing=terms(tolerance=1.05))))
    passed, refusals = feasible(ledger.index, asks(), ["n0", "n1"])
    assert passed == ("n0",)
    (refusal,) = refusals
    assert "on GPU 0 of node n1 a pod of model default/b would take 1.2 times" in refusal_text(refusal)


def test_a_bind_that_comes_too_late_says_who_came_before() -> None:
    ledger = ledger_of(held("a", gpu="0,1", gpus=2))
    (refusal,) = decide(ledger.index, asks(terms(tolerance=1.1)), ["n0"]).refusals
    assert too_late_text(refusal).startswith(
        "no GPU with 2048 MiB free tolerates the pod any more; on GPU 0 of node n0 the pod would take 1.2 times"
    )
    assert "%" not in too_late_text(refusal)


def test_each_gpu_says_who_is_in_the_way_of_terms() -> None:
    percent, none = (held(name, None, compute=compute) for name, compute in (("percent", 20), ("none", None)))
    ledger = ledger_of(held("a", terms(tolerance=1.1)), held("b", None, "1", compute=10))
    without = f"declares compute without annotation {SHARING}, by which this pod shares"
    said = {one.gpu.id: [(reason.kind, reason.text) for reason in one.reasons] for one in explain(ledger, asks())}
    assert said == {
        "0": [("slowdown", "default/a would take 1.2 times as long as alone and tolerates 1.1")],
        "1": [("undeclared", f"default/b there {without}")],
    }
    booked = GpuRequest("new", "default", "new", MiB(2048), "new", compute=Percent(10))
    (reason,) = explain(ledger_of(held("a")), booked)[0].reasons
    assert reason.text == f"default/a there shares by annotation {SHARING}, and this pod does not"
    (reason,) = explain(ledger_of(none), asks())[0].reasons
    assert reason.text == "default/none there declares no compute, and shares only with pods that declare none"
    assert not explain(ledger_of(percent), booked)[0].reasons


# What the ledger takes


def test_the_ledger_takes_no_booking_that_slows_a_pod_down_too_much_or_is_of_another_kind() -> None:
    ledger = ledger_of(held("a"), held("b", None, "1", compute=10))
    with pytest.raises(LedgerError, match=r"GPU 0 of node n0: the pod would take 1.2 times as long as alone") as error:
        ledger.reserve(asks(terms(tolerance=1.1)), [("n0", "0")], SOON)
    assert error.value.kind is LedgerErrorKind.NO_TOLERANCE
    with pytest.raises(LedgerError, match=r"pod default/a would take 3 times as long as alone and tolerates 1.75"):
        ledger.reserve(asks(terms(others=3.0)), [("n0", "0")], SOON)
    with pytest.raises(LedgerError, match="pod default/b on GPU 1 of node n0 declares compute"):
        ledger.reserve(asks(), [("n0", "1")], SOON)
    with pytest.raises(LedgerError, match=f"pod default/a on GPU 0 of node n0 shares by annotation {SHARING}"):
        ledger.reserve(asks(None), [("n0", "0")], SOON)
    ledger.reserve(asks(), [("n0", "0")], SOON)
    again = ledger.reserve(asks(terms(share=0.75)), [("n0", "0")], SOON)
    assert again.request.sharing == terms(share=0.75), "its own reservation counts as free"


def test_a_reservation_is_no_good_once_its_gpu_is_pressed_too_hard_or_mixed() -> None:
    for stranger in (held("s", terms(others=3.0)), held("s", None, compute=10), held("s", None, compute=None)):
        placer = Placer(clock=lambda: Seconds(0.0), hold=Seconds(30.0))
        NodeEventHandler(placer).replace([gpu_node("n0", gpus=1)])
        placer.ledger.reserve(asks(), [("n0", "0")], SOON)
        PodEventHandler(placer).apply("ADDED", stranger)
        with pytest.raises(LedgerError, match="node n0: "):
            placer.fix_gpus(asks(), "n0")


def test_a_pod_whose_terms_changed_gets_its_gpu_chosen_again() -> None:
    placer = Placer(clock=lambda: Seconds(0.0), hold=Seconds(30.0))
    NodeEventHandler(placer).replace([NODE])
    PodEventHandler(placer).apply("ADDED", held("a", terms(tolerance=1.3)))
    placer.ledger.reserve(asks(), [("n0", "0")], SOON)
    assert placer.fix_gpus(asks(terms(others=1.5)), "n0").gpus == ("1",)


def test_sets_that_are_on_no_gpu_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hetserve.placement.ledger.terms._LEAST_SETS", 0)
    columns = TermColumns.of(2)
    tenants = [asks(terms(share=0.1 + number / 1000)).tenant(terms(share=0.1 + number / 1000)) for number in range(60)]
    for one in tenants:
        columns.book(0, one, 1)
        columns.book(1, one, 1)
        columns.book(0, one, -1)
        assert columns.rows() == {1: columns.on(1)}
        assert one in columns.on(1)
        assert columns.tolerate(0, one)
    assert len(columns.sets.tenants) <= 20
    assert len(columns.on(1)) == 60


def test_a_refusal_reads_no_set_of_tenants_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    gpus = range(40)
    pods = [held(f"p{gpu}", terms(share=0.2 + gpu / 100, tolerance=1.1), str(gpu), memory_mib=64) for gpu in gpus]
    index = ledger_of(*pods, node=gpu_node("n0", gpus=40, memory_mib=16384)).index
    asked: list[int] = []
    monkeypatch.setattr("hetserve.placement.ledger.terms.booked_percent", counted(booked_percent, asked))
    assert not fits(index, asks())
    assert len(asked) <= 1, "the columns of all sets are counted together"


def test_many_sets_are_counted_at_once_as_each_is_by_the_rule() -> None:
    tenants = [Tenant("default", f"m{at}", terms(0.1, 1.2 + at / 10, 1.1, new=1.05 + at / 10)) for at in range(9)]
    sets = TenantSets()
    several = [tuple(tenants[at % 9 : at % 9 + 1 + at % 4]) for at in range(27)]
    numbers = np.array([sets.number(one) for one in several])
    for tolerance in (1.2, 3.0):
        newcomer = Tenant("default", "new", terms(0.2, tolerance, 1.3, m2=1.7))
        by_rule = [booked_percent((*one, newcomer)) for one in several]
        assert sets.percents_with(numbers, newcomer).tolist() == by_rule


def test_what_was_read_of_a_newcomer_outlives_the_index(monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = ledger_of(held("a", terms(tolerance=1.1)), held("b", terms(tolerance=1.15), "1"))
    counts: list[int] = []
    monkeypatch.setattr(TenantSets, "_counted", counted(TenantSets._counted, counts))
    assert not fits(ledger.index, asks())
    before = ledger.index
    ledger.put_node(parse_node(gpu_node("n1", gpus=1, memory_mib=1024)))
    assert not fits(ledger.index, asks())
    assert ledger.index is not before
    assert len(counts) == 1
    ledger.observe(parse_pod(held("c", terms(tolerance=1.12))))
    assert not fits(ledger.index, asks())
    assert len(counts) == 2, "of the only set that is new"


def counted(call: Callable[..., Any], calls: list[int]) -> Callable[..., Any]:
    def counting(*args: Any) -> Any:
        calls.append(1)
        return call(*args)

    return counting


def test_what_was_read_is_kept_of_a_few_newcomers_and_right_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hetserve.placement.ledger.terms._MOST_NEWCOMERS", 8)
    index: GpuIndex = ledger_of(held("a", terms(tolerance=1.2)), held("b", gpu="1")).index
    for number in range(200):
        loud = asks(terms(others=1 + number / 100))
        assert (chosen_of(index, loud) == "0") == (number <= 20)


def chosen_of(index: GpuIndex, request: GpuRequest) -> str | None:
    found = decide(index, request, ["n0"]).chosen
    return None if found is None else found.gpus[0].id


# Edits, and what does not add up


def test_terms_edited_or_lost_after_the_bind_change_nothing_while_the_ledger_lives() -> None:
    for edited, says in (
        (held("a", terms(share=0.01)), re.escape(terms_text(terms(share=0.01)))),
        (held("a", None, compute=100), "no terms"),
        (held("a", PLAIN, annotations={SHARING: "no"}), "no terms"),
    ):
        ledger = ledger_of(held("a"), held("b"))
        before = [use.booked_compute for use in ledger.gpus()]
        ledger.observe(parse_pod(edited))
        assert [use.booked_compute for use in ledger.gpus()] == before
        (problem,) = problem_lines(ledger.problems())
        assert re.match(f"pod default/a: annotation {SHARING} says '?{says[:20]}", problem), problem
        assert "it was bound with" in problem
        ledger.observe(parse_pod(held("a")))
        assert problem_lines(ledger.problems()) == (), "put back"


def test_a_restart_without_the_terms_counts_the_gpu_as_whole() -> None:
    lost = ledger_of(held("a", None, compute=100))
    assert [use.booked_compute for use in lost.gpus()] == [100, 0]
    assert chosen(lost, asks(terms(share=0.001, others=1.0))) == ["1"]
    spoiled = ledger_of(held("a", PLAIN, annotations={SHARING: "no"}))
    assert [use.booked_compute for use in spoiled.gpus()] == [100, 0]
    (problem,) = problem_lines(spoiled.problems())
    assert problem.startswith(f"pod default/a: annotation {SHARING}: 'no' cannot be read")
    assert problem.endswith(f"; its compute counts by {COMPUTE} alone")


def test_a_label_edited_after_the_bind_counts_as_any_model() -> None:
    ledger = ledger_of(held("a", terms(others=1.1)), held("b", terms(others=1.7, a=1.0)))
    assert next(use.booked_compute for use in ledger.gpus()) == 63, "b adds nothing to a, a a tenth to b"
    ledger.observe(parse_pod(held("a", terms(others=1.1), model="other")))
    assert next(use.booked_compute for use in ledger.gpus()) == 98, "b may add 0.7 to what a is now"


def test_pods_that_somebody_else_bound_too_close_are_a_problem_of_their_gpu() -> None:
    pods = [held("a"), held("b", terms(tolerance=1.1)), held("c", gpu="1"), held("d", None, "1", compute=20)]
    assert problem_lines(ledger_of(*pods).problems()) == (
        "GPU 0 of node n0: pod default/b takes 1.2 times as long as alone and tolerates 1.1",
        "GPU 1 of node n0: 120 percent of its compute is booked",
    )
    assert violations(pods, [NODE]) == (
        "GPU 0 of node n0 is over-booked: 110 percent of its compute",
        "GPU 1 of node n0 holds pods that share on terms beside pods that do not",
        "GPU 1 of node n0 is over-booked: 120 percent of its compute",
    )


def test_drift_of_terms_is_told_of_the_pod_and_of_its_gpu() -> None:
    ledger = ledger_of(held("a"))
    assert compare(ledger, ClusterHoldings.of([held("a")], [NODE])) == ()
    found = {one.kind: one.text for one in compare(ledger, ClusterHoldings.of([held("a", None, compute=100)], [NODE]))}
    assert found.keys() == {Kind.OTHER_TERMS, Kind.OTHER_FREE_COMPUTE}
    assert found[Kind.OTHER_TERMS].endswith("and holds none")
    assert found[Kind.OTHER_FREE_COMPUTE] == (
        "GPU 0 of node n0 has 71 percent of compute free in the ledger, 0 by the cluster's pods"
    )
