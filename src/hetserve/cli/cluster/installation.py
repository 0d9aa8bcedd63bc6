"""Finds an installation of hetserve by the labels of its chart, whatever its release is called."""

from __future__ import annotations

from typing import Any, Final

from hetserve.api.names import SYSTEM_NAMESPACE
from hetserve.base.yaml_loader import contents
from hetserve.cli.cluster.client import ClusterClient, ClusterError, RawObject, namespaced

USUAL: Final = "hetserve"
"""What names of objects begin with unless the chart is told otherwise."""
_FORBIDDEN: Final = 403


def labels_of(component: str) -> str:
    """Selects what the chart makes for a component, such as `extender`."""
    return f"app.kubernetes.io/name=hetserve,app.kubernetes.io/component={component}"


def settings_map(cluster: ClusterClient, namespace: str, component: str) -> RawObject | None:
    """ConfigMap with the settings of a component; None: the namespace holds none. Raises ClusterError."""
    found = cluster.list(namespaced("v1", namespace, "configmaps"), labels=labels_of(component)).items
    return min(found, key=lambda one: str(one["metadata"]["name"])) if found else None


def settings_in(found: RawObject | None, component: str) -> RawObject | None:
    """The mapping in the ConfigMap of a component; None: no ConfigMap, or no mapping in it. Raises yaml.YAMLError."""
    key = "scheduler.yaml" if component == "scheduler" else "settings.yaml"
    documents = contents(((found or {}).get("data") or {}).get(key) or "")
    return documents[0] if len(documents) == 1 and isinstance(documents[0], dict) else None


def system_namespace(cluster: ClusterClient | None, given: str | None) -> str:
    """Namespace of the installation: the one given, else the usual one if it is there, else where it is found.

    cluster: None: nothing is asked. The usual one too where the caller may not look. Raises ClusterError.
    """
    if given is not None or cluster is None:
        return given or SYSTEM_NAMESPACE
    try:
        if settings_map(cluster, SYSTEM_NAMESPACE, "extender") is None:
            found = cluster.list("/api/v1/configmaps", labels=labels_of("extender")).items
            return min((str(one["metadata"]["namespace"]) for one in found), default=SYSTEM_NAMESPACE)
    except ClusterError as error:
        if error.status != _FORBIDDEN:
            raise
    return SYSTEM_NAMESPACE


def name_of(settings: dict[str, Any] | None, component: str) -> str:
    """Name of a component's objects: that of the ConfigMap with its settings; None: the usual one."""
    return f"{USUAL}-{component}" if settings is None else str(settings["metadata"]["name"])
