"""Pods, nodes and ResourceSlices reduced for a dump: no environment, commands, images or managed fields."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final

from hetserve.api import names
from hetserve.objects.fields import InvalidObjectError
from hetserve.objects.node import Node
from hetserve.objects.pod import Pod
from hetserve.objects.reduced import reduced_pod
from hetserve.objects.resources import of_device_plugin

RawObject = dict[str, Any]
_NODE_RULES: Final = ("nodeSelector", "tolerations", "affinity", "topologySpreadConstraints")


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
