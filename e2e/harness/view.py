"""Queries of scenarios; `gpu_holders` shares no code with the ledger."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import Any

import httpx

from harness import limits
from harness.kube import Kube, Manifest
from harness.ports import Ports
from harness.waiting import Unmet, wait_until
from hetserve.api.names import (
    ANNOTATION_GPU,
    ANNOTATION_GPU_COMPUTE,
    ANNOTATION_GPU_MEMORY,
    ANNOTATION_GPU_SHARING,
    LABEL_MODEL,
    LABEL_SERVICE,
)
from hetserve.objects.gpu_sharing import SharingTerms, Tenant, parse_terms

FINISHED = ("Succeeded", "Failed")


@dataclass(frozen=True, slots=True)
class GpuHolder:
    """MiB that a bound pod holds on one GPU. compute: percent; None: it declares none. terms: on which it shares."""

    pod: str
    namespace: str
    model: str
    mib: int
    compute: int | None = None
    terms: SharingTerms | None = None

    @property
    def tenant(self) -> Tenant | None:
        return None if self.terms is None else Tenant(self.namespace, self.model or None, self.terms)


@dataclass(frozen=True, slots=True)
class StatusCondition:
    type: str
    status: str
    reason: str
    message: str

    def __str__(self) -> str:
        return f"{self.type}={self.status} {self.reason}: {self.message}"


class ClusterViews:
    """Queries to a running cluster."""

    def __init__(self, kube: Kube, ports: Ports) -> None:
        self.kube = kube
        self.ports = ports

    def get(self, kind: str, name: str, namespace: str | None = None) -> Manifest:
        return self.kube.get(kind, name, namespace)

    def pods(self, namespace: str | None = None, labels: str = "") -> list[Manifest]:
        """By name; without a namespace, all."""
        return self.kube.list("pods", namespace, labels=labels)

    def service_pods(self, service: str, namespace: str) -> list[Manifest]:
        return self.pods(namespace, f"{LABEL_SERVICE}={service}")

    def events(self, namespace: str, name: str = "", reason: str = "") -> list[Manifest]:
        """Events about `name` with this reason; empty: any."""
        return [
            event
            for event in self.kube.list("events", namespace)
            if (not name or event["involvedObject"]["name"] == name) and (not reason or event.get("reason") == reason)
        ]

    def conditions(self, kind: str, name: str, namespace: str | None = None) -> dict[str, StatusCondition]:
        """By type; empty if absent."""
        found = self.kube.find(kind, name, namespace) or {}
        return {
            raw["type"]: StatusCondition(raw["type"], raw["status"], raw.get("reason", ""), raw.get("message", ""))
            for raw in found.get("status", {}).get("conditions") or []
        }

    def wait_for_condition(
        self,
        kind: str,
        name: str,
        namespace: str | None,
        condition: str,
        *,
        status: str = "True",
        reason: str = "",
        timeout: float = limits.ROLLOUT,
    ) -> StatusCondition:
        """Waits until the condition has this status (and reason) for the current generation: once that is planned."""

        def holds() -> StatusCondition | Unmet:
            found = self.kube.find(kind, name, namespace) or {}
            seen = self.conditions(kind, name, namespace) if found else {}
            observed = found.get("status", {}).get("observedGeneration")
            current = observed is None or observed == found["metadata"]["generation"]
            now = seen.get(condition)
            if now and current and now.status == status and reason in ("", now.reason):
                return now
            return Unmet([str(c) for c in seen.values()] or f"{kind} {name} has no conditions")

        return wait_until(holds, timeout, f"{condition}={status} {reason} of {kind} {name}".strip())

    def wait_ready(self, service: str, namespace: str, timeout: float = limits.ROLLOUT) -> Manifest:
        self.wait_for_condition("hisvc", service, namespace, "Ready", timeout=timeout)
        return self.kube.get("hisvc", service, namespace)

    def gpu_holders(self) -> dict[tuple[str, str], list[GpuHolder]]:
        """(node name, GPU id) -> holders, from the annotations of bound pods; terminating ones hold."""
        holders: dict[tuple[str, str], list[GpuHolder]] = defaultdict(list)
        for pod in self.pods():
            metadata, node = pod["metadata"], pod["spec"].get("nodeName")
            gpu = metadata.get("annotations", {}).get(ANNOTATION_GPU)
            if not node or gpu is None or pod["status"].get("phase") in FINISHED:
                continue
            ids, amounts = gpu.split(","), metadata["annotations"][ANNOTATION_GPU_MEMORY].split(",")
            percents = _percents(metadata["annotations"].get(ANNOTATION_GPU_COMPUTE), len(ids))
            model = metadata.get("labels", {}).get(LABEL_MODEL, "")
            terms = _terms(metadata["annotations"].get(ANNOTATION_GPU_SHARING))
            for id_, mib, compute in zip(ids, amounts, percents, strict=True):
                held = GpuHolder(metadata["name"], metadata["namespace"], model, int(mib), compute, terms)
                holders[node, id_].append(held)
        return dict(sorted(holders.items()))

    def gpu_used(self) -> dict[tuple[str, str], int]:
        """MiB per (node name, GPU id)."""
        return {gpu: sum(holder.mib for holder in held) for gpu, held in self.gpu_holders().items()}

    def ledger(self) -> Any:
        """`GET /ledger`."""
        return self.probe(self.ports.extender_probe, "/ledger").json()

    def extender(self, path: str) -> httpx.Response:
        """GET on the extender's probe port."""
        return self.probe(self.ports.extender_probe, path)

    def operator(self, path: str) -> httpx.Response:
        """GET on the operator's probe port."""
        return self.probe(self.ports.operator_probe, path)

    @staticmethod
    def probe(port: int, path: str, token: str = "") -> httpx.Response:
        """token: shown as the bearer's; empty: none."""
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        return httpx.get(f"http://127.0.0.1:{port}{path}", headers=headers, timeout=limits.ANSWER, trust_env=False)


def _terms(text: str | None) -> SharingTerms | None:
    """Terms of a pod; None: it has none, or none that can be read."""
    try:
        return None if text is None else parse_terms(text)
    except ValueError:
        return None


def _percents(annotation: str | None, gpus: int) -> list[int | None]:
    return [None] * gpus if annotation is None else [int(text) for text in annotation.split(",")]
