"""Snapshots of nodes, pods and ResourceSlices, from a cluster, a dump or `kubectl get nodes,pods -A -o json`.

They are reduced: no environment, commands, images or managed fields.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

import click
import yaml

from hetserve.api import names
from hetserve.base.files import read_text
from hetserve.base.units import Seconds
from hetserve.base.yaml_loader import contents
from hetserve.cli import values
from hetserve.cli.cluster.client import UNFINISHED_PODS, ClusterClient, ClusterError, RawObject
from hetserve.cli.cluster.extender import MOST_BYTES
from hetserve.cli.output.streams import note
from hetserve.objects.fields import InvalidObjectError
from hetserve.objects.node import Node
from hetserve.objects.pod import Pod
from hetserve.objects.reduced import reduced_pod
from hetserve.objects.resources import of_device_plugin

_NODE_RULES: Final = ("nodeSelector", "tolerations", "affinity", "topologySpreadConstraints")
DUMP_KIND: Final = "PlacementDump"
NODES: Final = "/api/v1/nodes"
PODS: Final = "/api/v1/pods"
_FORBIDDEN: Final = 403
_NOT_SERVED: Final = 404
PodName = tuple[str, str]


def slim_pod(raw: Mapping[str, Any]) -> RawObject:
    made: RawObject = reduced_pod(raw)
    with suppress(InvalidObjectError):  # a pod that cannot be read stays whole
        pod = Pod(raw)
        made.setdefault("spec", {}).update({key: pod.spec[key] for key in _NODE_RULES if pod.spec.get(key)})
        if scheduled := pod.condition("PodScheduled"):
            made["status"]["conditions"] = [scheduled]
    return made


def slim_node(raw: Mapping[str, Any]) -> RawObject:
    node = Node(raw)
    kept = {key: node.metadata[key] for key in ("name", "uid", "labels") if key in node.metadata}
    ours = {key: value for key, value in node.annotations.items() if key.startswith(f"{names.GROUP}/")}
    return {
        "metadata": kept | ({"annotations": ours} if ours else {}),
        "spec": {key: node.spec[key] for key in ("taints", "unschedulable") if node.spec.get(key)},
        "status": {"allocatable": given} if (given := _of_plugin(node)) else {},
    }


def slim_slice(raw: Mapping[str, Any]) -> RawObject:
    """A ResourceSlice with its driver and its nodes."""
    metadata, spec = raw.get("metadata") or {}, raw.get("spec") or {}
    kept = {key: spec[key] for key in ("driver", "nodeName") if key in spec}
    devices = [{"nodeName": one["nodeName"]} for one in spec.get("devices") or () if one.get("nodeName")]
    return {
        "metadata": {key: metadata[key] for key in ("name", "uid") if key in metadata},
        "spec": kept | ({"devices": devices} if devices else {}),
    }


def _of_plugin(node: Node) -> dict[str, str]:
    with suppress(InvalidObjectError):
        return {name: amount for name, amount in node.extended_resources.items() if of_device_plugin(name)}
    return {}


@dataclass(frozen=True, slots=True)
class ClusterSnapshot:
    """Nodes and unfinished pods at one time, and ResourceSlices that offer GPUs of nodes.

    `taken_at`: s since 1970; None if unknown.
    """

    nodes: tuple[RawObject, ...]
    pods: tuple[RawObject, ...]
    taken_at: Seconds | None
    log: tuple[RawObject, ...] = ()
    slices: tuple[RawObject, ...] = ()


@dataclass(frozen=True, slots=True)
class Source:
    cluster: ClusterClient | None
    stored: ClusterSnapshot | None

    @classmethod
    def of(cls, kubeconfig: str | None, context: str | None, file: str | None) -> Source:
        """Raises ClusterError if neither or both can be used."""
        if file is None:
            return cls(ClusterClient.connect(kubeconfig, context), None)
        if kubeconfig is not None or context is not None:
            raise ClusterError("--from reads a file: it cannot be given with --kubeconfig or --context")
        return cls(None, read_snapshot(file))

    @property
    def namespace(self) -> str:
        return "default" if self.cluster is None else self.cluster.namespace

    def snapshot(self, whole: PodName | None = None) -> ClusterSnapshot:
        """The snapshot, with the pod `whole` unreduced."""
        if self.stored is not None:
            return self.stored
        return live_snapshot(self.live(), whole)

    def live(self) -> ClusterClient:
        """The cluster. Raises ClusterError for a file."""
        if self.cluster is None:
            raise ClusterError("this needs a live cluster: leave --from away")
        return self.cluster


def live_snapshot(cluster: ClusterClient, whole: PodName | None = None) -> ClusterSnapshot:
    """Current snapshot, with the pod `whole` unreduced.

    Pods before nodes: no existing node is then unknown.
    """

    def pod(raw: RawObject) -> RawObject:
        metadata = raw["metadata"]
        return raw if (metadata["namespace"], metadata["name"]) == whole else slim_pod(raw)

    pods = cluster.list(PODS, UNFINISHED_PODS, keep=pod)
    nodes = cluster.list(NODES, keep=slim_node)
    taken_at = Seconds(round(time.time(), 6))
    return ClusterSnapshot(nodes.items, pods.items, taken_at, slices=live_slices(cluster))


def live_slices(cluster: ClusterClient) -> tuple[RawObject, ...]:
    """ResourceSlices of NVIDIA's driver; none where the API server serves none. A note says that they are forbidden."""
    try:
        return cluster.list(names.RESOURCE_SLICES, names.OF_DRA_DRIVER, keep=slim_slice).items
    except ClusterError as error:
        if error.status == _FORBIDDEN:
            note(f"GPUs that ResourceSlices offer look as if they were hetserve's: {error.message}")
        if error.status in (_FORBIDDEN, _NOT_SERVED):
            return ()
        raise


