"""Laws of GPUs whose pods are counted by pairs: the plain rule, one more, one less, a restart, other names."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from effort import examples
from hetserve.base.units import MiB, Percent, Seconds
from hetserve.objects.gpu_sharing import Tenant, booked_percent, parse_terms, slowdowns, terms_text, tolerate
from hetserve.placement.check import holdings, percent_held, violations
from hetserve.placement.decision.decide import decide, feasible
from hetserve.placement.ledger.compare import ClusterHoldings, compare
from hetserve.placement.ledger.inventory import Gpu, NodeInventory, parse_node
from hetserve.placement.ledger.ledger import Ledger
from hetserve.placement.ledger.problems import problem_lines
from hetserve.placement.ledger.terms import TenantSets
from hetserve.placement.pods.requests import AntiAffinity, GpuRequest
from hetserve.placement.pods.view import parse_pod
from sharing_terms import slowed, terms_of
from testing.cluster import gpu_node, gpu_pod

MODELS = ("a", "b", "c")
NODES = ("n0", "n1")
TENANTS = st.builds(Tenant, st.sampled_from(["d", "e"]), st.sampled_from([*MODELS, None]), terms_of(MODELS))
SEVERAL = st.lists(TENANTS, max_size=4)
REQUESTS = st.builds(
    lambda tenant, mib, gpus, apart: GpuRequest(
        "",
        tenant.namespace,
        "",
        MiB(mib),
        tenant.model,
        gpus,
        anti_affinity=apart,
        compute=Percent(100),
        sharing=tenant.terms,
    ),
    TENANTS,
    st.sampled_from([100, 200]),
    st.sampled_from([1, 1, 2]),
    st.sampled_from(AntiAffinity),
)


@given(SEVERAL)
def test_the_rule_is_the_one_written_out_as_fractions(tenants: list[Tenant]) -> None:
    of_tolerance = slowed(tenants)
    assert tolerate(tenants) == (max(of_tolerance, default=0) <= 1)
    assert booked_percent(tenants) == math.ceil(100 * max(of_tolerance, default=Fraction(0)))
    if len(tenants) > 1:
        pairs = zip(slowdowns(tenants), tenants, strict=True)
        assert [Fraction(slow, one.terms.tolerance) for slow, one in pairs] == of_tolerance
    else:
        assert list(slowdowns(tenants)) == [1_000_000] * len(tenants), "who is alone is not slowed down"


@given(SEVERAL, TENANTS, st.data())
def test_one_more_makes_no_room_and_one_less_breaks_no_promise(
    tenants: list[Tenant], newcomer: Tenant, data: st.DataObject
) -> None:
    more = [*tenants, newcomer]
    assert tolerate(tenants) or not tolerate(more)
    assert booked_percent(tenants) <= booked_percent(more)
    fewer = data.draw(st.permutations(more))[: data.draw(st.integers(0, len(more)))]
    assert tolerate(fewer) or not tolerate(more)


@given(st.lists(SEVERAL, max_size=16), st.lists(TENANTS, min_size=1, max_size=3))
def test_all_sets_of_tenants_are_counted_at_once_as_each_by_the_rule(
    several: list[list[Tenant]], newcomers: list[Tenant]
) -> None:
    sets = TenantSets()
    for there in (several[:1], several):
        numbers = np.array([sets.number(tuple(one)) for one in there], dtype=np.int64)
        for newcomer in newcomers:
            by_rule = [min(booked_percent([*one, newcomer]), 32_767) for one in there]
            assert sets.percents_with(numbers, newcomer).tolist() == by_rule


@given(terms_of(MODELS), st.booleans())
def test_terms_are_read_as_they_were_written(terms: object, spaced: bool) -> None:
    written = terms_text(terms)  # type: ignore[arg-type]
    assert parse_terms(json.dumps(json.loads(written), indent=2) if spaced else written) == terms


@st.composite
def filled(draw: st.DrawFn) -> Ledger:
    """Two nodes of two GPUs, with pods on terms by the rule, some of which have ended."""
    ledger = Ledger()
    for name in NODES:
        ledger.put_node(parse_node(gpu_node(name, gpus=2, memory_mib=600)))
    for number, request in enumerate(draw(st.lists(REQUESTS, max_size=8))):
        asking = replace(request, uid=f"p{number}", name=f"p{number}")
        if (chosen := decide(ledger.index, asking, NODES).chosen) is not None:
            ledger.reserve(asking, chosen.places, Seconds(1))
            ledger.begin_bind(asking.uid)
            ledger.confirm_bind(asking.uid, Seconds(1))
    for uid in draw(st.sets(st.sampled_from(sorted(ledger.bookings())))) if ledger.bookings() else ():
        ledger.release(uid)
    return ledger


def written(ledger: Ledger) -> list[dict[str, object]]:
    """Its pods as their binds left them."""
    return [
        gpu_pod(
            one.request.name,
            uid=one.request.uid,
            namespace=one.request.namespace,
            memory_mib=one.request.memory_mib,
            gpus=one.request.gpus,
            model=one.request.model,
            annotations={"hetserve.io/anti-affinity": one.request.anti_affinity.value},
            node=one.node,
            gpu=",".join(one.gpus),
            phase="Running",
            sharing=one.request.sharing,
        )
        for one in ledger.bookings().values()
    ]


@settings(max_examples=examples(100))
@given(filled(), REQUESTS)
def test_a_restart_finds_the_same_ledger_and_the_checker_agrees(ledger: Ledger, newcomer: GpuRequest) -> None:
    pods, nodes = written(ledger), [gpu_node(name, gpus=2, memory_mib=600) for name in NODES]
    after = Ledger()
    for node in nodes:
        after.put_node(parse_node(node))
    for pod in reversed(pods):
        after.observe(parse_pod(pod))
    assert after.index.terms.rows() == ledger.index.terms.rows()
    assert (after.index.free_compute == ledger.index.free_compute).all()
    assert after.index.content == ledger.index.content
    assert violations(pods, nodes) == problem_lines(after.problems()) == ()
    assert compare(after, ClusterHoldings.of(pods, nodes)) == compare(ledger, ClusterHoldings.of(pods, nodes)) == ()
    asking = replace(newcomer, uid="new", name="new")
    assert decide(after.index, asking, NODES, explain=True) == decide(ledger.index, asking, NODES, explain=True)
    assert feasible(after.index, asking, NODES) == feasible(ledger.index, asking, NODES)


@given(filled(), REQUESTS, st.permutations(MODELS), st.booleans())
def test_names_of_models_and_namespaces_decide_nothing(
    ledger: Ledger, newcomer: GpuRequest, names: list[str], swapped: bool
) -> None:
    named = dict(zip(MODELS, names, strict=True))

    def renamed(request: GpuRequest) -> GpuRequest:
        terms = request.sharing
        assert terms is not None
        others = replace(terms, named=tuple(sorted((named[model], h) for model, h in terms.named)))
        space = {"d": "e", "e": "d"}[request.namespace] if swapped else request.namespace
        model = None if request.model is None else named[request.model]
        return replace(request, namespace=space, model=model, sharing=others)

    other = Ledger()
    for node in ledger.inventories().values():
        other.put_node(node)
    for booking in ledger.bookings().values():
        other.reserve(renamed(booking.request), booking.places, Seconds(1))
    asking = replace(newcomer, uid="new", name="new")
    before, after = (decide(of.index, one, NODES) for of, one in ((ledger, asking), (other, renamed(asking))))
    assert (before.chosen, before.runner_up) == (after.chosen, after.runner_up)


@given(st.lists(st.tuples(TENANTS, st.sampled_from(["terms", "percent", "none"])), max_size=4))
def test_the_checker_and_the_ledger_count_the_same_of_whatever_somebody_bound(
    found: list[tuple[Tenant, str]],
) -> None:
    pods = [
        gpu_pod(
            f"p{number}",
            namespace=tenant.namespace,
            memory_mib=10,
            model=tenant.model,
            compute=None if kind == "none" else 100 if kind == "terms" else 30,
            annotations={"hetserve.io/anti-affinity": "None"},
            node="n0",
            gpu="0",
            sharing=tenant.terms if kind == "terms" else None,
        )
        for number, (tenant, kind) in enumerate(found)
    ]
    ledger = Ledger()
    ledger.put_node(NodeInventory("n0", "n0", (Gpu("0", "V100", MiB(600)),)))
    for pod in pods:
        ledger.observe(parse_pod(pod))
    (use,) = ledger.gpus()
    assert percent_held(holdings(pods)) == use.booked_compute == 100 - int(ledger.index.free_compute[0])
    wrong, kinds = violations(pods, [gpu_node("n0", gpus=1, memory_mib=600)]), {kind for _, kind in found}
    assert bool(wrong) == bool(list(ledger.problems())) == (use.booked_compute > 100 or len(kinds) > 1)
