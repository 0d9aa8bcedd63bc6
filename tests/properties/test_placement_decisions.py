"""The vectorised decision equals the rules written out plainly: any cluster, every policy, any number of GPUs."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from hetserve.base.units import MiB, Millionths, Percent, Seconds
from hetserve.objects.gpu_sharing import SharingTerms, Tenant
from hetserve.objects.resources import WHOLE_COMPUTE
from hetserve.placement.decision.decide import decide, feasible, fits, scores
from hetserve.placement.decision.explain import explain
from hetserve.placement.ledger.bookings import GpuUse
from hetserve.placement.ledger.inventory import Gpu, NodeInventory
from hetserve.placement.ledger.ledger import Ledger
from hetserve.placement.ledger.problems import problem_lines
from hetserve.placement.pods.requests import DEFAULT_POLICY, AntiAffinity, GpuRequest, GpuSelector, PolicyName
from hetserve.placement.pods.view import PodView
from hetserve.registry.placement_policies import PLACEMENT_POLICIES
from sharing_terms import slowed, terms_of

NODES = ["n0", "n1", "n2", "n3"]
Places = tuple[tuple[str, str], ...]

GPUS = st.builds(
    Gpu,
    id=st.just(""),
    product=st.sampled_from(["T4", "V100"]),
    memory_mib=st.sampled_from([MiB(1000), MiB(2000)]),
    healthy=st.sampled_from([True, True, True, False]),
)
SELECTORS = st.sampled_from(
    [
        *(GpuSelector(),) * 4,
        GpuSelector(products=("T4",)),
        GpuSelector(products=("T4", "none such")),
        GpuSelector(products_excluded=("T4",)),
        GpuSelector(ids=("0", "2")),
        GpuSelector(products=("V100",), ids_excluded=("1",)),
    ]
)
REQUESTS = st.builds(
    lambda mib, compute, terms, space, model, count, share, policy, selector: GpuRequest(
        "p",
        space,
        "p",
        MiB(mib),
        model,
        gpus=count,
        whole=mib == 0,
        anti_affinity=share,
        policy=policy,
        selector=selector,
        compute=(compute if terms is None else WHOLE_COMPUTE) if mib else None,
        sharing=terms if mib else None,
    ),
    st.sampled_from([0, 1, 400, 400, 1000, 2000, 3000]),
    st.sampled_from([None, None, Percent(1), Percent(30), Percent(70), Percent(100)]),
    st.none() | terms_of("ab"),
    st.sampled_from(["d", "e"]),
    st.sampled_from(["a", "a", "b", None]),
    st.sampled_from([1, 1, 2, 3]),
    st.sampled_from(AntiAffinity),
    st.sampled_from([*map(PolicyName, PLACEMENT_POLICIES.names), None]),
    SELECTORS,
)
MOST_NODES = st.sets(st.sampled_from(NODES), max_size=2).map(lambda without: [n for n in NODES if n not in without])
OFFERS = st.lists(st.sampled_from([*NODES, "gone"]), max_size=6) | MOST_NODES | MOST_NODES.flatmap(st.permutations)


@st.composite
def clusters(draw: st.DrawFn) -> Ledger:
    """Nodes with mixed GPUs, some of them held, by shares or whole, by pods on one or several."""
    ledger = Ledger()
    for number, gpus in enumerate(draw(st.lists(st.lists(GPUS, max_size=4), max_size=4))):
        named = tuple(Gpu(str(i), gpu.product, gpu.memory_mib, gpu.healthy) for i, gpu in enumerate(gpus))
        ledger.put_node(NodeInventory(f"n{number}", f"uid-{number}", named))
    for number in range(draw(st.integers(0, 8))):
        asked = draw(REQUESTS)
        held = GpuRequest(
            f"held{number}",
            asked.namespace,
            "h",
            asked.memory_mib,
            asked.model,
            asked.gpus,
            asked.whole,
            asked.anti_affinity,
            asked.policy,
            compute=asked.compute,
            sharing=asked.sharing,
        )
        chosen = decide(ledger.index, held, draw(OFFERS)).chosen
        if chosen is not None:
            ledger.reserve(held, chosen.places, Seconds(1))
    for node in draw(st.sampled_from([(), (), ("n0",), ("n1", "n2")])):
        stranger = GpuRequest(f"stranger-{node}", "d", "s", MiB(0))
        through = draw(st.sampled_from([(), ("nvidia.com/gpu",)]))
        ledger.observe(PodView(stranger, node=node, through=through, unread=not through))
    return ledger


# The rules as one would say them


def _accepts(selector: GpuSelector, gpu: Gpu) -> bool:
    return (
        (not selector.products or gpu.product in selector.products)
        and gpu.product not in selector.products_excluded
        and (not selector.ids or gpu.id in selector.ids)
        and gpu.id not in selector.ids_excluded
    )


def _fits(use: GpuUse, request: GpuRequest) -> bool:
    if not use.gpu.healthy or not use.open or not _accepts(request.selector, use.gpu):
        return False
    if request.whole:
        return not use.bookings
    for booking in use.bookings:
        both_share = AntiAffinity.HARD not in (booking.request.anti_affinity, request.anti_affinity)
        same = (booking.request.namespace, booking.request.model) == (request.namespace, request.model)
        if request.model is not None and same and not both_share:
            return False
        if not booking.request.whole and _kind(booking.request) != _kind(request):
            return False
    return use.free_mib >= request.memory_mib and _has_compute(use, request)


def _has_compute(use: GpuUse, request: GpuRequest) -> bool:
    if request.sharing is not None:
        return max(slowed(_tenants([*(booking.request for booking in use.bookings), request]))) <= 1
    return sum(booking.request.compute or 0 for booking in use.bookings) + (request.compute or 0) <= 100


def _kind(request: GpuRequest) -> tuple[bool, bool]:
    return request.compute is None, request.sharing is None


def _tenants(requests: list[GpuRequest]) -> list[Tenant]:
    return [Tenant(one.namespace, one.model, one.sharing) for one in requests if one.sharing is not None]


def _badness(
    policy: PolicyName, request: GpuRequest, node_pods: Callable[[str], int]
) -> Callable[[GpuUse], tuple[float, ...]]:
    def scarcer(use: GpuUse) -> float:
        """Share left of what is scarcer, exactly: sizes of GPUs and percents are few."""
        memory = Fraction(use.free_mib - request.memory_mib, use.gpu.memory_mib)
        takes = request.compute or 0
        if request.sharing is not None:
            takes = math.ceil(100 * Fraction(request.sharing.share, request.sharing.tolerance))
        return float(min(memory, Fraction(max(100 - use.booked_compute - takes, 0), 100)))

    rules: dict[PolicyName, Callable[[GpuUse], tuple[float, ...]]] = {
        PolicyName("DominantWorstFit"): lambda use: (-scarcer(use), -use.free_mib),
        PolicyName("WorstFit"): lambda use: (bool(use.bookings), -use.free_mib),
        PolicyName("PackedWorstFit"): lambda use: (bool(use.bookings) is (request.sharing is None), -use.free_mib),
        PolicyName("BestFit"): lambda use: (not use.bookings, use.free_mib),
        PolicyName("Spread"): lambda use: (len(use.bookings), node_pods(use.node), -use.free_mib),
    }
    return rules[policy]


def _plain_nodes(
    ledger: Ledger, request: GpuRequest, offered: list[str]
) -> list[tuple[list[tuple[float, ...]], Places]]:
    """Every node that fits, best first: (badness of its GPUs, the worst first; places)."""
    uses = list(ledger.gpus())
    held = {node: sum(len(use.bookings) for use in uses if use.node == node) for node in NODES}
    badness = _badness(request.policy or DEFAULT_POLICY, request, lambda node: held[node])
    found = []
    for node in sorted(set(offered)):
        here = [use for use in uses if use.node == node and _fits(use, request)]
        best = sorted(here, key=lambda use: (badness(use), int(use.gpu.id)))[: request.gpus]
        if len(best) == request.gpus:
            places = tuple((node, use.gpu.id) for use in sorted(best, key=lambda use: int(use.gpu.id)))
            found.append((sorted(map(badness, best), reverse=True), places))
    return sorted(found, key=lambda entry: (entry[0], entry[1][0][0]))


def _plain_gpus(ledger: Ledger, request: GpuRequest, offered: list[str]) -> list[Places]:
    """For one GPU: every GPU that fits, best first."""
    uses = list(ledger.gpus())
    held = {node: sum(len(use.bookings) for use in uses if use.node == node) for node in NODES}
    badness = _badness(request.policy or DEFAULT_POLICY, request, lambda node: held[node])
    fitting = [use for use in uses if use.node in offered and _fits(use, request)]
    fitting.sort(key=lambda use: (badness(use), use.node, int(use.gpu.id)))
    return [((use.node, use.gpu.id),) for use in fitting]


@given(ledger=clusters(), request=REQUESTS, offered=OFFERS)
def test_the_choice_and_the_runner_up_are_those_of_the_plain_rule(
    ledger: Ledger, request: GpuRequest, offered: list[str]
) -> None:
    decision = decide(ledger.index, request, offered)
    found = [candidate.places for candidate in (decision.chosen, decision.runner_up) if candidate is not None]
    nodes = _plain_nodes(ledger, request, offered)
    plain = _plain_gpus(ledger, request, offered) if request.gpus == 1 else [places for _, places in nodes]
    assert found == plain[:2]
    if nodes:
        assert found[0] == nodes[0][1], "the rule for several GPUs is that for one where one is asked for"


@given(ledger=clusters(), request=REQUESTS, offered=OFFERS)
def test_every_offered_node_passes_or_is_refused_exactly_once(
    ledger: Ledger, request: GpuRequest, offered: list[str]
) -> None:
    fitting = {places[0][0] for _, places in _plain_nodes(ledger, request, offered)}
    passed, refusals = feasible(ledger.index, request, offered)
    assert set(passed) == fitting
    assert sorted([*passed, *(node for refusal in refusals for node in refusal.nodes)]) == sorted(set(offered))
    assert decide(ledger.index, request, offered, explain=True).refusals == refusals


@given(ledger=clusters(), request=REQUESTS, offered=OFFERS)
def test_whether_anything_fits_is_what_a_decision_says(ledger: Ledger, request: GpuRequest, offered: list[str]) -> None:
    index = ledger.index
    nodes = np.array([node.name in offered for node in index.nodes], dtype=np.bool_)
    assert fits(index, request, nodes) == (decide(index, request, offered).chosen is not None)
    everywhere = [node.name for node in index.nodes]
    assert fits(index, request) == (decide(index, request, everywhere).chosen is not None)


@given(ledger=clusters(), request=REQUESTS, offered=OFFERS)
def test_scores_are_in_the_order_of_the_policy(ledger: Ledger, request: GpuRequest, offered: list[str]) -> None:
    points = scores(ledger.index, request, offered)
    nodes = _plain_nodes(ledger, request, offered)
    ordered = [points[places[0][0]] for _, places in nodes]
    assert ordered == sorted(ordered, reverse=True)
    assert all(1 <= score <= 10 for score in ordered)
    best = [points[places[0][0]] for badness, places in nodes if badness == nodes[0][0]]
    assert best == [10] * len(best), "nodes that the policy holds equal score the same"
    assert ordered.count(10) == len(best), "only the best have the highest score"
    assert all(score == 0 for node, score in points.items() if node not in {places[0][0] for _, places in nodes})


@given(ledger=clusters(), request=REQUESTS)
def test_booking_and_giving_back_leaves_no_trace(ledger: Ledger, request: GpuRequest) -> None:
    before = decide(ledger.index, request, NODES, explain=True)
    if before.chosen is not None:
        ledger.reserve(request, before.chosen.places, Seconds(1))
        ledger.release("p")
    assert decide(ledger.index, request, NODES, explain=True) == before


@given(ledger=clusters(), request=REQUESTS)
def test_whoever_gets_a_whole_gpu_is_alone_on_it(ledger: Ledger, request: GpuRequest) -> None:
    chosen = decide(ledger.index, request, NODES).chosen
    if chosen is not None:
        ledger.reserve(request, chosen.places, Seconds(1))
    for use in ledger.gpus():
        assert len(use.bookings) == 1 or not any(booking.request.whole for booking in use.bookings)
        assert use.free_mib >= 0
        assert use.booked_compute <= 100
        assert not use.undeclared or not use.booked_compute, "who declares compute lies beside who declares none"
        assert len({booking.request.sharing is None for booking in use.bookings}) < 2, "kinds are mixed"
    assert all("unhealthy" in problem or "nvidia.com/gpu" in problem for problem in problem_lines(ledger.problems()))


MORE = st.tuples(st.integers(0, 900), st.integers(0, 70), st.integers(0, 500_000))


@given(ledger=clusters(), request=REQUESTS, more=MORE)
def test_who_asks_for_more_fits_no_gpu_that_who_asks_for_less_does_not(
    ledger: Ledger, request: GpuRequest, more: tuple[int, int, int]
) -> None:
    if request.whole:
        return
    mib, percent, millionths = more
    compute = None if request.compute is None else Percent(min(request.compute + percent, 100))
    larger = replace(request, memory_mib=MiB(request.memory_mib + mib), compute=compute)
    if (terms := request.sharing) is not None:
        share = Millionths(min(terms.share + millionths, 1_000_000))
        tolerance = Millionths(max(terms.tolerance - millionths, 1_000_000))
        others, named = (Millionths(terms.others + millionths), tuple((m, Millionths(h + mib)) for m, h in terms.named))
        larger = replace(larger, sharing=SharingTerms(share, tolerance, others, named))
    fitting = [{(one.node, one.gpu.id) for one in explain(ledger, asked) if one.fits} for asked in (request, larger)]
    assert fitting[1] <= fitting[0]
    passed = [set(feasible(ledger.index, asked, NODES)[0]) for asked in (request, larger)]
    assert passed[1] <= passed[0]
