"""Reads the components of an installation: settings, Lease, Deployment, and what its pods wait for."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from datetime import datetime
from functools import partial
from typing import Any, Final, TypeVar

import yaml

from hetserve.base.units import Seconds, parse_duration
from hetserve.cli.cluster.client import UNFINISHED_PODS, ClusterClient, ClusterError, RawObject, namespaced
from hetserve.cli.cluster.extender import LEASES, SCHEDULER_LEASE, USUAL, labels_of, name_of, settings_in, settings_map
from hetserve.cli.health.judgement import (
    EXTENDER,
    OPERATOR,
    SCHEDULER,
    ComponentFact,
    DeploymentFact,
    LeaseFact,
    Unread,
    WaitFact,
    workload_of,
)

COMPONENTS: Final = (OPERATOR, EXTENDER, SCHEDULER)
_LABEL_VERSION: Final = "app.kubernetes.io/version"
_VERSION: Final = re.compile(r"v?(\d+\.\d+\.\d+.*)")
_DEFAULT_LEASE: Final = "3s"
_FORBIDDEN: Final = 403
_ORDINARY: Final = ("ContainerCreating", "PodInitializing")
"""Every container waits so for a while: told only where nothing else is."""
_Fact = TypeVar("_Fact")
_Found = RawObject | Unread | None


def read(fact: Callable[[], _Fact]) -> _Fact | Unread:
    """The fact, or why the caller may not read it. Raises ClusterError for everything else."""
    try:
        return fact()
    except ClusterError as error:
        if error.status != _FORBIDDEN:
            raise
        return Unread(error.message)


def components(cluster: ClusterClient, namespace: str) -> tuple[ComponentFact, ...]:
    """Operator, extender and second scheduler, in this order. Raises ClusterError."""
    maps = [(one, read(partial(settings_map, cluster, namespace, one))) for one in COMPONENTS]
    prefix = _prefix(maps)
    return tuple(_component(cluster, namespace, one, found, prefix) for one, found in maps)


def mapping_in(found: RawObject | None, component: str) -> RawObject | None:
    """As `settings_in`; None also for what is no YAML."""
    with suppress(yaml.YAMLError):
        return settings_in(found, component)
    return None


def _prefix(maps: list[tuple[str, _Found]]) -> str:
    """What the names of the installation's objects begin with, by the first ConfigMap that is there."""
    named = (name_of(found, one).removesuffix(f"-{one}") for one, found in maps if isinstance(found, dict))
    return next(named, USUAL)


def _component(cluster: ClusterClient, namespace: str, component: str, found: _Found, prefix: str) -> ComponentFact:
    name = name_of(found, component) if isinstance(found, dict) else f"{prefix}-{component}"
    settings = found if isinstance(found, Unread) else mapping_in(found, component)
    given = settings if isinstance(settings, dict) else None
    elects, *lease = _election(component, given, name, namespace)
    workload = namespaced("apps/v1", namespace, "deployments", workload_of(name, component))
    raw = read(lambda: cluster.find(workload))
    return ComponentFact(
        name,
        component,
        settings if isinstance(settings, Unread) else settings is not None,
        elects=elects,
        lease=read(lambda: _lease(cluster, *lease)) if elects else None,
        deployment=_deployment(cluster, namespace, component, raw) if isinstance(raw, dict) else raw,
        version=_version(component, raw) or _version(component, found),
        # The second scheduler is the stock binary: it always asks who reads its metrics.
        open=component != SCHEDULER and given is not None and given.get("probeAuthorization", "none") == "none",
    )


def _election(component: str, settings: Mapping[str, Any] | None, name: str, namespace: str) -> tuple[bool, str, str]:
    """(whether there is one, name and namespace of its Lease): what settings leave away is the component's default."""
    given = (settings or {}).get("leaderElection") or {}
    if component == SCHEDULER and settings is not None:
        lease = str(given.get("resourceName") or "kube-scheduler")
        where = str(given.get("resourceNamespace") or "kube-system")
        return (bool(given.get("leaderElect", True)), lease, where)
    if component == EXTENDER:  # it leads while its scheduler does
        given = (settings or {}).get("scheduler") or {}
        lease = str(given.get("leaseName", SCHEDULER_LEASE))
        return (bool(lease), lease, str(given.get("leaseNamespace") or namespace))
    where = str(given.get("namespace") or namespace)
    return (bool(given.get("enabled", True)), str(given.get("leaseName") or name), where)


