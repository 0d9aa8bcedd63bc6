"""Promise: pods with terms share a GPU as far as each tolerates all others, and with no other kind; terms stay."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from harness.admission import unlocked
from harness.cluster import Cluster
from harness.kube import ApiError, Manifest
from harness.sandbox import Sandbox
from hetserve.api import names
from hetserve.placement.check import violations
from test_compute_is_booked_beside_memory import pod, reasons, wait_for_names, why

SHARING = names.ANNOTATION_GPU_SHARING
HARSH = "1.9"
"""Factor on all models that are not named: more than is tolerated."""


def paired(sandbox: Sandbox, name: str, *, share: str = "0.5", tolerance: str = "1.75", **factors: str) -> Manifest:
    """A pod with terms, whose model has its name. factors: on other models."""
    terms = {"share": share, "tolerance": tolerance, "factors": {"*": HARSH} | factors}
    made = pod(sandbox, name, 100)
    made["metadata"]["annotations"] = {SHARING: json.dumps(terms), names.ANNOTATION_PLACEMENT_POLICY: "BestFit"}
    return made


@contextmanager
def gpus(cluster: Cluster, namespace: str, count: int) -> Iterator[Sandbox]:
    """One node; its pods are deleted at the end."""
    with Sandbox.cleared(cluster, namespace) as sandbox:
        sandbox.nodes("gpu", count=1, gpus=count)
        try:
            yield sandbox
        finally:
            cluster.kube.delete_all("pods", namespace)


def by_gpu(sandbox: Sandbox) -> list[list[str]]:
    """Names of bound pods, by GPU."""
    found: dict[str, list[str]] = {}
    for one in sandbox.bound():
        found.setdefault(one["metadata"]["annotations"][names.ANNOTATION_GPU], []).append(one["metadata"]["name"])
    return sorted(sorted(held) for held in found.values())


def test_a_pair_that_is_measured_to_fit_shares_and_another_waits_and_is_told_why(
    cluster: Cluster, namespace: str
) -> None:
    with gpus(cluster, namespace, 1) as sandbox:
        cluster.apply([paired(sandbox, "a", b="1.1"), paired(sandbox, "b", a="1.2")], namespace)
        sandbox.wait_for_bound(2)
        assert by_gpu(sandbox) == [["a", "b"]], "by their greatest factors no two of these share"
        assert not violations(cluster.kube.list("pods"), cluster.kube.list("nodes"))
        shown = {one["name"]: one for gpu in cluster.ledger()["gpus"] for one in gpu["pods"] if one["sharing"]}
        assert shown["a"]["sharing"] == {"share": "0.5", "tolerance": "1.75", "slowdown": "1.2"}
        assert shown["b"]["sharing"] == {"share": "0.5", "tolerance": "1.75", "slowdown": "1.1"}

        cluster.apply(paired(sandbox, "c", share="0.1"), namespace)
        message = sandbox.wait_for_refusal("times as long as alone and tolerates 1.75")
        assert "the pod would take 2.8 times" in message
        words = "this pod would take 2.8 times as long as alone and tolerates 1.75"
        assert reasons(why(cluster, namespace, "c")) == [("slowdown", words)]

        cluster.kube.delete("pods", "a", namespace, grace=0)
        cluster.kube.delete("pods", "b", namespace, grace=0)
        wait_for_names(sandbox, {"c"})


def test_an_upgrade_puts_no_pod_with_terms_beside_those_of_before(cluster: Cluster, namespace: str) -> None:
    with gpus(cluster, namespace, 3) as sandbox:
        before = [pod(sandbox, "percent", 40), pod(sandbox, "undeclared")]
        for one in before:
            cluster.apply(one, namespace)
        sandbox.wait_for_bound(2)
        cluster.apply([paired(sandbox, "a", b="1.1"), paired(sandbox, "b", a="1.1")], namespace)
        sandbox.wait_for_bound(4)
        assert by_gpu(sandbox) == [["a", "b"], ["percent"], ["undeclared"]]

        cluster.apply([pod(sandbox, "percent-2", 60), pod(sandbox, "undeclared-2")], namespace)
        sandbox.wait_for_bound(6)
        assert by_gpu(sandbox) == [["a", "b"], ["percent", "percent-2"], ["undeclared", "undeclared-2"]]


def test_who_does_not_know_the_terms_holds_their_gpus_whole(
    cluster: Cluster, namespace: str, components_running: None
) -> None:
    """An extender of before reads pods without the annotation, as here one does that has lost it."""
    with gpus(cluster, namespace, 2) as sandbox:
        cluster.apply([paired(sandbox, "a", b="1.1"), paired(sandbox, "b", a="1.1")], namespace)
        sandbox.wait_for_bound(2)
        assert by_gpu(sandbox) == [["a", "b"]]
        with unlocked(cluster):
            for name in ("a", "b"):
                cluster.kube.patch("pods", name, {"metadata": {"annotations": {SHARING: None}}}, namespace)
        cluster.kill_component("extender")
        cluster.start_component("extender")

        cluster.apply(pod(sandbox, "percent", 10), namespace)
        sandbox.wait_for_bound(3)
        assert by_gpu(sandbox) == [["a", "b"], ["percent"]]
        cluster.kube.delete("pods", "a", namespace, grace=0)
        cluster.apply([pod(sandbox, "undeclared"), paired(sandbox, "c", b="1.1")], namespace)
        sandbox.wait_for_refusal(f"pods that declare {names.RESOURCE_GPU_COMPUTE} are on every GPU with 4096 MiB free")
        sandbox.wait_for_refusal(f"pods that declare no {SHARING} are on every GPU with 4096 MiB free")
        assert by_gpu(sandbox) == [["b"], ["percent"]]


def test_a_killed_extender_comes_back_with_the_terms(
    cluster: Cluster, namespace: str, components_running: None
) -> None:
    with gpus(cluster, namespace, 1) as sandbox:
        cluster.apply([paired(sandbox, "a", b="1.1", c="1.1"), paired(sandbox, "b", a="1.1", c="1.1")], namespace)
        sandbox.wait_for_bound(2)
        cluster.kill_component("extender")
        cluster.start_component("extender")
        cluster.apply([paired(sandbox, "c", a="1.1", b="1.1", share="0.7"), paired(sandbox, "d")], namespace)
        sandbox.wait_for_bound(3)
        sandbox.wait_for_refusal("times as long as alone and tolerates 1.75")
        assert by_gpu(sandbox) == [["a", "b", "c"]]


def test_edited_terms_are_refused_in_words_that_say_what_to_do(cluster: Cluster, namespace: str) -> None:
    with gpus(cluster, namespace, 1) as sandbox:
        cluster.apply([paired(sandbox, "a", b="1.1"), paired(sandbox, "b", a="1.1")], namespace)
        sandbox.wait_for_bound(2)
        wider = paired(sandbox, "a", tolerance="99")["metadata"]["annotations"][SHARING]
        for written in (wider, None, ""):
            with pytest.raises(
                ApiError, match=r"metadata\.annotations: hetserve\.io/gpu-sharing may not become"
            ) as told:
                cluster.kube.patch("pods", "a", {"metadata": {"annotations": {SHARING: written}}}, namespace)
            assert "delete the pod and create it with other terms" in told.value.message
        assert by_gpu(sandbox) == [["a", "b"]]
