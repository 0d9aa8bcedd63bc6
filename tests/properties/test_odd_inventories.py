"""Whatever a node's annotation or labels say, ledger and independent reading agree on which GPUs it has."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hetserve.api import names
from hetserve.base.units import Seconds
from hetserve.placement.event_handlers import NodeEventHandler
from hetserve.placement.ledger.compare import ClusterHoldings, compare
from hetserve.placement.placer import Placer

VALUES: st.SearchStrategy[Any] = st.sampled_from(
    [None, True, 0, 1, -1, 32768, 2**27, 2**27 + 1, 1.5, 1e999, "32768", "", "0", "a b", "a,b", [1], {}]
)
ENTRIES = st.fixed_dictionaries(
    {"uuid": st.sampled_from(["0", "1", "GPU-x"]) | VALUES, "product": st.just("T4") | VALUES},
    optional={"memoryMiB": st.just(1000) | VALUES, "healthy": st.booleans() | VALUES, "colour": VALUES},
)
GOOD = st.builds(
    lambda uuid, mib, healthy: {"uuid": uuid, "product": "T4", "memoryMiB": mib, "healthy": healthy},
    st.sampled_from(["0", "1", "2", "3"]),
    st.integers(1, 2**27),
    st.booleans(),
)
ANNOTATIONS = (
    st.lists(GOOD | ENTRIES | VALUES, max_size=4).map(json.dumps) | VALUES.map(json.dumps) | st.text(max_size=9)
)
NUMBERS = st.sampled_from(["", "0", "1", "3", "-1", "128", "129", "99999999999", "9" * 63, "1e3", "1_0", "x", "\u0663"])
LABELS = st.fixed_dictionaries(
    {}, optional={names.GFD_COUNT: NUMBERS, names.GFD_MEMORY: NUMBERS, names.GFD_PRODUCT: st.just("T4")}
)


def _node(annotation: str | None, labels: dict[str, str]) -> dict[str, Any]:
    annotations = {} if annotation is None else {names.ANNOTATION_NODE_GPUS: annotation}
    return {"metadata": {"name": "n", "uid": "n", "annotations": annotations, "labels": labels}}


@given(annotation=ANNOTATIONS | st.none(), labels=LABELS)
@example(annotation="[" * 100_000, labels={})
@example(annotation=json.dumps([{"uuid": "a\u00a0b", "product": "T4", "memoryMiB": 1}]), labels={})
@example(annotation=json.dumps([{"uuid": str(gpu), "product": "T4", "memoryMiB": 1} for gpu in range(1025)]), labels={})
def test_ledger_and_cluster_have_the_same_gpus(annotation: str | None, labels: dict[str, str]) -> None:
    node = _node(annotation, labels)
    placer = Placer(clock=lambda: Seconds(0.0), hold=Seconds(30.0))
    NodeEventHandler(placer).apply("ADDED", node)
    assert compare(placer.ledger, ClusterHoldings.of([], [node])) == ()


@pytest.mark.parametrize("memory", ["32768", None, 1.5, True, [32768]])
def test_a_slip_in_an_inventory_hides_the_node_even_where_a_pod_holds_a_whole_gpu_of_it(memory: object) -> None:
    """The first slip there is, a quoted number, once ended whoever compared the two."""
    node = _node(json.dumps([{"uuid": "0", "product": "T4", "memoryMiB": memory}]), {})
    pod = {
        "metadata": {"name": "p", "namespace": "d", "uid": "p", "annotations": {names.ANNOTATION_GPU: "0"}},
        "spec": {"nodeName": "n", "containers": [{"resources": {"limits": {names.RESOURCE_GPU: "1"}}}]},
    }
    placer = Placer(clock=lambda: Seconds(0.0), hold=Seconds(30.0))
    NodeEventHandler(placer).apply("ADDED", node)
    placer.observe(pod)
    assert compare(placer.ledger, ClusterHoldings.of([pod], [node])) == ()
