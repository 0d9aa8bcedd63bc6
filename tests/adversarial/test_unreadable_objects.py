"""Objects that the API server keeps and no reader expects: one of them must never stop the others."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from hetserve.api import names
from hetserve.base.units import Seconds
from hetserve.placement import event_handlers, placer
from hetserve.placement.event_handlers import NodeEventHandler, PodEventHandler
from hetserve.placement.ledger.inventory import parse_node
from hetserve.placement.ledger.problems import problem_lines
from hetserve.placement.placer import Placer
from hetserve.placement.pods.read_ahead import view_of
from hetserve.reconcile.cluster.observed import PodFact, pod_fact
from hetserve_operator.watch.cache import Cache
from hetserve_shell.kube.store import Store
from testing.cluster import gpu_node, gpu_pod

HUGE = "1e9999999"
"""The API server accepts such a quantity and keeps its text."""


def _asking(resource: str, text: str, name: str = "huge") -> dict[str, Any]:
    pod = gpu_pod(name)
    pod["spec"]["containers"][0]["resources"] = {"requests": {resource: text}, "limits": {resource: text}}
    return pod


def _placement() -> Placer:
    placement = Placer(clock=lambda: Seconds(0.0), hold=Seconds(30.0))
    NodeEventHandler(placement).replace([gpu_node("n0")])
    return placement


@pytest.mark.parametrize("resource", ["cpu", "memory", names.RESOURCE_GPU_MEMORY])
def test_a_pod_that_asks_for_a_huge_quantity_hides_no_other_pod_from_the_operator(resource: str) -> None:
    cache = Cache()
    pods = [_asking(resource, HUGE), gpu_pod("good", node="n0", gpu="0")]
    for pod in pods:
        cache.pods.put(pod)
    good = [fact for fact in cache.pods if fact.name == "good"]
    assert good, "one pod of any user keeps the operator from ever being ready"


def test_a_pod_that_asks_for_a_huge_quantity_does_not_end_the_extender() -> None:
    placement = _placement()
    handler = PodEventHandler(placement)
    handler.replace([_asking(names.RESOURCE_GPU_MEMORY, HUGE), gpu_pod("good", node="n0", gpu="0")])
    handler.apply("MODIFIED", _asking(names.RESOURCE_GPU_MEMORY, HUGE))
    assert placement.ledger.booking("uid-good") is not None, "one pod of any user hides the pods of all"
    assert any("default/huge" in problem for problem in problem_lines(placement.problems())), "and nobody is told"


def test_whatever_one_object_raises_the_operator_keeps_the_others() -> None:
    def reduce(raw: dict[str, Any]) -> PodFact | None:
        if raw["metadata"]["name"] == "odd":
            raise RecursionError("deeper than anybody thought")
        return pod_fact(raw)

    store: Store[PodFact] = Store(reduce)
    store.put(gpu_pod("odd"))
    store.put(gpu_pod("good"))
    assert [fact.name for fact in store] == ["good"], "an error that nobody expected stops every list"


@pytest.mark.parametrize("error", [ArithmeticError("odd"), RecursionError("odd"), AssertionError("odd")])
def test_whatever_one_object_raises_the_extender_keeps_the_others(
    error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    def raising(read: Any) -> Any:
        def instead(raw: Any) -> Any:
            if raw["metadata"]["name"] == "odd":
                raise error
            return read(raw)

        return instead

    placement = _placement()
    monkeypatch.setattr(placer, "view_of", raising(view_of))
    monkeypatch.setattr(event_handlers, "parse_node", raising(parse_node))
    PodEventHandler(placement).replace([gpu_pod("odd"), gpu_pod("good", node="n0", gpu="0")])
    NodeEventHandler(placement).replace([gpu_node("odd"), gpu_node("n0")])
    NodeEventHandler(placement).apply("MODIFIED", gpu_node("odd"))
    assert placement.ledger.booking("uid-good") is not None, "one pod hides all the others"
    assert placement.ledger.free(("n0", "0")) == 32768 - 4096, "one node hides all the others"
    assert len(placement.problems()) == 2, "and nobody is told"


def _odd(version: int, **metadata: Any) -> dict[str, Any]:
    """A bound pod whose containers no reader expects."""
    raw = gpu_pod("odd", node="n0", gpu="0")
    raw["spec"]["containers"] = ["model"]
    raw["metadata"] |= {"resourceVersion": str(version), **metadata}
    return raw


def test_the_operator_counts_a_bound_pod_that_it_cannot_read_and_reports_it_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    cache = Cache()
    with caplog.at_level(logging.WARNING):
        for version in (1, 2, 3):
            cache.pods.put(_odd(version))
    (fact,) = cache.pods
    assert (fact.node, fact.gpus_unknown, fact.unread is not None) == ("n0", True, True), "its GPU looks free"
    assert len(caplog.records) == 1
    assert "odd cannot be read" in caplog.messages[0]
    cache.pods.drop(_odd(4))
    assert list(cache.pods) == []


def test_a_node_that_cannot_be_read_offers_nothing_to_the_operator_any_more() -> None:
    cache = Cache()
    good = gpu_node("n0") | {"status": {"allocatable": {"cpu": "8"}}}
    good["metadata"]["resourceVersion"] = "1"
    cache.nodes.put(good)
    assert [node.name for node in cache.nodes] == ["n0"]
    spoilt = gpu_node("n0") | {"status": {"allocatable": {"cpu": "lots"}}}
    spoilt["metadata"]["resourceVersion"] = "2"
    cache.nodes.put(spoilt)
    assert list(cache.nodes) == []
