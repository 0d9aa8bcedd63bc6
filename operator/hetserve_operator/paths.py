"""Paths of the objects that the operator reads and writes; names are quoted whole."""

from __future__ import annotations

from urllib.parse import quote

from hetserve.api.kinds import INFERENCE_SERVICE


def service_path(namespace: str, name: str) -> str:
    """Path of an InferenceService."""
    return INFERENCE_SERVICE.path(namespace, name)


def deployments_path(namespace: str, name: str | None = None) -> str:
    """Path of a namespace's Deployments, or of one."""
    folder = f"/apis/apps/v1/namespaces/{_safe(namespace)}/deployments"
    return folder if name is None else f"{folder}/{_safe(name)}"


def replica_sets_path(namespace: str, name: str | None = None) -> str:
    """Path of a namespace's ReplicaSets, or of one."""
    folder = f"/apis/apps/v1/namespaces/{_safe(namespace)}/replicasets"
    return folder if name is None else f"{folder}/{_safe(name)}"


def pods_path(namespace: str) -> str:
    """Path of a namespace's pods."""
    return f"/api/v1/namespaces/{_safe(namespace)}/pods"


def config_map_path(namespace: str, name: str) -> str:
    """Path of a ConfigMap."""
    return f"/api/v1/namespaces/{_safe(namespace)}/configmaps/{_safe(name)}"


def lease_path(namespace: str, name: str) -> str:
    """Path of a Lease."""
    return f"/apis/coordination.k8s.io/v1/namespaces/{_safe(namespace)}/leases/{_safe(name)}"


def _safe(text: str) -> str:
    return quote(text, safe="")