def read_documents(option: str, path: str, most: int) -> list[Any]:
    """Documents of a YAML or JSON file ("-": standard input). option: for errors. most: bytes. Raises ClusterError."""
    with values.option_named(option):
        text = read_text(path, most)
    try:
        return [one for one in contents(text) if one is not None]
    except yaml.MarkedYAMLError as error:
        line = "" if error.problem_mark is None else f"line {error.problem_mark.line + 1}: "
        why = f"{line}{error.problem or error.context}"
        raise ClusterError(f"{option} {path}: not valid YAML or JSON: {why}") from None
    except (yaml.YAMLError, RecursionError) as error:
        raise ClusterError(f"{option} {path}: not valid YAML or JSON: {' '.join(str(error).split())}") from None


def read_snapshot(path: str) -> ClusterSnapshot:
    """Snapshot of a file ("-": standard input). Raises ClusterError."""
    with values.option_named("--from"):
        text = read_text(path, MOST_BYTES)
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ClusterError(f"--from {path}: not JSON: {error}") from None
    items = content.get("items") if isinstance(content, dict) else None
    if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
        raise ClusterError(f"--from {path}: not a list of nodes and pods; write one with `hetserve placement dump`")
    log = content.get("log")
    return _snapshot(items, content.get("takenAt"), path, tuple(log) if isinstance(log, list) else ())


def _snapshot(items: Iterable[RawObject], taken_at: object, path: str, log: tuple[RawObject, ...]) -> ClusterSnapshot:
    by_kind: dict[str, list[RawObject]] = {"Node": [], "Pod": [], "ResourceSlice": []}
    for number, item in enumerate(items, start=1):
        kind = item.get("kind")
        if kind not in by_kind:
            raise ClusterError(
                f"--from {path}: item {number} is a {kind!r}; only nodes, pods and ResourceSlices are wanted"
            )
        for field, default in (("metadata", None), ("spec", {}), ("status", {})):
            if not isinstance(item.get(field, default), dict):
                raise ClusterError(f"--from {path}: item {number}: {field} is not an object")
        by_kind[kind].append(item)
    if not by_kind["Node"]:
        raise ClusterError(f"--from {path}: no nodes; both are needed: kubectl get nodes,pods -A -o json")
    try:
        taken = Seconds(datetime.fromisoformat(taken_at).timestamp()) if isinstance(taken_at, str) else None
    except ValueError:
        raise ClusterError(f"--from {path}: takenAt: {taken_at!r} is no time such as 2026-01-01T12:00:00Z") from None
    slices = tuple(by_kind["ResourceSlice"])
    return ClusterSnapshot(tuple(by_kind["Node"]), tuple(by_kind["Pod"]), taken, log, slices)


def written_time(at: float | None) -> str | None:
    """Kubernetes' format of a time [s since 1970], with microseconds."""
    return None if at is None else datetime.fromtimestamp(at, UTC).isoformat().replace("+00:00", "Z")


def dump_document(snapshot: ClusterSnapshot) -> dict[str, Any]:
    nodes = [{"apiVersion": "v1", "kind": "Node", **slim_node(one)} for one in snapshot.nodes]
    pods = [{"apiVersion": "v1", "kind": "Pod", **slim_pod(one)} for one in snapshot.pods]
    of_slices = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice"}
    slices = [of_slices | slim_slice(one) for one in snapshot.slices]
    about = {"apiVersion": "v1", "kind": "List", "dump": DUMP_KIND, "takenAt": written_time(snapshot.taken_at)}
    return {**about, "items": nodes + pods + slices}


system_option = click.option(
    "--system-namespace",
    metavar="NS",
    help=f"Namespace of hetserve's installation; default: {names.SYSTEM_NAMESPACE}, else where it is found.",
)
"""As `system_namespace` takes it."""
cluster_options = values.options(
    click.option(
        "--kubeconfig", metavar="FILE", help="Default: $KUBECONFIG, else ~/.kube/config, else the pod's account."
    ),
    click.option("--context", metavar="NAME", help="Context of the kubeconfig; default: the current one."),
)
"""As ClusterClient.connect takes them."""
source_options = values.options(
    cluster_options,
    click.option(
        "--from",
        "file",
        metavar="FILE",
        help="Read a dump or the output of `kubectl get nodes,pods -A -o json`, not a cluster; - is stdin.",
    ),
)
"""As Source.of takes them."""
