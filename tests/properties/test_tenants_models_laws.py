"""Laws: namespaces are only names, and a tenant's models constrain nobody else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import count

from hypothesis import example, given
from hypothesis import strategies as st

from hetserve.base.units import MiB, Seconds
from hetserve.placement.decision.decide import decide
from hetserve.placement.decision.explain import explain
from hetserve.placement.ledger.inventory import Gpu, NodeInventory
from hetserve.placement.ledger.ledger import Ledger
from hetserve.placement.ledger.problems import models_twice, problem_lines
from hetserve.placement.pods.requests import AntiAffinity, GpuRequest
from hetserve.placement.pods.view import PodView

SPACES = ("a", "b", "a-b", "a/b", "")
MODELS = ("m", "b-m", "b/m", "", None)
"""Joined by "-" or "/", several pairs of these are one text."""
REQUESTS = st.builds(
    lambda namespace, model, mib, share, gpus: GpuRequest(
        "?", namespace, "p", MiB(mib), model or None, gpus, anti_affinity=share
    ),
    st.sampled_from(SPACES),
    st.sampled_from(MODELS),
    st.sampled_from([100, 100, 400]),
    st.sampled_from([AntiAffinity.HARD, AntiAffinity.HARD, AntiAffinity.NONE]),
    st.sampled_from([1, 1, 2]),
)
HISTORIES = st.lists(st.tuples(REQUESTS, st.sampled_from([None, *MODELS])), max_size=10)
"""Pods in turn, and the model that each one's label names after its bind (None: as before)."""
Placed = list[tuple[tuple[str, str], ...] | None]


GPUS = (("n0", "0"), ("n0", "1"), ("n1", "0"))
A_SLASH_WITHIN = [
    (GpuRequest("?", "a", "p", MiB(100), "m"), "b/m"),
    (GpuRequest("?", "a", "p", MiB(100), "b-m", 2), "b/m"),
]
"""a and b/m, or a/b and m: `b/m` comes twice to GPU 0 of node n0."""
ONE_TEXT = [
    (GpuRequest("?", space, "p", MiB(100), model), None)
    for space, model in (("a", "b/m"), ("a/b", "m"), ("a", "b-m"), ("a-b", "m"))
    for _ in GPUS
]
"""One on every GPU, of each; two and two read alike once namespace and model are joined."""


def cluster() -> Ledger:
    ledger = Ledger()
    for number, gpus in enumerate((2, 1)):
        listed = tuple(Gpu(str(gpu), "T4", MiB(1000), healthy=True) for gpu in range(gpus))
        ledger.put_node(NodeInventory(f"n{number}", f"uid-{number}", listed))
    return ledger


def place(ledger: Ledger, history: Sequence[tuple[GpuRequest, str | None]]) -> Placed:
    """Places of each pod; None: refused."""
    placed: Placed = []
    for number, (asked, later) in zip(count(), history, strict=False):
        request = replace(asked, uid=str(number), name=str(number))
        chosen = decide(ledger.index, request, ("n0", "n1")).chosen
        placed.append(None if chosen is None else chosen.places)
        if chosen is None:
            continue
        see(ledger, request, chosen.places, later)
    return placed


def see(ledger: Ledger, request: GpuRequest, places: Sequence[tuple[str, str]], later: str | None) -> None:
    """A bound pod, and then its edited label."""
    gpus, mib = tuple(gpu for _, gpu in places), ",".join([str(request.memory_mib)] * request.gpus)
    seen = PodView(request, node=places[0][0], gpus=gpus, annotated_mib=mib)
    ledger.observe(seen)
    if later is not None:
        ledger.observe(replace(seen, request=replace(request, model=later or None)))


def twice(ledger: Ledger) -> list[tuple[str, str]]:
    """(GPU, namespace) of each model that is twice on a GPU, once the ledger's lines say the same.

    The lines alone do not tell: with "/" in the names, several namespaces and models read as one text.
    """
    found, lines = list[tuple[str, str]](), list[str]()
    for use in ledger.gpus():
        for (space, model), pods in models_twice(use):
            found.append((f"{use.node}/{use.gpu.id}", space))
            lines.append(f"GPU {use.gpu.id} of node {use.node} holds model {space}/{model} {pods} times")
    assert sorted(lines) == [line for line in problem_lines(ledger.problems()) if " holds model " in line]
    return sorted(found)


