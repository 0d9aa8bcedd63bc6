"""Pods and nodes reduced for a dump: no environment, commands, images or managed fields."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final

from hetserve.api import names
from hetserve.objects.fields import InvalidObjectError
from hetserve.objects.node import Node
from hetserve.objects.pod import Pod
from hetserve.objects.reduced import reduced_pod

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
        "status": {},
    }
