"""The pod of a manifest, as it would be once it is created."""

from __future__ import annotations

from typing import Any, Final

from hetserve.base.timestamps import timestamp
from hetserve.cli.cluster.client import ClusterError
from hetserve.cli.cluster.snapshot import read_documents

Json = dict[str, Any]
UID: Final = "not-created"
"""In the place of a UID: no pod of a cluster has this one."""
_MOST_BYTES: Final = 4 << 20
_TEMPLATES: Final = ("Deployment", "StatefulSet", "DaemonSet", "ReplicaSet", "ReplicationController", "Job")


def planned_pod(path: str, namespace: str | None, default: str, now: float) -> Json:
    """The one Pod of a YAML or JSON file ("-": standard input), or one pod of a workload's template.

    namespace: asked for; None: the manifest's, else `default`. now: s since 1970, when it would be created. Raises
    ClusterError.
    """
    raw = _pod(_manifest(path), path)
    metadata, spec = dict(_mapping(raw, "metadata", path)), dict(_mapping(raw, "spec", path))
    written = metadata.get("namespace")
    if None not in (written, namespace) and written != namespace:
        raise ClusterError(f"-f {path}: metadata.namespace is {written}, -n says {namespace}; leave one of them out")
    if spec.get("nodeName"):
        raise ClusterError(
            f"-f {path}: spec.nodeName: {spec['nodeName']!r} passes every scheduler by, so that no GPU is booked;"
            " leave it out"
        )
    metadata |= {
        "name": metadata.get("name") or metadata.get("generateName") or "pod",
        "namespace": written or namespace or default,
        "uid": UID,
        "creationTimestamp": timestamp(now),
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": {}}


def _manifest(path: str) -> Json:
    documents = read_documents("-f", path, _MOST_BYTES)
    if len(documents) != 1 or not isinstance(documents[0], dict):
        raise ClusterError(f"-f {path}: holds {len(documents)} documents; one manifest of a pod is wanted")
    return documents[0]


def _pod(raw: Json, path: str) -> Json:
    kind = raw.get("kind")
    if kind == "Pod":
        return raw
    if kind not in _TEMPLATES:
        raise ClusterError(f"-f {path}: kind: {kind!r} is neither Pod nor one of {', '.join(_TEMPLATES)}")
    owner = _mapping(raw, "metadata", path)
    template = _mapping(_mapping(raw, "spec", path), "template", path)
    ours = {key: owner[key] for key in ("name", "namespace") if key in owner}
    return {"metadata": _mapping(template, "metadata", path) | ours, "spec": _mapping(template, "spec", path)}


def _mapping(raw: Json, key: str, path: str) -> Json:
    found = raw.get(key)
    if found is None:
        return {}
    if not isinstance(found, dict):
        raise ClusterError(f"-f {path}: {key}: {found!r} is no mapping")
    return found
