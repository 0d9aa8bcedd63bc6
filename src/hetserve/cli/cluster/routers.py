"""What the leaders of an installation's routers show on their probe ports."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final

from hetserve.cli.cluster.client import ClusterClient, ClusterError, RawObject, namespaced
from hetserve.cli.cluster.extender import labels_of, shown_by_pod, shown_text

ROUTER: Final = "router"
"""The component, as the chart labels it."""
LEADS: Final = "hetserve.io/leads."
"""What the label of a pod that leads begins with."""
PROBE_PORT: Final = 8891
Json = dict[str, Any]


def leaders(cluster: ClusterClient, namespace: str) -> list[RawObject]:
    """Pods of routers that lead. Raises ClusterError."""
    pods = cluster.list(namespaced("v1", namespace, "pods"), labels=labels_of(ROUTER)).items
    return [pod for pod in pods if any(label.startswith(LEADS) for label in pod["metadata"]["labels"])]


def shown_by_leaders(cluster: ClusterClient, namespace: str, path: str) -> list[Json]:
    """The JSON lines of all routers at a path. namespace: of hetserve. Raises ClusterError, also if none leads."""
    leading = leaders(cluster, namespace)
    if not leading:
        raise ClusterError(f"no router leads in namespace {namespace}")
    found = []
    for pod in leading:
        name = str(pod["metadata"]["name"])
        text = shown_by_pod(cluster, (namespace, name), _probe_port(pod), path).decode("utf-8", "replace")
        found += _lines(text, f"pod {name}")
    return found


def shown_by_router(url: str, path: str, token: Callable[[], str]) -> list[Json]:
    """The JSON lines of a process at a path. url: of its probe port; token: for one that asks. Raises ClusterError."""
    return _lines(shown_text(f"{url.rstrip('/')}{path}", token), url)


def _lines(text: str, where: str) -> list[Json]:
    try:
        found = [json.loads(line) for line in text.splitlines()]
    except ValueError as error:
        raise ClusterError(f"{where}: is no probe port of a router: {error}") from None
    return found


def _probe_port(pod: RawObject) -> int:
    ports = (port for one in pod["spec"]["containers"] for port in one.get("ports") or ())
    return next((int(port["containerPort"]) for port in ports if port.get("name") == "probes"), PROBE_PORT)