def _lease(cluster: ClusterClient, name: str, namespace: str) -> LeaseFact | None:
    found = cluster.find(namespaced(LEASES, namespace, "leases", name))
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


def _deployment(cluster: ClusterClient, namespace: str, component: str, raw: RawObject) -> DeploymentFact:
    replicas = (raw.get("spec") or {}).get("replicas")
    status = raw.get("status") or {}
    wanted, ready = 1 if replicas is None else int(replicas), int(status.get("readyReplicas") or 0)
    behind = max(wanted - int(status.get("updatedReplicas") or 0), 0)
    # Of a component that is whole nobody asks for the pods: who reads Deployments alone is told that it is.
    whole = ready >= wanted and not behind
    return DeploymentFact(wanted, ready, behind, () if whole else read(lambda: _waits(cluster, namespace, component)))


def _waits(cluster: ClusterClient, namespace: str, component: str) -> tuple[WaitFact, ...]:
    path = namespaced("v1", namespace, "pods")
    workload = SCHEDULER if component == EXTENDER else component
    found = waits(cluster.list(path, UNFINISHED_PODS, labels_of(workload)).items)
    return tuple(one for one in found if one.container in {"", component})


def _version(component: str, found: _Found) -> str:
    """Of hetserve: that of the image where its tag is one, else that of the chart; empty: neither is told."""
    if not isinstance(found, dict):
        return ""
    labelled = str((found["metadata"].get("labels") or {}).get(_LABEL_VERSION) or "")
    template = (found.get("spec") or {}).get("template") or {}
    containers = (template.get("spec") or {}).get("containers") or ()
    images = (str(one.get("image") or "") for one in containers if one.get("name") == component)
    # The second scheduler's image is of Kubernetes' version.
    tag = "" if component == SCHEDULER else _tag(next(images, ""))
    told = _VERSION.fullmatch(tag)
    return told.group(1) if told else labelled


def _tag(image: str) -> str:
    """Of an image's name, which may have a registry's port and a digest."""
    return image.partition("@")[0].rpartition("/")[2].partition(":")[2]


def waits(pods: Iterable[RawObject]) -> tuple[WaitFact, ...]:
    """What keeps pods that stay, by name of pod; of containers that wait for the same, the first."""
    found: dict[tuple[str, str, str], WaitFact] = {}
    staying = (pod for pod in pods if not pod["metadata"].get("deletionTimestamp"))
    for pod in sorted(staying, key=lambda one: str(one["metadata"]["name"])):
        for one in _of_pod(pod):
            found.setdefault((one.container, one.image, one.reason), one)
    telling = tuple(one for one in found.values() if one.reason not in _ORDINARY)
    return telling or tuple(found.values())


def _of_pod(pod: RawObject) -> Iterator[WaitFact]:
    name, status = str(pod["metadata"]["name"]), pod.get("status") or {}
    for one in status.get("conditions") or ():
        if (one.get("type"), one.get("status")) == ("PodScheduled", "False"):
            yield WaitFact(name, "", "", str(one.get("reason") or ""), _line(one.get("message")))
    images = _images(pod.get("spec") or {})
    for one in (*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())):
        container = str(one.get("name"))
        image = images.get(container) or str(one.get("image") or "")
        reason, message, ended = _of_container(one)
        if reason:
            yield WaitFact(name, container, image, reason, message, ended)


def _of_container(status: dict[str, Any]) -> tuple[str, str, bool]:
    """(reason, message, whether it has ended before); no reason where it is ready, or runs for the first time."""
    if status.get("ready"):
        return "", "", False
    state = status.get("state") or {}
    waiting = state.get("waiting") or {}
    ended = state.get("terminated") or (status.get("lastState") or {}).get("terminated") or {}
    last = f"it ended with exit code {ended.get('exitCode')} ({ended.get('reason') or 'no reason'})" if ended else ""
    messages = (_line(waiting.get("message")), last)
    reason = str(waiting.get("reason") or ended.get("reason") or "")
    return reason, "; ".join(one for one in messages if one), bool(ended)


def _images(spec: dict[str, Any]) -> dict[str, str]:
    both = (*(spec.get("initContainers") or ()), *(spec.get("containers") or ()))
    return {str(one.get("name")): str(one.get("image") or "") for one in both}


def _line(message: object) -> str:
    return " ".join(str(message or "").split())
