"""Models are kept apart per namespace and name: what one tenant calls a model is nothing to another."""

from __future__ import annotations

from typing import Any

import pytest

from hetserve.api import names
from hetserve.base.units import MiB, Seconds
from hetserve.placement.check import violations
from hetserve.placement.decision.explain import explain
from hetserve.placement.decision.wording import refusal_text
from hetserve.placement.event_handlers import NodeEventHandler, PodEventHandler
from hetserve.placement.ledger.compare import ClusterHoldings, compare
from hetserve.placement.ledger.inventory import parse_node
from hetserve.placement.ledger.ledger import Ledger
from hetserve.placement.ledger.problems import problem_lines
from hetserve.placement.placer import Mode, Placer
from hetserve.placement.pods.view import parse_pod
from hetserve.placement.queues.clustering import distance
from hetserve.placement.queues.rounds import waiting
from testing.cluster import gpu_node, gpu_pod

Raw = dict[str, Any]
SAME = "same model on every GPU"


def tenant(namespace: str, model: str | None = "resnet50", name: str = "p", **fields: Any) -> Raw:
    return gpu_pod(name, uid=f"{namespace}/{name}", namespace=namespace, model=model, **fields)


def bound(namespace: str, model: str | None = "resnet50", name: str = "p", **fields: Any) -> Raw:
    return tenant(namespace, model, name, node="n0", phase="Running", **{"gpu": "0", **fields})


def relabelled(pod: Raw, model: str | None) -> Raw:
    labels = {} if model is None else {names.LABEL_MODEL: model}
    return {**pod, "metadata": {**pod["metadata"], "labels": labels}}


def placer_with(*pods: Raw, mode: Mode = Mode.DECIDE, gpus: int = 1) -> Placer:
    placer = Placer(clock=lambda: Seconds(0.0), hold=Seconds(30.0), mode=mode)
    NodeEventHandler(placer).replace([gpu_node("n0", gpus=gpus)])
    PodEventHandler(placer).replace(list(pods))
    return placer


def answer(placer: Placer, pod: Raw) -> str:
    """Filter's: the node, or why there is none."""
    outcome = placer.filter(pod, ["n0"])
    return ", ".join([*outcome.passed, *map(refusal_text, outcome.refusals)])


# Every way that asks


@pytest.mark.parametrize("mode", Mode)
@pytest.mark.parametrize(
    ("there", "new", "said"),
    [
        (("a", "m"), ("b", "m"), "n0"),
        (("a", "m"), ("a", "m"), SAME),
        (("a", "m"), ("a", "n"), "n0"),
        (("a", None), ("a", None), "n0"),
        (("a", ""), ("a", ""), "n0"),
        (("a", "a"), ("a", "a"), SAME),
        # joined by any separator, these are one text
        (("a-b", "c"), ("a", "b-c"), "n0"),
        (("a/b", "c"), ("a", "b/c"), "n0"),
        (("a.b", "c"), ("a", "b.c"), "n0"),
        (("a", "b"), ("b", "a"), "n0"),
        (("", "a/b"), ("a", "b"), "n0"),
        (("Team", "m"), ("team", "m"), "n0"),
    ],
)
def test_a_gpu_is_refused_for_a_model_of_the_same_namespace_alone(
    there: tuple[str, str | None], new: tuple[str, str | None], said: str, mode: Mode
) -> None:
    held, pod = bound(*there, "held"), tenant(*new, "new")
    placer = placer_with(held, mode=mode)
    assert answer(placer, pod) == said
    (verdict,) = explain(placer.ledger, parse_pod(pod).request)
    assert verdict.fits == (said == "n0")
    beside = bound(*new, "new")
    assert bool(violations([held, beside], [gpu_node("n0", gpus=1)])) == (said == SAME)
    both = placer_with(held, beside)
    assert bool(problem_lines(both.problems())) == (said == SAME)


def test_a_reservation_of_another_tenant_is_in_nobodys_way_and_ones_own_is() -> None:
    placer = placer_with()
    assert answer(placer, tenant("a", name="first")) == "n0"
    assert answer(placer, tenant("b", name="second")) == "n0"
    assert answer(placer, tenant("a", name="third")) == SAME
    assert placer.fix_gpus(parse_pod(tenant("a", name="first")).request, "n0").gpus == ("0",)
    assert placer.fix_gpus(parse_pod(tenant("b", name="second")).request, "n0").gpus == ("0",)


