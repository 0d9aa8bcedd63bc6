"""GPUs that NVIDIA's plugin cuts or shares, or that its DRA driver offers, are refused with words; whole ones are ours.

Label sets by source: `lm` is NVIDIA/k8s-device-plugin, internal/lm/mig-strategy_test.go and resource_test.go, what GPU
Feature Discovery itself is tested for; `docs` is NVIDIA's GPU operator, "Time-slicing" and "MPS" (a node of four Tesla
T4); `node` are labels of nodes that people have published.
"""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest

from hetserve.api import names
from hetserve.base.units import Seconds
from hetserve.placement.decision.explain import explain
from hetserve.placement.decision.wording import texts_by_node
from hetserve.placement.event_handlers import NodeEventHandler, PodEventHandler, ResourceSliceEventHandler
from hetserve.placement.ledger.bookings import LedgerError
from hetserve.placement.ledger.inventory import parse_node
from hetserve.placement.ledger.problems import problem_lines
from hetserve.placement.log.journal import JournaledPlacer, plain
from hetserve.placement.log.replay import replay
from hetserve.placement.placer import Mode, Placer
from hetserve.placement.pods.view import parse_pod
from testing.cluster import gpu_node, gpu_pod

Json = dict[str, Any]
Labels = dict[str, str]


def gpu(product: str, count: int, memory: int, **more: str | int) -> Labels:
    """Labels below nvidia.com/gpu, as GPU Feature Discovery writes them; `_` is a dot, `__` a dash."""
    found = {"product": product, "count": count, "memory": memory, **more}
    return {f"nvidia.com/gpu.{key.replace('__', '-').replace('_', '.')}": str(value) for key, value in found.items()}


def mig(strategy: str, **profiles: int) -> Labels:
    counts = {f"nvidia.com/mig-{name}.count": str(count) for name, count in profiles.items()}
    return {"nvidia.com/mig.strategy": strategy, "nvidia.com/mig.capable": "true", **counts}


WHOLE: dict[str, tuple[Labels, int]] = {
    "lm: one whole GPU": (gpu("MOCKMODEL", 1, 300, replicas=1, family="ampere", compute_major=8), 1),
    "lm: strategy single and MIG off": ({**gpu("MOCKMODEL", 2, 300, replicas=1), **mig("single")}, 2),
    "node: Quadro P400 of a GPU operator": (
        {
            **gpu("Quadro-P400", 1, 2048, replicas=1, sharing__strategy="none", machine="Precision-3450"),
            "nvidia.com/mig.capable": "false",
            "nvidia.com/mig.strategy": "single",
            "nvidia.com/mps.capable": "false",
        },
        1,
    ),
    "before replicas were labelled": (gpu("Tesla-V100-PCIE-32GB", 8, 32510, machine="DGX-1"), 8),
    "strategy mixed and MIG off": ({**gpu("NVIDIA-A100-SXM4-40GB", 8, 40960, replicas=1), **mig("mixed")}, 8),
}
"""Label sets of whole GPUs, and how many."""

