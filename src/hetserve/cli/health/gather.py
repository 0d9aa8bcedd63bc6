"""Reads the facts of an installation."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, Final, TypeVar
from urllib.parse import quote, urlsplit

import yaml

from hetserve.api import names
from hetserve.api.crd import render_crd
from hetserve.api.kinds import KINDS
from hetserve.base.units import Seconds, parse_duration
from hetserve.base.yaml_loader import contents
from hetserve.cli.cluster.client import UNFINISHED_PODS, ClusterClient, ClusterError, RawObject
from hetserve.cli.cluster.installation import name_of, settings_map
from hetserve.cli.cluster.snapshot import NODES, PODS
from hetserve.cli.health.facts import (
    ComponentFact,
    CrdFact,
    DeploymentFact,
    Facts,
    FailedPods,
    LeaseFact,
    NodesFact,
    SchedulerFact,
    Unread,
)
from hetserve.cli.health.rights import missing_of_caller, missing_of_components
from hetserve.cli.health.schema import differences

COMPONENTS: Final = ("operator", "extender")
SCHEDULER: Final = "scheduler"
_CRDS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_BINDINGS: Final = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings"
_DEFAULT_LEASE: Final = "3s"
_PLUGIN_GPU: Final = "nvidia.com/gpu"
_SERVICE_HOST: Final = re.compile(r"([a-z0-9-]+)\.([a-z0-9-]+)\.svc(\..*)?")
_FORBIDDEN: Final = 403
_Fact = TypeVar("_Fact")


def gather(cluster: ClusterClient, namespace: str) -> Facts:
    """Facts of the installation in a namespace.

    What the caller may not read is Unread. Raises ClusterError if the API server cannot be reached or does not know the
    caller.
    """
    components = tuple(_component(cluster, namespace, component) for component in COMPONENTS)
    asking = not all(one.open for one in components)
    return Facts(
        namespace=namespace,
        version=version_of(cluster.get("/version")),
        crds=_read(lambda: {resource.plural: _crd(cluster, resource) for resource in KINDS}),
        components=components,
        scheduler=_read(lambda: _scheduler(cluster, namespace)),
        failed=_read(lambda: _failed(cluster)),
        nodes=_read(lambda: _nodes(cluster)),
        own=tuple(missing_of_caller(cluster)),
        missing_rights=_read(
            lambda: tuple(missing_of_components(cluster, namespace, _prefix(components), asking=asking))
        ),
        policies=_read(lambda: _policies(cluster)),
    )


def _read(fact: Callable[[], _Fact]) -> _Fact | Unread:
    try:
        return fact()
    except ClusterError as error:
        if error.status != _FORBIDDEN:
            raise
        return Unread(error.message)


def version_of(raw: Mapping[str, Any]) -> tuple[int, int, str]:
    """(major, minor, words) of /version; a minor such as 35+ is 35. Unreadable numbers are 0."""
    digits = [re.match(r"\d+", str(raw.get(key) or "")) for key in ("major", "minor")]
    major, minor = (int(found.group()) if found else 0 for found in digits)
    return major, minor, str(raw.get("gitVersion") or "of an unknown version")


def _crd(cluster: ClusterClient, resource: Any) -> CrdFact | None:
    found = cluster.find(f"{_CRDS}/{resource.plural}.{names.GROUP}")
    if found is None:
        return None
    conditions = (found.get("status") or {}).get("conditions") or ()
    established = any(one.get("type") == "Established" and one.get("status") == "True" for one in conditions)
    return CrdFact(established, differences(found, render_crd(resource)))


def _prefix(components: tuple[ComponentFact, ...]) -> str:
    """What the names of the installation's objects begin with."""
    return components[0].name.removesuffix(f"-{COMPONENTS[0]}")


def _settings(found: RawObject | None, key: str = "settings.yaml") -> RawObject | None:
    """The mapping in a ConfigMap's key; None: no ConfigMap, or no mapping in it."""
    if found is None:
        return None
    try:
        documents = contents((found.get("data") or {}).get(key) or "")
    except yaml.YAMLError:
        return None
    return documents[0] if len(documents) == 1 and isinstance(documents[0], dict) else None


def _component(cluster: ClusterClient, namespace: str, component: str) -> ComponentFact:
    found = _read(lambda: settings_map(cluster, namespace, component))
    name = name_of(None if isinstance(found, Unread) else found, component)
    settings = found if isinstance(found, Unread) else _settings(found)
    election = (settings.get("leaderElection") or {}) if isinstance(settings, dict) else {}
    return ComponentFact(
        name,
        settings if isinstance(settings, Unread) else settings is not None,
        elects=bool(election.get("enabled", True)),
        lease=_read(lambda: _lease(cluster, namespace, str(election.get("leaseName") or name))),
        deployment=_read(lambda: _deployment(cluster, namespace, name)),
        open=isinstance(settings, dict) and settings.get("probeAuthorization", "none") == "none",
    )


