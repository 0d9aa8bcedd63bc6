"""`hetserve doctor`: reads the facts of an installation and everybody's rights, and shows what is found."""

from __future__ import annotations

import re
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any, Final, NoReturn

from hetserve.api import names
from hetserve.api.crd import render_crd
from hetserve.api.kinds import INFERENCE_SERVICE, KINDS, MODEL_PROFILE
from hetserve.api.names import GROUP
from hetserve.cli.cluster.client import UNFINISHED_PODS, ClusterClient, RawObject
from hetserve.cli.cluster.extender import settings_map, system_namespace
from hetserve.cli.cluster.snapshot import NODES, PODS, live_slices
from hetserve.cli.health.judgement import (
    SCHEDULER,
    CheckFinding,
    CrdFact,
    FailedPods,
    InstallationFacts,
    NodesFact,
    SchedulerFact,
    findings,
    sound,
)
from hetserve.cli.health.routing import routing_findings
from hetserve.cli.health.workloads import components, mapping_in, read
from hetserve.cli.output.streams import EXIT_INFEASIBLE, show
from hetserve.cli.output.terminal import Block, grid, styled
from hetserve.placement.event_handlers import OfferedGpus
from hetserve.placement.ledger.inventory import parse_node

_REVIEWS: Final = "/apis/authorization.k8s.io/v1"


_READ: Final = ("watch nodes", "watch pods", "watch resourceslices.resource.k8s.io")
_OF_DEPLOYMENTS: Final = ("create deployments.apps", "patch deployments.apps", "delete deployments.apps")
OF_COMPONENTS: Final = {
    "operator": (
        *(f"watch {kind.plural}.{GROUP}" for kind in KINDS),
        f"patch {INFERENCE_SERVICE.plural}/status.{GROUP}",
        f"patch {MODEL_PROFILE.plural}/status.{GROUP}",
        *_READ,
        *_OF_DEPLOYMENTS,
        "list replicasets.apps",
    ),
    "extender": (*_READ, "patch pods", "create pods/binding"),
    "scheduler": ("watch nodes", "watch pods"),
}
"""By component, verb and resource with its subresource and group: without one of these it does nothing useful."""
OF_PROBES: Final = ("create tokenreviews.authentication.k8s.io", "create subjectaccessreviews.authorization.k8s.io")
"""Of operator and extender: without these nobody reads their metrics, ledger and log."""
OF_THE_CALLER: Final = ("list nodes", "list pods", f"watch {INFERENCE_SERVICE.plural}.{GROUP}")
"""For gpus, queue, why and wait."""


def missing_of_caller(cluster: ClusterClient) -> Iterator[str]:
    """Rights that the caller lacks in all namespaces. Raises ClusterError."""
    for right in OF_THE_CALLER:
        if not _allowed(cluster, "selfsubjectaccessreviews", {"resourceAttributes": _attributes(right)}):
            yield right


def missing_of_components(cluster: ClusterClient, namespace: str, prefix: str, *, asking: bool) -> Iterator[str]:
    """Account and right, for each that is missing. Raises ClusterError.

    prefix: what names of the accounts begin with. asking: whether probe ports ask the API server who may read them.
    """
    for component, always in OF_COMPONENTS.items():
        # Scheduler and extender are one pod, and so one account.
        account = f"{prefix}-{'scheduler' if component == 'extender' else component}"
        rights = always + (OF_PROBES if asking and component != "scheduler" else ())
        user = f"system:serviceaccount:{namespace}:{account}"
        groups = ["system:serviceaccounts", f"system:serviceaccounts:{namespace}", "system:authenticated"]
        for right in rights:
            asked = {"user": user, "groups": groups, "resourceAttributes": _attributes(right)}
            if not _allowed(cluster, "subjectaccessreviews", asked):
                yield f"account {namespace}/{account} may not {right}"


def _attributes(right: str) -> dict[str, str]:
    verb, _, what = right.partition(" ")
    named, _, group = what.partition(".")
    resource, _, subresource = named.partition("/")
    asked = {"verb": verb, "group": group, "resource": resource}
    return asked | ({"subresource": subresource} if subresource else {})


def _allowed(cluster: ClusterClient, kind: str, spec: dict[str, Any]) -> bool:
    name = "SelfSubjectAccessReview" if kind.startswith("self") else "SubjectAccessReview"
    body = {"apiVersion": "authorization.k8s.io/v1", "kind": name, "spec": spec}
    return bool((cluster.create(f"{_REVIEWS}/{kind}", body).get("status") or {}).get("allowed"))


_CRDS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_BINDINGS: Final = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings"
MOST_DIFFERENCES: Final = 4
_COMPARED: Final = ("schema", "subresources", "additionalPrinterColumns")
_STYLES: Final = {"Ok": "green", "Note": "dim", "Unknown": "yellow", "Problem": "bold red"}
_PLUGIN_GPU: Final = "nvidia.com/gpu"


def run(cluster: ClusterClient, given: str | None, output: str) -> NoReturn:
    """The command `doctor`. given: namespace of the installation; None: where it is found. Raises ClusterError."""
    namespace = system_namespace(cluster, given)
    found = (*findings(gather(cluster, namespace)), *routing_findings(cluster, namespace))
    well = sound(found)
    document = {
        "namespace": namespace,
        "sound": well,
        "findings": [asdict(one) | {"level": str(one.level)} for one in found],
    }
    show(document, output, lambda: [_block(found, namespace, well=well)])
    sys.exit(0 if well else EXIT_INFEASIBLE)


