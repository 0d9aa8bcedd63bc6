"""Objects of an installation as the chart makes them."""

from __future__ import annotations

from typing import Any

from hetserve.api.names import SYSTEM_NAMESPACE


def labels_of(component: str) -> dict[str, str]:
    return {"app.kubernetes.io/name": "hetserve", "app.kubernetes.io/component": component}


def settings_object(
    component: str,
    text: str,
    *,
    namespace: str = SYSTEM_NAMESPACE,
    prefix: str = "hetserve",
    key: str = "settings.yaml",
) -> dict[str, Any]:
    """The ConfigMap with a component's settings. prefix: what names of the release's objects begin with."""
    metadata = {"name": f"{prefix}-{component}", "namespace": namespace, "labels": labels_of(component)}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {key: text}}


def a_router(name: str, **labels: str) -> dict[str, Any]:
    """A pod of a router, with its probe port."""
    port = {"containers": [{"name": "router", "ports": [{"name": "probes", "containerPort": 9999}]}]}
    found = {**labels_of("router"), **labels}
    return {"metadata": {"namespace": SYSTEM_NAMESPACE, "name": name, "uid": name, "labels": found}, "spec": port}