SHARED_WORDS = (
    "NVIDIA's device plugin gives each GPU to several pods; take the sharing out of the plugin's configuration here"
)
CUT_WORDS = (
    "its GPUs are cut by MIG, and no label names the parts; switch MIG off, or list the parts in the annotation"
    " hetserve.io/gpus"
)
SHARED: dict[str, tuple[Labels, Labels, str]] = {
    "docs: MPS": (
        gpu("Tesla-T4-SHARED", 4, 15360, replicas=4, sharing__strategy="mps"),
        {"nvidia.com/gpu": "16"},
        "label nvidia.com/gpu.sharing-strategy: 'mps'",
    ),
    "docs: MPS, renamed": (
        gpu("Tesla-T4", 4, 15360, replicas=4, sharing__strategy="mps"),
        {"nvidia.com/gpu.shared": "16", "nvidia.com/gpu": "0"},
        "label nvidia.com/gpu.sharing-strategy: 'mps'",
    ),
    "node: H100 NVL in five slices": (
        {
            **gpu("NVIDIA-H100-NVL-SHARED", 1, 95830, replicas=5, sharing__strategy="time-slicing"),
            "nvidia.com/mig.capable": "true",
            "nvidia.com/mig.config": "all-disabled",
            "nvidia.com/mig.config.state": "success",
        },
        {"nvidia.com/gpu": "5"},
        "label nvidia.com/gpu.sharing-strategy: 'time-slicing'",
    ),
    "lm: shared, before the strategy was labelled": (
        gpu("MOCKMODEL-SHARED", 2, 300, replicas=2),
        {},
        "label nvidia.com/gpu.replicas: '2'",
    ),
    "lm: renamed, without the suffix": (
        gpu("MOCKMODEL", 1, 300, replicas=2),
        {},
        "label nvidia.com/gpu.replicas: '2'",
    ),
    "lm: a MIG instance that is shared": (
        {**gpu("MOCKMODEL-MIG-1g.300gb-SHARED", 1, 300, replicas=2), **mig("single")},
        {},
        "label nvidia.com/gpu.replicas: '2'",
    ),
    "the suffix alone": (gpu("Tesla-T4-SHARED", 1, 15360), {}, "label nvidia.com/gpu.product: 'Tesla-T4-SHARED'"),
    "the renamed resource alone": (
        gpu("Tesla-T4", 1, 15360),
        {"nvidia.com/gpu.shared": "4"},
        "allocatable nvidia.com/gpu.shared: '4'",
    ),
    "more of the plugin's than GPUs": (
        gpu("Tesla-T4", 1, 15360),
        {"nvidia.com/gpu": "4"},
        "allocatable nvidia.com/gpu: '4' of label nvidia.com/gpu.count: '1'",
    ),
}
CUT: dict[str, tuple[Labels, Labels, str]] = {
    "lm: strategy single": (
        {**gpu("MOCKMODEL-MIG-1g.100gb", 2, 100, replicas=1, slices_gi=1, slices_ci=2), **mig("single")},
        {"nvidia.com/gpu": "2"},
        "label nvidia.com/gpu.product: 'MOCKMODEL-MIG-1g.100gb'",
    ),
    "lm: strategy single, invalid": (
        {**gpu("MOCKMODEL-MIG-INVALID", 0, 0, replicas=0), **mig("single")},
        {},
        "label nvidia.com/gpu.product: 'MOCKMODEL-MIG-INVALID'",
    ),
    "node: strategy mixed, one A100": (
        {**gpu("NVIDIA-A100-SXM4-40GB", 1, 40960), **mig("mixed", **{"1g.5gb": 2, "2g.10gb": 1, "3g.20gb": 1})},
        {},
        "label nvidia.com/mig-1g.5gb.count: '2'",
    ),
    "the plugin's resource alone": (
        gpu("NVIDIA-A100-SXM4-40GB", 1, 40960, replicas=1),
        {"nvidia.com/mig-1g.5gb": "7"},
        "allocatable nvidia.com/mig-1g.5gb: '7'",
    ),
    "lm: strategy none beside MIG": (
        gpu("MOCKMODEL", 2, 300, replicas=0),
        {},
        "label nvidia.com/gpu.replicas: '0'",
    ),
}


def labelled(labels: Labels, allocatable: Labels | None = None, name: str = "n0") -> Json:
    node = {"metadata": {"name": name, "uid": f"uid-{name}", "labels": labels}, "spec": {}}
    return node | {"status": {"allocatable": {"cpu": "8", **(allocatable or {})}}}


def annotated(node: Json, *uuids: str) -> Json:
    listed = [{"uuid": one, "product": "A100-1g.5gb", "memoryMiB": 4864} for one in uuids]
    node["metadata"]["annotations"] = {names.ANNOTATION_NODE_GPUS: json.dumps(listed)}
    return node


@pytest.mark.parametrize("case", WHOLE)
def test_whole_gpus_are_taken_from_the_labels(case: str) -> None:
    labels, count = WHOLE[case]
    node = parse_node(labelled(labels, {"nvidia.com/gpu": str(count)}))
    assert (len(node.gpus), node.problem, node.refused) == (count, None, "")
    assert {(one.product, str(one.memory_mib)) for one in node.gpus} == {
        (labels[names.GFD_PRODUCT], labels[names.GFD_MEMORY])
    }