def _block(found: Sequence[CheckFinding], namespace: str, *, well: bool) -> Block:
    table = grid("CHECK", "LEVEL", "FINDING")
    for column in table.columns[:-1]:
        column.no_wrap = True
    for one in found:
        table.add_row(one.check, styled(str(one.level), _STYLES[str(one.level)]), one.what)
        for label, text in (("why", one.why), ("do", one.do)):
            if text:
                table.add_row("", "", f"{label}: {text}")
    amiss = sum(str(one.level) in ("Problem", "Unknown") for one in found)
    title = f"installation in {namespace}: " + ("nothing is wrong" if well else f"{amiss} to look at")
    return Block(title, (), (table,))


def gather(cluster: ClusterClient, namespace: str) -> InstallationFacts:
    """Facts of the installation in a namespace.

    What the caller may not read is Unread. Raises ClusterError if the API server cannot be reached or does not know the
    caller.
    """
    found = components(cluster, namespace)
    prefix = found[0].name.removesuffix(f"-{found[0].component}")
    asking = not all(one.open for one in found if one.component != SCHEDULER)
    return InstallationFacts(
        namespace=namespace,
        version=version_of(cluster.get("/version")),
        crds=read(lambda: {resource.plural: _crd(cluster, resource) for resource in KINDS}),
        components=found,
        scheduler=read(lambda: _scheduler(cluster, namespace)),
        failed=read(lambda: _failed(cluster)),
        nodes=read(lambda: _nodes(cluster)),
        own=tuple(missing_of_caller(cluster)),
        missing_rights=read(lambda: tuple(missing_of_components(cluster, namespace, prefix, asking=asking))),
        policies=read(lambda: _policies(cluster)),
    )


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


def _scheduler(cluster: ClusterClient, namespace: str) -> SchedulerFact | None:
    config = mapping_in(settings_map(cluster, namespace, SCHEDULER), SCHEDULER)
    if config is None:
        return None
    profiles = tuple(str(one.get("schedulerName")) for one in config.get("profiles") or ())
    ours = next((one for one in config.get("extenders") or () if _manages(one)), None)
    if ours is None:
        return SchedulerFact(None, ignorable=False, names=profiles)
    return SchedulerFact(str(ours.get("urlPrefix")), ignorable=bool(ours.get("ignorable")), names=profiles)


def _manages(extender: Mapping[str, Any]) -> bool:
    return any(one.get("name") == names.RESOURCE_GPU_MEMORY for one in extender.get("managedResources") or ())


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
    offered = OfferedGpus()
    offered.replace(live_slices(cluster))

    def reduced(raw: RawObject) -> RawObject:
        node = offered.judge(parse_node(raw))
        plugin = str(((raw.get("status") or {}).get("capacity") or {}).get(_PLUGIN_GPU, "0")) != "0"
        gpus = 0 if node.refused else len(node.gpus)
        words = {"problem": node.problem, "refused": node.refused, "missing": node.missing}
        return {"name": node.name, "gpus": gpus, "plugin": plugin, **words}

    nodes = sorted(cluster.list(NODES, keep=reduced).items, key=lambda one: str(one["name"]))
    bare = (one for one in nodes if not one["gpus"] and not one["problem"] and not one["refused"])
    return NodesFact(
        len(nodes),
        sum(one["gpus"] for one in nodes),
        tuple(one["problem"] for one in nodes if one["problem"]),
        tuple(one["name"] for one in bare if one["plugin"]),
        _by_words(nodes, "refused"),
        _by_words(nodes, "missing"),
    )


def _by_words(nodes: Iterable[RawObject], key: str) -> dict[str, tuple[str, ...]]:
    """Names of nodes by what is said of them."""
    found: dict[str, list[str]] = defaultdict(list)
    for one in nodes:
        if one[key]:
            found[one[key]].append(one["name"])
    return {words: tuple(some) for words, some in found.items()}


def _policies(cluster: ClusterClient) -> tuple[str, ...]:
    """A policy without its binding, which has its name, refuses nothing."""
    bound = {str(one["metadata"]["name"]) for one in cluster.list(_BINDINGS).items}
    return tuple(name for name in names.ADMISSION_POLICIES if name in bound)


def differences(found: Mapping[str, Any], wanted: Mapping[str, Any]) -> tuple[str, ...]:
    """Paths at which schema, subresources or columns differ, at most MOST_DIFFERENCES; a version where it is absent.

    found: as the API server returns it. wanted: as rendered. Equal numbers are equal, written as 1 or 1.0.
    """
    there, ours = _version_in(found), _version_in(wanted)
    if there is None or ours is None:
        return (f"version {names.VERSION}",)
    paths: list[str] = []
    for part in _COMPARED:
        for path in _differing(there.get(part), ours.get(part), ""):
            paths.append(path.removeprefix(".openAPIV3Schema") or part)
            if len(paths) == MOST_DIFFERENCES:
                return tuple(paths)
    return tuple(paths)


def _version_in(crd: Mapping[str, Any]) -> Mapping[str, Any] | None:
    versions = (crd.get("spec") or {}).get("versions") or ()
    return next((one for one in versions if one.get("name") == names.VERSION and one.get("served")), None)


def _differing(found: Any, wanted: Any, path: str) -> Iterator[str]:
    if isinstance(found, Mapping) and isinstance(wanted, Mapping):
        for key in sorted(found.keys() | wanted.keys()):
            below = path if key == "properties" else f"{path}.{key}"
            if key not in found or key not in wanted:
                yield below
            else:
                yield from _differing(found[key], wanted[key], below)
    elif found != wanted:
        yield path
