"""Law: what is said of each GPU is what the decision does."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from effort import examples
from hetserve.base.units import MiB, Percent
from hetserve.placement.decision.decide import decide
from hetserve.placement.decision.explain import explain
from hetserve.placement.decision.refusals import RefusalKind
from hetserve.placement.decision.wording import offer_text, refusal_text
from hetserve.placement.ledger.bookings import Cause
from hetserve.placement.ledger.inventory import Gpu, NodeInventory
from hetserve.placement.ledger.ledger import Ledger
from hetserve.placement.log.journal import offer_of, outcome_value, refusals_of
from hetserve.placement.placer import FilterOutcome
from hetserve.placement.pods.requests import AntiAffinity, GpuRequest, GpuSelector
from hetserve.placement.pods.view import PodView
from sharing_terms import terms_of

IDS = ("0", "1", "2")
PRODUCTS = ("T4", "V100")
few_products = st.lists(st.sampled_from((*PRODUCTS, "A100")), max_size=2, unique=True).map(tuple)
few_ids = st.lists(st.sampled_from(IDS), max_size=2, unique=True).map(tuple)
UNKNOWN = tuple(f"X{number}" for number in range(1022))
"""As many as an annotation may list: what is done once for each of them takes long."""
selectors = st.one_of(
    st.just(GpuSelector()),
    st.builds(GpuSelector, few_products, few_products, few_ids, few_ids),
    st.builds(
        GpuSelector, *([few.map(lambda known: (*known, *UNKNOWN)) for few in (few_products, few_ids) for _ in "ab"])
    ),
)
gpus = st.builds(
    Gpu,
    st.sampled_from(IDS),
    st.sampled_from(PRODUCTS),
    st.sampled_from((8, 16)).map(MiB),
    st.sampled_from((True, True, True, False)),
)
nodes = st.lists(gpus, min_size=1, max_size=3, unique_by=lambda gpu: gpu.id).map(
    lambda found: tuple(sorted(found, key=lambda gpu: gpu.id))
)


@st.composite
def requests(draw: st.DrawFn, uid: str) -> GpuRequest:
    whole = draw(st.sampled_from((False, False, True)))
    terms = None if whole else draw(st.none() | terms_of("ab"))
    compute = None if whole else draw(st.sampled_from((None, None, Percent(30), Percent(60), Percent(100))))
    return GpuRequest(
        uid=uid,
        namespace=draw(st.sampled_from(("team", "other"))),
        name=f"pod-{uid}",
        memory_mib=MiB(0 if whole else draw(st.integers(1, 16))),
        model=draw(st.sampled_from((None, "a", "a", "b"))),
        gpus=draw(st.sampled_from((1, 1, 2))),
        whole=whole,
        anti_affinity=draw(st.sampled_from(AntiAffinity)),
        selector=draw(selectors),
        compute=compute if terms is None else Percent(100),
        sharing=terms,
    )


@st.composite
def ledgers(draw: st.DrawFn) -> Ledger:
    """Two nodes and a few bound pods, wherever somebody has put them: over-use and unlisted GPUs included."""
    ledger = Ledger()
    for name in ("n0", "n1"):
        refused = draw(st.sampled_from(("", "", "", "label a: 'b': somebody else's")))
        ledger.put_node(NodeInventory(name, f"uid-{name}", draw(nodes), refused=refused))
    for number in range(draw(st.integers(0, 5))):
        request = draw(requests(str(number)))
        held = draw(st.permutations((*IDS, "9")))[: request.gpus]
        mib = ",".join([str(request.memory_mib)] * request.gpus)
        node = draw(st.sampled_from(("n0", "n1")))
        through = draw(st.sampled_from(((), (), (), ("nvidia.com/gpu",))))
        unread = draw(st.sampled_from((False, False, False, True)))
        gpus = tuple(sorted(held))
        ledger.observe(PodView(request, node=node, gpus=gpus, annotated_mib=mib, through=through, unread=unread))
    return ledger


@given(ledgers(), requests("new"))
@settings(max_examples=examples(200))
def test_a_gpu_is_refused_by_the_explanation_exactly_if_the_decision_refuses_it(
    ledger: Ledger, request: GpuRequest
) -> None:
    one = replace(request, gpus=1)
    for verdict in explain(ledger, one):
        wanted = one.selector
        accepted = not wanted.ids or verdict.gpu.id in wanted.ids
        only = replace(one, selector=replace(wanted, ids=(verdict.gpu.id,)))
        chosen = decide(ledger.index, only, [verdict.node]).chosen if accepted else None
        assert verdict.fits == (chosen is not None), f"{verdict} but decided {chosen}"
        assert verdict.free_mib == ledger.free((verdict.node, verdict.gpu.id))
        row = ledger.index.row[verdict.node, verdict.gpu.id]
        undeclared = int(ledger.index.undeclared[row])
        assert verdict.free_compute == (None if undeclared else int(ledger.index.free_compute[row]))
        refused = decide(ledger.index, request, [verdict.node], explain=True).refusals
        closed = {one.text for one in verdict.reasons if one.kind in {cause.value for cause in Cause}}
        by_cause = [refusal_text(one) for one in refused if one.kind is RefusalKind.CLOSED]
        assert all(any(text.startswith(words) for text in closed) for words in by_cause), "two words for one thing"


@given(ledgers(), requests("new"))
@settings(max_examples=examples(150))
def test_the_nodes_said_to_be_able_are_those_the_decision_accepts(ledger: Ledger, request: GpuRequest) -> None:
    fitting = Counter(verdict.node for verdict in explain(ledger, request) if verdict.fits)
    able = [name for name in ("n0", "n1") if fitting[name] >= request.gpus]
    decided = [name for name in ("n0", "n1") if decide(ledger.index, request, [name]).chosen is not None]
    assert able == decided


@given(ledgers(), requests("0"))
def test_what_the_pod_itself_holds_counts_as_free(ledger: Ledger, request: GpuRequest) -> None:
    said = explain(ledger, request)
    ledger.release(request.uid)
    assert said == explain(ledger, request)


@given(ledgers(), requests("new"))
@settings(max_examples=examples(150))
def test_a_decision_read_from_the_placement_log_reads_as_it_was_made(ledger: Ledger, request: GpuRequest) -> None:
    decision = decide(ledger.index, request, ["n0", "n1", "gone"], explain=True)
    outcome = FilterOutcome((), decision.refusals, decision)
    written = json.loads(json.dumps(outcome_value(outcome, frozenset(ledger.inventories()))))
    refused = [(len(one.nodes), refusal_text(one)) for one in decision.refusals]
    read = [(count, refusal_text(one)) for count, one in refusals_of(written.get("refused", ()), request)]
    assert sorted(read) == sorted(refused)
    offers = [offer_of(written["chosen"]), offer_of(written["runnerUp"])]
    for offer, made in zip(offers, (decision.chosen, decision.runner_up), strict=True):
        assert (offer and offer_text(offer)) == (made and offer_text(made))