def test_a_reservation_holds_while_another_tenants_pod_comes_beside_it_and_not_while_ones_own_does() -> None:
    placer = placer_with(gpus=2)
    first = tenant("a", name="first")
    assert answer(placer, first) == "n0"
    placer.observe(bound("b", name="past-us"))
    assert placer.fix_gpus(parse_pod(first).request, "n0").gpus == ("0",)
    again = placer_with(gpus=2)
    assert answer(again, first) == "n0"
    again.observe(bound("a", name="past-us"))
    assert again.fix_gpus(parse_pod(first).request, "n0").gpus == ("1",)


def test_who_is_in_the_way_is_named_with_namespace() -> None:
    placer = placer_with(bound("a", name="mine"), bound("b", name="theirs"))
    (verdict,) = explain(placer.ledger, parse_pod(tenant("a", name="new")).request)
    assert [reason.text for reason in verdict.reasons] == ["model resnet50 is held there by a/mine"]
    twice = placer_with(bound("a", name="one"), bound("a", name="two"), bound("b", name="three"))
    assert problem_lines(twice.problems()) == ("GPU 0 of node n0 holds model a/resnet50 2 times",)


def test_tenants_that_agree_to_share_their_own_model_agree_to_nothing_for_others() -> None:
    shares: Raw = {"annotations": {names.ANNOTATION_ANTI_AFFINITY: "None"}}
    placer = placer_with(bound("a", name="one", **shares), bound("a", name="two", **shares))
    assert problem_lines(placer.problems()) == ()
    assert answer(placer, tenant("a", name="insists")) == SAME
    assert answer(placer, tenant("b", name="insists")) == "n0"
    assert answer(placer, tenant("a", name="three", **shares)) == "n0"


# A label that changes


def test_a_label_that_changes_keeps_the_gpu_from_both_models_of_its_own_namespace() -> None:
    held = bound("a", "old", "held")
    placer = placer_with(held)
    placer.observe(relabelled(held, "new"))
    said = {(space, model): answer(placer, tenant(space, model, "x")) for space in "ab" for model in ("old", "new")}
    assert said == {("a", "old"): SAME, ("a", "new"): SAME, ("b", "old"): "n0", ("b", "new"): "n0"}
    reasons = [explain(placer.ledger, parse_pod(tenant(*key, "x")).request)[0].fits for key in said]
    assert reasons == [False, False, True, True]


@pytest.mark.parametrize(("space", "lines"), [("a", 1), ("b", 0)])
def test_a_label_changed_to_a_model_on_the_gpu_is_reported_within_the_namespace_alone(space: str, lines: int) -> None:
    held = bound("a", "old", "held")
    placer = placer_with(held, bound(space, "new", "beside"))
    placer.observe(relabelled(held, "new"))
    twice = [line for line in problem_lines(placer.problems()) if "times" in line]
    assert twice == ["GPU 0 of node n0 holds model a/new 2 times"] * lines


def test_a_label_that_goes_leaves_the_gpu_kept_from_the_model_it_was_bound_as() -> None:
    held = bound("a", "old", "held")
    placer = placer_with(held)
    placer.observe(relabelled(held, None))
    assert answer(placer, tenant("a", "old", "x")) == SAME
    assert answer(placer, tenant("b", "old", "x")) == "n0"


# Over pods of an earlier version


def test_a_new_extender_takes_over_pods_that_an_earlier_one_placed_as_they_are() -> None:
    """The earlier rule is the stricter one: what it placed breaks nothing, and stays where it is."""
    nodes = [gpu_node("n0", gpus=2), gpu_node("n1", gpus=1)]
    pods = [bound("a"), bound("b", gpu="1"), {**bound("c"), "spec": {**bound("c")["spec"], "nodeName": "n1"}}]
    ledger = Ledger()
    ledger.relist_nodes(map(parse_node, nodes))
    ledger.relist_pods(map(parse_pod, pods), Seconds(0.0))
    assert [(b.node, b.gpus) for b in ledger.bookings().values()] == [("n0", ("0",)), ("n0", ("1",)), ("n1", ("0",))]
    assert problem_lines(ledger.problems()) == ()
    assert compare(ledger, ClusterHoldings.of(pods, nodes)) == ()
    assert violations(pods, nodes) == ()


# The queues


def test_two_tenants_models_of_one_name_are_two_in_the_queues_and_pods_without_a_model_are_alike() -> None:
    def shape(namespace: str, model: str | None) -> Any:
        return waiting(parse_pod(tenant(namespace, model))).shape

    assert distance(shape("a", "m"), shape("b", "m"), MiB(32768)) == 1.0
    assert distance(shape("a", "m"), shape("a", "m"), MiB(32768)) == 0.0
    assert distance(shape("a-b", "c"), shape("a", "b-c"), MiB(32768)) == 1.0
    assert shape("a", None) == shape("b", None)