@pytest.mark.parametrize(
    ("case", "remedy"), [*((case, SHARED_WORDS) for case in SHARED), *((c, CUT_WORDS) for c in CUT)]
)
def test_what_the_plugin_cuts_or_shares_is_refused_by_label_value_and_remedy(case: str, remedy: str) -> None:
    labels, allocatable, words = {**SHARED, **CUT}[case]
    node = parse_node(labelled(labels, allocatable))
    assert node.refused == f"{words}: {remedy}"
    assert node.problem is None


@pytest.mark.parametrize("case", CUT)
def test_parts_that_an_annotation_names_are_ours(case: str) -> None:
    labels, allocatable, _ = CUT[case]
    node = parse_node(annotated(labelled(labels, allocatable), "MIG-1", "MIG-2"))
    assert ([one.id for one in node.gpus], node.refused) == (["MIG-1", "MIG-2"], "")


@pytest.mark.parametrize("case", [case for case in SHARED if case != "more of the plugin's than GPUs"])
def test_an_annotation_does_not_make_shared_gpus_ours(case: str) -> None:
    labels, allocatable, words = SHARED[case]
    assert parse_node(annotated(labelled(labels, allocatable), "GPU-1")).refused.startswith(words)


@pytest.mark.parametrize("text", ["", "x", "-1", "9" * 400, "½"])
def test_odd_amounts_refuse_nothing_that_is_whole(text: str) -> None:
    node = parse_node(labelled(gpu("Tesla-T4", 1, 15360, replicas=1), {"nvidia.com/gpu": text}))
    assert node.refused == ""


def resource_slice(name: str, node: str | None, driver: str = names.DRA_DRIVER, **spec: Any) -> Json:
    """As NVIDIA's driver publishes it, with one of its attributes."""
    device = {"name": "gpu-0", "attributes": {"productName": {"string": "Tesla T4"}}}
    where = {"nodeName": node, "pool": {"name": node, "generation": 1, "resourceSliceCount": 1}} if node else {}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": name, "uid": f"uid-{name}"},
        "spec": {"driver": driver, **where, "devices": [device], **spec},
    }


OFFERED = (
    "ResourceSlice {}: DRA driver gpu.nvidia.com offers the GPUs to ResourceClaims;"
    " take its kubelet plugin off this node"
)


class Scene:
    """Nodes n0 and n1 with two GPUs each."""

    def __init__(self, mode: Mode = Mode.DECIDE, log: list[Any] | None = None) -> None:
        clock, hold = (lambda: Seconds(0.0)), Seconds(30.0)
        self.placer = Placer(clock, hold, mode) if log is None else JournaledPlacer(clock, hold, log.append, mode=mode)
        self.nodes = NodeEventHandler(self.placer)
        self.slices = ResourceSliceEventHandler(self.nodes)
        self.nodes.replace([gpu_node("n0"), gpu_node("n1")])

    def takes(self, node: str) -> bool:
        """What every verb and the explanation say of a pod that waits; nothing is left booked."""
        waiting = gpu_pod("asks", model="asked")
        request = parse_pod(waiting).request
        passed = bool(self.placer.filter(waiting, [node]).passed)
        scored = self.placer.prioritize(waiting, [node])[node] > 0
        self.placer.forget("uid-asks")
        try:
            self.placer.fix_gpus(request, node)
            bound = True
        except LedgerError:
            bound = False
        self.placer.forget("uid-asks")
        fits = any(one.fits for one in explain(self.placer.ledger, request) if one.node == node)
        assert passed == scored == bound == fits, f"filter {passed}, prioritize {scored}, bind {bound}, why {fits}"
        return passed

    def words(self, *offered: str) -> dict[str, str]:
        return texts_by_node(self.placer.filter(gpu_pod("asks"), offered).refusals)


@pytest.mark.parametrize("mode", Mode)
def test_a_node_takes_pods_exactly_while_the_plugin_leaves_its_gpus_whole(mode: Mode) -> None:
    scene = Scene(mode)
    PodEventHandler(scene.placer).apply("ADDED", gpu_pod("early", model="early", node="n0", gpu="0"))
    labels, allocatable, words = SHARED["docs: MPS"]
    scene.nodes.apply("MODIFIED", labelled(labels, allocatable))
    assert not scene.takes("n0")
    assert scene.takes("n1")
    assert scene.words("n0") == {"n0": f"GPUs of n0 are not hetserve's: {words}: {SHARED_WORDS}"}
    assert problem_lines(scene.placer.problems()) == (f"node n0 takes no new pods: {words}: {SHARED_WORDS}",)
    assert {use.open for use in scene.placer.ledger.gpus() if use.node == "n0"} == {False}
    assert scene.placer.ledger.booking("uid-early") is not None, "what was there stays"
    scene.nodes.apply("MODIFIED", gpu_node("n0"))
    assert scene.takes("n0")


