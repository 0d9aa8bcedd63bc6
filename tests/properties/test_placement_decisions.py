"""The vectorised decision equals the rule written out plainly, on any cluster."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from hetserve.placement import Gpu, GpuRequest, GpuSelector, Ledger, NodeInventory, decide, scores
from hetserve.units import MiB, Seconds

GPUS = st.builds(
    Gpu,
    id=st.just(""),
    product=st.sampled_from(["T4", "V100"]),
    memory_mib=st.sampled_from([MiB(1000), MiB(2000)]),
    healthy=st.sampled_from([True, True, True, False]),
)
REQUESTS = st.tuples(
    st.sampled_from([1, 400, 1000, 2000, 3000]),
    st.sampled_from(["a", "b", None]),
    st.sampled_from([None, None, "T4", "none such"]),
)


@st.composite
def clusters(draw: st.DrawFn) -> Ledger:
    """Nodes with mixed GPUs, some of them partly held."""
    ledger = Ledger()
    for number, gpus in enumerate(draw(st.lists(st.lists(GPUS, max_size=3), max_size=4))):
        named = tuple(Gpu(str(i), gpu.product, gpu.memory_mib, gpu.healthy) for i, gpu in enumerate(gpus))
        ledger.put_node(NodeInventory(f"n{number}", f"uid-{number}", named))
    places = sorted(ledger.index.row)
    for number in range(draw(st.integers(0, 6)) if places else 0):
        mib, model, _ = draw(REQUESTS)
        place = draw(st.sampled_from(places))
        if (ledger.free(place) or 0) >= mib:
            ledger.reserve(GpuRequest(f"held{number}", "d", "h", MiB(mib), model), [place], Seconds(1))
    return ledger


def _request(mib: int, model: str | None, product: str | None) -> GpuRequest:
    return GpuRequest("p", "d", "p", MiB(mib), model, selector=GpuSelector((product,) if product else ()))


def _plain_rule(ledger: Ledger, request: GpuRequest, offered: list[str]) -> list[tuple[str, str]]:
    """Every GPU that fits, best first: HetSev's rule as one would say it."""
    fitting = [
        (bool(use.bookings), -use.free_mib, use.node, int(use.gpu.id))
        for use in ledger.gpus()
        if use.node in offered
        and use.gpu.healthy
        and (use.gpu.product in (request.selector.products or {use.gpu.product}))
        and (request.model is None or all(b.request.model != request.model for b in use.bookings))
        and use.free_mib >= request.memory_mib
    ]
    return [(node, str(gpu)) for _, _, node, gpu in sorted(fitting)]


@given(
    ledger=clusters(), asked=REQUESTS, offered=st.lists(st.sampled_from(["n0", "n1", "n2", "n3", "gone"]), max_size=6)
)
def test_the_choice_and_the_runner_up_are_those_of_the_plain_rule(
    ledger: Ledger, asked: tuple[int, str | None, str | None], offered: list[str]
) -> None:
    mib, model, product = asked
    request = _request(mib, model, product)
    decision = decide(ledger.index, request, offered, explain=True)
    found = [c.places[0] for c in (decision.chosen, decision.runner_up) if c is not None]
    assert found == _plain_rule(ledger, request, offered)[:2]
    fitting = {node for node, _ in _plain_rule(ledger, request, offered)}
    refused = [node for refusal in decision.refusals for node in refusal.nodes]
    assert sorted(refused) == sorted(set(offered) - fitting), "every node that does not fit is refused exactly once"
    points = scores(ledger.index, request, offered)
    assert {node for node, score in points.items() if score > 0} == fitting


@given(ledger=clusters(), asked=REQUESTS)
def test_booking_and_giving_back_leaves_no_trace(ledger: Ledger, asked: tuple[int, str | None, str | None]) -> None:
    mib, model, product = asked
    request = _request(mib, model, product)
    offered = ["n0", "n1", "n2", "n3"]
    before = decide(ledger.index, request, offered, explain=True)
    if before.chosen is not None:
        ledger.reserve(request, before.chosen.places, Seconds(1))
        ledger.release("p")
    assert decide(ledger.index, request, offered, explain=True) == before