def _lease(cluster: ClusterClient, namespace: str, name: str) -> LeaseFact | None:
    path = f"/apis/coordination.k8s.io/v1/namespaces/{quote(namespace, safe='')}/leases/{quote(name, safe='')}"
    found = cluster.find(path)
    if found is None:
        return None
    spec = found.get("spec") or {}
    renewed = spec.get("renewTime")
    silent = Seconds(cluster.time() - datetime.fromisoformat(renewed).timestamp()) if renewed else Seconds(0.0)
    duration = spec.get("leaseDurationSeconds")
    return LeaseFact(
        str(spec.get("holderIdentity") or ""),
        Seconds(max(silent, 0.0)),
        parse_duration(_DEFAULT_LEASE) if duration is None else Seconds(float(duration)),
    )


def _deployment(cluster: ClusterClient, namespace: str, name: str) -> DeploymentFact | None:
    found = cluster.find(f"/apis/apps/v1/namespaces/{quote(namespace, safe='')}/deployments/{name}")
    if found is None:
        return None
    replicas = (found.get("spec") or {}).get("replicas")
    ready = (found.get("status") or {}).get("readyReplicas")
    return DeploymentFact(1 if replicas is None else int(replicas), int(ready or 0))


def _scheduler(cluster: ClusterClient, namespace: str) -> SchedulerFact | None:
    config = _settings(settings_map(cluster, namespace, SCHEDULER), "scheduler.yaml")
    if config is None:
        return None
    profiles = tuple(str(one.get("schedulerName")) for one in config.get("profiles") or ())
    ours = next((one for one in config.get("extenders") or () if _manages(one)), None)
    if ours is None:
        return SchedulerFact(None, ignorable=False, names=profiles, endpoints=None)
    url = str(ours.get("urlPrefix"))
    endpoints = _read(lambda: _endpoints(cluster, url))
    return SchedulerFact(url, ignorable=bool(ours.get("ignorable")), names=profiles, endpoints=endpoints)


def _manages(extender: Mapping[str, Any]) -> bool:
    return any(one.get("name") == names.RESOURCE_GPU_MEMORY for one in extender.get("managedResources") or ())


def _endpoints(cluster: ClusterClient, url: str) -> int | None:
    """Ready addresses of the Service of a URL; None: it is no Service's."""
    service = _SERVICE_HOST.fullmatch(urlsplit(url).hostname or "")
    if service is None:
        return None
    path = f"/apis/discovery.k8s.io/v1/namespaces/{service[2]}/endpointslices"
    slices = cluster.list(path, labels=f"kubernetes.io/service-name={service[1]}").items
    ends = [end for one in slices for end in one.get("endpoints") or ()]
    # Absent means ready, as the API says.
    return sum(len(end.get("addresses") or ()) for end in ends if (end.get("conditions") or {}).get("ready", True))


def _failed(cluster: ClusterClient) -> FailedPods:
    def failed(raw: RawObject) -> RawObject | None:
        spec = raw.get("spec") or {}
        if spec.get("schedulerName") != names.SCHEDULER_NAME or spec.get("nodeName"):
            return None
        for one in (raw.get("status") or {}).get("conditions") or ():
            if (one.get("type"), one.get("status"), one.get("reason")) == ("PodScheduled", "False", "SchedulerError"):
                metadata = raw["metadata"]
                return {"name": f"{metadata['namespace']}/{metadata['name']}", "message": str(one.get("message"))}
        return None

    found = sorted(cluster.list(PODS, UNFINISHED_PODS, keep=failed).items, key=lambda one: str(one["name"]))
    return FailedPods(len(found), found[0]["name"], found[0]["message"]) if found else FailedPods(0)


def _nodes(cluster: ClusterClient) -> NodesFact:
    from hetserve.placement import parse_node  # noqa: PLC0415

    def reduced(raw: RawObject) -> RawObject:
        inventory = parse_node(raw)
        plugin = str(((raw.get("status") or {}).get("capacity") or {}).get(_PLUGIN_GPU, "0")) != "0"
        return {"name": inventory.name, "gpus": len(inventory.gpus), "problem": inventory.problem, "plugin": plugin}

    nodes = sorted(cluster.list(NODES, keep=reduced).items, key=lambda one: str(one["name"]))
    return NodesFact(
        len(nodes),
        sum(one["gpus"] for one in nodes),
        tuple(one["problem"] for one in nodes if one["problem"]),
        tuple(one["name"] for one in nodes if one["plugin"] and not one["gpus"] and not one["problem"]),
    )


def _policies(cluster: ClusterClient) -> tuple[str, ...]:
    """A policy without its binding, which has its name, refuses nothing."""
    bound = {str(one["metadata"]["name"]) for one in cluster.list(_BINDINGS).items}
    return tuple(name for name in names.ADMISSION_POLICIES if name in bound)
