"""What is said of a node that is offered alone, from its own rows, is what the rows of all say of it."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from effort import examples
from hetserve.base.units import MiB, Percent
from hetserve.placement.decision.decide import decide, feasible, scores
from hetserve.placement.ledger.bookings import Booking, State
from hetserve.placement.ledger.index import GpuIndex
from hetserve.placement.ledger.inventory import Gpu, NodeInventory
from hetserve.placement.pods.requests import AntiAffinity, GpuRequest, GpuSelector, PolicyName
from hetserve.registry.placement_policies import PLACEMENT_POLICIES
from sharing_terms import terms_of

NODES = ("n0", "n1", "n2")
UNLISTED = "9"
MODELS = st.sampled_from(["a", "a", "b", None])
REQUESTS = st.builds(
    lambda mib, compute, terms, model, gpus, share, selector: GpuRequest(
        "p",
        "d",
        "p",
        MiB(mib),
        model,
        gpus=gpus,
        whole=mib == 0,
        anti_affinity=share,
        selector=selector,
        compute=(compute if terms is None else Percent(100)) if mib else None,
        sharing=terms if mib else None,
    ),
    st.sampled_from([0, 100, 600, 1500]),
    st.sampled_from([None, None, Percent(30), Percent(80)]),
    st.none() | terms_of("ab"),
    MODELS,
    st.sampled_from([1, 1, 2]),
    st.sampled_from(AntiAffinity),
    st.sampled_from([GpuSelector(), GpuSelector(), GpuSelector(ids_excluded=("1",)), GpuSelector(products=("T4",))]),
)

SAID: list[dict[str, Any]] = [
    {},
    {"through": ("nvidia.com/gpu",)},
    {"through": ("nvidia.com/gpu", "nvidia.com/mig-1g.5gb")},
    {"unread": True},
]
"""What a pod says of its GPUs beside their ids."""
BOOKED = st.tuples(
    st.sampled_from(NODES),
    st.sampled_from(["0", "0", "1", "1", "2", "2", UNLISTED]),
    st.sampled_from([10, 100, 300]),
    MODELS,
    st.sampled_from(AntiAffinity),
    st.sampled_from([None, None, Percent(30), Percent(80)]),
    st.none() | terms_of("ab"),
)


@st.composite
def indexes(draw: st.DrawFn) -> GpuIndex:
    """Three nodes of different sizes, one of them perhaps unreadable, with pods anywhere, on GPUs not listed too."""
    gpus = st.builds(Gpu, st.just(""), st.sampled_from(["T4", "V100"]), st.just(MiB(1000)), st.integers(0, 5).map(bool))
    nodes = []
    for name in NODES:
        found = draw(st.lists(gpus, min_size=1, max_size=3) | st.just([]))
        listed = tuple(Gpu(str(i), gpu.product, gpu.memory_mib, gpu.healthy) for i, gpu in enumerate(found))
        problem = "unreadable" if not listed and draw(st.booleans()) else None
        nodes.append(NodeInventory(name, f"uid-{name}", listed, problem))
    index = GpuIndex(nodes)
    for node, gpu, mib, model, share, compute, terms in draw(st.lists(BOOKED, min_size=1, max_size=9)):
        percent = compute if terms is None else Percent(100)
        request = GpuRequest("h", "d", "h", MiB(mib), model, anti_affinity=share, compute=percent, sharing=terms)
        booking = Booking(request, ((node, gpu),), (MiB(mib),), State.BOUND, **draw(st.sampled_from(SAID)))
        index.book((node, gpu), booking, 1)
    return index


@settings(max_examples=examples(300))
@given(
    index=indexes(),
    request=REQUESTS,
    node=st.sampled_from([*NODES, *NODES, "gone"]),
    policy=st.sampled_from(PLACEMENT_POLICIES.names).map(PolicyName),
)
def test_of_a_node_that_is_offered_alone_the_same_is_said_as_over_all_rows(
    index: GpuIndex, request: GpuRequest, node: str, policy: PolicyName
) -> None:
    twice = (node, node)  # named twice it is looked for among all
    for explain in (False, True):
        alone = decide(index, request, [node], policy=policy, explain=explain)
        assert alone == decide(index, request, twice, policy=policy, explain=explain)
    assert feasible(index, request, (node,)) == feasible(index, request, (node, node))
    assert scores(index, request, (node,), policy=policy) == scores(index, request, twice, policy=policy)
