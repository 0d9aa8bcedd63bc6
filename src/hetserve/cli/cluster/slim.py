"""Pods and nodes without what no placement depends on: no environment, commands, images or managed fields in a dump."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from hetserve.api import names
from hetserve.objects.reduced import reduced_pod

RawObject = dict[str, Any]
_RULES: Final = ("nodeSelector", "tolerations", "affinity", "topologySpreadConstraints")


def slim_pod(raw: Mapping[str, Any]) -> RawObject:
    """What placement and `hetserve why` read of a pod."""
    made: RawObject = reduced_pod(raw)
    spec, status = raw.get("spec"), raw.get("status")
    if isinstance(spec, Mapping) and isinstance(made.get("spec"), dict):
        made["spec"] = {**made["spec"], **{key: spec[key] for key in _RULES if spec.get(key)}}
    if isinstance(status, Mapping) and isinstance(made.get("status"), dict):
        found = status.get("conditions")
        if isinstance(found, list) and all(isinstance(one, Mapping) for one in found):
            made["status"] = {
                **made["status"],
                "conditions": [one for one in found if one.get("type") == "PodScheduled"],
            }
    return made


def slim_node(raw: Mapping[str, Any]) -> RawObject:
    """What placement and `hetserve why` read of a node."""
    metadata, spec = raw.get("metadata") or {}, raw.get("spec") or {}
    annotations = metadata.get("annotations") or {}
    kept = {key: metadata[key] for key in ("name", "uid", "labels") if key in metadata}
    ours = {key: value for key, value in annotations.items() if key.startswith(f"{names.GROUP}/")}
    return {
        "metadata": kept | ({"annotations": ours} if ours else {}),
        "spec": {key: spec[key] for key in ("taints", "unschedulable") if spec.get(key)},
        "status": {},
    }