def renamed(
    history: Sequence[tuple[GpuRequest, str | None]], names: Mapping[str, str]
) -> list[tuple[GpuRequest, str | None]]:
    return [(replace(asked, namespace=names[asked.namespace]), later) for asked, later in history]


@example(history=ONE_TEXT, spaces=["", "b", "a-b", "a/b", "a"])
@example(history=A_SLASH_WITHIN, spaces=["a", "b", "a-b", "", "a/b"])
@given(HISTORIES, st.permutations(SPACES))
def test_whatever_the_namespaces_are_called_pods_go_to_the_same_gpus(
    history: list[tuple[GpuRequest, str | None]], spaces: list[str]
) -> None:
    names = dict(zip(SPACES, spaces, strict=True))
    plain, other = cluster(), cluster()
    assert place(plain, history) == place(other, renamed(history, names))
    assert sorted((gpu, names[space]) for gpu, space in twice(plain)) == twice(other)


@example(pods=[(asked, later, GPUS[0]) for asked, later in A_SLASH_WITHIN], asking=A_SLASH_WITHIN[0][0])
@given(st.lists(st.tuples(REQUESTS, st.sampled_from([None, *MODELS]), st.sampled_from(GPUS)), max_size=8), REQUESTS)
def test_a_tenants_pod_fares_as_if_nobody_else_had_labels(
    pods: list[tuple[GpuRequest, str | None, tuple[str, str]]], asking: GpuRequest
) -> None:
    """The pods lie anywhere, as earlier rules or hands have put them."""
    labelled, plain = cluster(), cluster()
    for number, (asked, later, place) in enumerate(pods):
        own = replace(asked, uid=str(number), name=str(number), gpus=1)
        see(labelled, own, [place], later)
        if own.namespace == asking.namespace:
            see(plain, own, [place], later)
        else:
            see(plain, replace(own, model=None), [place], None)
    new = replace(asking, uid="new", name="new")
    for offered in (("n0", "n1"), ("n0",), ("n1",)):
        assert decide(labelled.index, new, offered, explain=True) == decide(plain.index, new, offered, explain=True)
    assert explain(labelled, new) == explain(plain, new)
    assert [gpu for gpu in twice(labelled) if gpu[1] == asking.namespace] == twice(plain)


@given(HISTORIES, REQUESTS)
def test_which_gpus_a_model_keeps_a_pod_off_is_the_plain_rule(
    history: list[tuple[GpuRequest, str | None]], asking: GpuRequest
) -> None:
    """Differential: the bookings looked at one by one."""
    ledger = cluster()
    place(ledger, history)
    kept = ledger.index.without_model(ledger.index.all, asking)
    for use in ledger.gpus():
        plain = True
        for booking in use.bookings:
            other = booking.request
            if asking.model is None or other.namespace != asking.namespace:
                continue
            hard = AntiAffinity.HARD in (other.anti_affinity, asking.anti_affinity)
            plain &= not (other.model == asking.model and hard) and asking.model not in booking.other_models
        assert bool(kept[ledger.index.row[use.node, use.gpu.id]]) == plain
    on_one_node = ledger.index.narrowed_to(("n0",))
    assert (on_one_node.without_model(on_one_node.all, asking) == kept[:2]).all()


@given(st.permutations([(space, number) for space in ("a", "b", "c") for number in range(3)]))
def test_each_tenant_gets_one_instance_on_every_gpu_whoever_comes_first(order: list[tuple[str, int]]) -> None:
    ledger = cluster()
    history = [(GpuRequest("?", space, "p", MiB(100), "m"), None) for space, _ in order]
    assert None not in place(ledger, history)
    held = [sorted(booking.request.namespace for booking in use.bookings) for use in ledger.gpus()]
    assert held == [["a", "b", "c"]] * 3
    assert twice(ledger) == []
    assert ledger.expire(Seconds(1e9)) == ((), ())
    assert place(ledger, [(GpuRequest("?", space, "p", MiB(100), "m"), None) for space in "abc"]) == [None] * 3