@pytest.mark.parametrize("mode", Mode)
def test_a_node_takes_pods_exactly_while_no_slice_offers_its_gpus(mode: Mode) -> None:
    scene = Scene(mode)
    for name in ("s1", "s2"):
        scene.slices.apply("ADDED", resource_slice(name, "n0"))
    assert not scene.takes("n0")
    assert scene.takes("n1")
    assert scene.words("n0") == {"n0": f"GPUs of n0 are not hetserve's: {OFFERED.format('s1 and 1 more')}"}
    scene.slices.apply("DELETED", resource_slice("s1", "n0"))
    assert not scene.takes("n0")
    scene.slices.apply("DELETED", resource_slice("s2", "n0"))
    assert scene.takes("n0")


def test_an_annotation_does_not_make_gpus_of_a_slice_ours() -> None:
    scene = Scene()
    scene.slices.replace([resource_slice("s", "n0")])
    scene.nodes.apply("MODIFIED", annotated(gpu_node("n0"), "GPU-1"))
    assert not scene.takes("n0")


def test_slices_may_be_listed_before_the_nodes_and_nodes_may_come_again() -> None:
    scene = Scene()
    scene.slices.replace([resource_slice("s", "n2")])
    scene.nodes.apply("ADDED", gpu_node("n2"))
    assert not scene.takes("n2")
    scene.nodes.apply("DELETED", gpu_node("n2"))
    scene.nodes.apply("ADDED", gpu_node("n2", uid="another"))
    assert not scene.takes("n2")
    scene.nodes.replace([gpu_node("n2", uid="another")])
    assert not scene.takes("n2")
    scene.slices.replace([])
    assert scene.takes("n2")


@pytest.mark.parametrize(
    ("raw", "closed"),
    [
        (resource_slice("s", "n0", "compute-domain.nvidia.com"), False),
        (resource_slice("s", "n0", "gpu.example.com"), False),
        (resource_slice("s", None, allNodes=True), False),
        (resource_slice("s", None, perDeviceNodeSelection=True, devices=[{"name": "g", "nodeName": "n0"}]), True),
        (resource_slice("s", "n0", devices=None, sharedCounters=[{"name": "gpu-0-counters"}]), True),
        ({"metadata": {"name": "s"}, "spec": "odd"}, False),
        ({"metadata": {"name": "s"}, "spec": {"driver": names.DRA_DRIVER, "devices": ["odd"]}}, False),
        ({"metadata": {"name": "s"}}, False),
    ],
)
def test_only_slices_of_nvidias_gpu_driver_close_the_nodes_that_they_name(raw: Json, *, closed: bool) -> None:
    scene = Scene()
    scene.slices.apply("ADDED", raw)
    assert scene.takes("n0") is not closed
    assert scene.takes("n1")


def test_a_pod_with_a_reservation_does_not_get_a_gpu_that_is_offered_meanwhile() -> None:
    scene = Scene()
    waiting = gpu_pod("asks")
    assert scene.placer.filter(waiting, ["n0"]).passed == ("n0",)
    scene.slices.apply("ADDED", resource_slice("s", "n0"))
    assert scene.placer.ledger.booking("uid-asks") is None
    with pytest.raises(LedgerError, match=r"node n0: GPUs of n0 are not hetserve's: ResourceSlice s: "):
        scene.placer.fix_gpus(parse_pod(waiting).request, "n0")


def test_a_closed_node_that_is_refused_stays_closed_when_the_pod_ends() -> None:
    scene = Scene()
    stranger = gpu_pod("lost", node="n0", gpu="9")
    PodEventHandler(scene.placer).apply("ADDED", stranger)
    scene.slices.apply("ADDED", resource_slice("s", "n0"))
    assert not scene.takes("n0")
    PodEventHandler(scene.placer).apply("DELETED", stranger)
    assert not scene.takes("n0")
    assert scene.placer.ledger.index.open.tolist() == [False, False, True, True]


