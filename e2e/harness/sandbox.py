"""One test's nodes, types, profiles, services and pods on the shared cluster.

Cluster-scoped names contain the test's namespace, as do GPU products.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from harness import limits
from harness.cluster import Cluster
from harness.kube import Manifest
from harness.nodes import INSTANCE_TYPE_LABEL, Gpus, NodeGroup
from harness.waiting import Unmet, wait_until
from hetserve.api.names import (
    ANNOTATION_GPU_PRODUCT,
    LABEL_MODEL,
    QUEUE_GATE,
    RESOURCE_GPU_MEMORY,
    SCHEDULER_NAME,
)
from testing import builders

GPU_MIB: Final = 16384
Overrides = Mapping[str, Any]


class Sandbox:
    """`cleared` removes the cluster-scoped objects."""

    def __init__(self, cluster: Cluster, namespace: str) -> None:
        self.cluster = cluster
        self.kube = cluster.kube
        self.namespace = namespace
        self._groups: list[NodeGroup] = []
        self._types: list[str] = []

    @classmethod
    @contextmanager
    def cleared(cls, cluster: Cluster, namespace: str) -> Iterator[Sandbox]:
        """Removes services, types and nodes after the block."""
        sandbox = cls(cluster, namespace)
        try:
            yield sandbox
        finally:
            sandbox.clear()

    def clear(self) -> None:
        for kind in ("inferenceservices", "deployments"):
            for item in self.kube.list(kind, self.namespace):
                self.kube.delete(kind, item["metadata"]["name"], self.namespace)
        self.cluster.launch_at_once(*self._types)
        for name in self._types:
            self.kube.delete("instancetypes", name)
        self.wait_for_pods_gone()
        self.cluster.remove_nodes(*self._groups)

    # Hardware

    def scoped(self, name: str) -> str:
        """Cluster-wide name."""
        return f"{name}-{self.namespace}"[:63].rstrip("-.")

    def nodes(
        self, name: str, count: int, gpus: int = 0, *, cpu: str = "16", mib: int = GPU_MIB, pods: int = 110
    ) -> NodeGroup:
        """`count` nodes of the scoped type `name`, each with `gpus` GPUs of `mib` MiB, for `pods` pods."""
        kind = self.scoped(name)
        of = Gpus(self.product(name), mib, gpus) if gpus else None
        group = NodeGroup(kind[:50].rstrip("-."), kind, count, cpu=cpu, memory="64Gi", gpus=of, pods=pods)
        self._groups.append(group)
        self.cluster.add_nodes(group)
        return group

    def product(self, name: str) -> str:
        return f"Test-{self.scoped(name)}"[:63].rstrip("-.")

    def instance_type(self, name: str, *, gpu: bool = True, overrides: Overrides | None = None) -> str:
        """Applies the InstanceType of the nodes `name`; returns its name."""
        kind = self.scoped(name)
        self._types.append(kind)
        spec: dict[str, Any] = {
            "spec.nodeSelector": {INSTANCE_TYPE_LABEL: kind},
            "spec.resources": {"cpu": "1", "memory": "1Gi"},
            "spec.gpu": {"product": self.product(name), "memory": f"{GPU_MIB}Mi"} if gpu else builders.REMOVED,
        }
        self.cluster.apply(builders.instance_type(kind, spec | dict(overrides or {})))
        return kind

    def play_launch_times(self, *, scale: float = 1.0, jitter: float = 0.0, drain: bool = False) -> None:
        """From now on pods of the types applied so far are Ready after their launch times (`stages.launch_stages`)."""
        self.cluster.play_launch_times(*self._types, scale=scale, jitter=jitter, drain=drain)

    # Models and services

    def profile(self, model: str, kind: str, *, seconds: float = 0.1, overrides: Overrides | None = None) -> None:
        """Applies a profile with equal latency for every batch."""
        spec = {
            "metadata.namespace": self.namespace,
            "spec.model": model,
            "spec.instanceType": kind,
            "spec.latency": {"linear": {"intercept": f"{seconds * 1e3:g}ms", "slope": "0ms"}},
        }
        self.cluster.apply(builders.model_profile(f"{model}-{kind}"[:63].rstrip("-."), spec | dict(overrides or {})))

    def service(self, name: str, model: str, kinds: list[str], overrides: Overrides | None = None) -> Manifest:
        """Applies a MinCost service; 10 q/s per instance, 80 % used, by planner ilp: its counts are easy to foresee."""
        spec = {
            "metadata.namespace": self.namespace,
            "spec.model.name": model,
            "spec.objective": "MinCost",
            "spec.planner": "ilp",
            "spec.budget": builders.REMOVED,
            "spec.load": {"expectedQPS": 8},
            "spec.instanceTypes": {"names": kinds},
        }
        spec |= dict(overrides or {})
        if spec["spec.objective"] != "MinCost":
            spec["spec.planner"] = builders.REMOVED
        (applied,) = self.cluster.apply(builders.service(name, spec))
        return applied

    def edit(self, name: str, patch: Manifest) -> Manifest:
        return self.kube.patch("inferenceservices", name, patch, self.namespace)

    def ready(self, name: str, timeout: float = limits.ROLLOUT) -> Manifest:
        return self.cluster.wait_ready(name, self.namespace, timeout)

    def counts(self, name: str) -> dict[str, int]:
        """Planned instances by type, without zeros."""
        plan = self.kube.get("inferenceservices", name, self.namespace)["status"]["plan"]
        return {row["instanceType"]: row["count"] for row in plan["counts"] if row["count"]}

    # Plain pods of a user, without any InferenceService

    def deployment(
        self,
        name: str,
        nodes: str,
        replicas: int,
        mib: int,
        *,
        model: str | None,
        gated: bool = True,
        of: Sandbox | None = None,
    ) -> None:
        """Applies a Deployment on nodes of this sandbox, or `of` another; no model: no anti-affinity."""
        place = of or self
        labels = {"app": name} | ({LABEL_MODEL: model} if model else {})
        spec: dict[str, Any] = {
            "schedulerName": SCHEDULER_NAME,
            "nodeSelector": {INSTANCE_TYPE_LABEL: place.scoped(nodes)},
            "terminationGracePeriodSeconds": 1,
            "containers": [
                {"name": "model", "image": "none", "resources": {"limits": {RESOURCE_GPU_MEMORY: str(mib)}}}
            ],
        }
        if gated:
            spec["schedulingGates"] = [{"name": QUEUE_GATE}]
        metadata = {"labels": labels, "annotations": {ANNOTATION_GPU_PRODUCT: place.product(nodes)}}
        self.cluster.apply(
            {
                "apiVersion": "apps/v1",
                "kind": "Deployment",
                "metadata": {"name": name, "namespace": self.namespace},
                "spec": {
                    "replicas": replicas,
                    "selector": {"matchLabels": {"app": name}},
                    "template": {"metadata": metadata, "spec": spec},
                },
            }
        )

    def bound(self, labels: str = "") -> list[Manifest]:
        return [pod for pod in self.cluster.pods(self.namespace, labels) if pod["spec"].get("nodeName")]

    def wait_for_bound(self, count: int, labels: str = "", timeout: float = limits.REACTION) -> list[Manifest]:
        """Waits until exactly `count` pods are bound."""

        def enough() -> list[Manifest] | Unmet:
            bound = self.bound(labels)
            pods = [(p["metadata"]["name"], p["status"]) for p in self.cluster.pods(self.namespace, labels)]
            return bound if len(bound) == count else Unmet(f"{len(bound)} bound of {pods}")

        return wait_until(enough, timeout, f"{count} pods {labels} to be bound")

    def wait_for_refusal(self, words: str, timeout: float = limits.REACTION) -> str:
        """Waits for a FailedScheduling event with `words`; returns its message."""

        def said() -> str | Unmet:
            messages = [str(e.get("message")) for e in self.cluster.events(self.namespace, reason="FailedScheduling")]
            return next((message for message in messages if words in message), None) or Unmet(messages)

        return wait_until(said, timeout, f"a FailedScheduling event with {words!r}")

    def wait_for_pods_gone(self, timeout: float = limits.REACTION) -> None:
        def gone() -> bool | Unmet:
            left = [pod["metadata"]["name"] for pod in self.cluster.pods(self.namespace)]
            return not left or Unmet(left)

        wait_until(gone, timeout, f"the pods of {self.namespace} to be gone")