def test_equal_refusals_share_their_words_and_name_the_first_nodes() -> None:
    scene = Scene()
    labels, _, words = SHARED["the suffix alone"]
    many = [f"n{number}" for number in range(5)]
    scene.nodes.replace([labelled(labels, name=name) for name in many])
    assert set(scene.words(*reversed(many)).values()) == {
        f"GPUs of n0, n1, n2 and 2 more are not hetserve's: {words}: {SHARED_WORDS}"
    }


def test_a_node_without_gpus_of_ours_says_who_offers_them_too() -> None:
    scene = Scene()
    scene.nodes.apply("ADDED", {"metadata": {"name": "n2", "uid": "u"}, "spec": {}, "status": {}})
    assert scene.words("n2") == {"n2": "no GPU on the node"}
    scene.slices.apply("ADDED", resource_slice("s", "n2"))
    assert "ResourceSlice s" in scene.words("n2")["n2"]


def test_each_gpu_says_why_it_is_not_ours() -> None:
    scene = Scene()
    scene.slices.apply("ADDED", resource_slice("s", "n0"))
    said = [why.text for one in explain(scene.placer.ledger, parse_pod(gpu_pod()).request) for why in one.reasons]
    assert said == [f"is not hetserve's: {OFFERED.format('s')}"] * 2


def test_a_waiting_pod_is_told_of_a_node_that_opens(caplog: pytest.LogCaptureFixture) -> None:
    scene, heard = Scene(), []
    scene.placer.on_change = lambda: heard.append(1)
    with caplog.at_level(logging.WARNING):
        scene.slices.apply("ADDED", resource_slice("s", "n0"))
        scene.slices.apply("MODIFIED", resource_slice("s", "n0"))
    assert [record.getMessage() for record in caplog.records] == [f"node n0 takes no new pods: {OFFERED.format('s')}"]
    scene.slices.apply("DELETED", resource_slice("s", "n0"))
    assert len(heard) == 2, "once when it closes, once when it opens"


def test_the_placement_log_of_refused_nodes_is_played_again() -> None:
    log: list[Any] = []
    scene = Scene(log=log)
    header = scene.placer.header(0.0)  # type: ignore[attr-defined]
    scene.slices.apply("ADDED", resource_slice("s", "n0"))
    scene.nodes.apply("MODIFIED", labelled(SHARED["docs: MPS"][0], name="n1"))
    assert not scene.placer.filter(gpu_pod("asks"), ["n1", "n0"]).passed
    assert replay([json.loads(json.dumps(plain(record))) for record in (header, *log)]).difference is None


def offering(given: str, count: int = 8, **annotations: str) -> Json:
    """A node of whose GPUs the plugin offers so many."""
    node = gpu_node(gpus=count)
    node["status"]["allocatable"] = {"nvidia.com/gpu": given}
    node["metadata"].setdefault("annotations", {}).update(annotations)
    return node


def test_fewer_gpus_of_the_plugin_than_there_are_is_told_with_the_remedy() -> None:
    """NVIDIA's plugin takes a broken one back, and says not which: a pod may be bound to it."""
    placer = Placer(lambda: Seconds(0.0), Seconds(60.0))
    nodes = NodeEventHandler(placer)
    nodes.replace([offering("7")])
    (line,) = problem_lines(placer.ledger.problems())
    assert line.startswith("node n0: allocatable nvidia.com/gpu: '7' of label nvidia.com/gpu.count: '8': ")
    assert 'list the GPUs in the annotation hetserve.io/gpus, with "healthy": false' in line
    nodes.apply("MODIFIED", offering("8"))
    assert placer.ledger.problems() == ()


@pytest.mark.parametrize("node", [offering("0"), offering("8"), gpu_node(gpus=8), offering("x")], ids=str)
def test_where_the_plugin_offers_all_or_none_nothing_is_missing(node: Json) -> None:
    assert not parse_node(node).missing


def test_gpus_that_are_listed_say_themselves_which_are_healthy() -> None:
    listed = json.dumps([{"uuid": "a", "product": "V100", "memoryMiB": 1}])
    assert not parse_node(offering("1", 2, **{names.ANNOTATION_NODE_GPUS: listed})).missing
