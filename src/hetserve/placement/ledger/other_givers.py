"""Why a node's GPUs are not hetserve's: NVIDIA's device plugin cuts or shares them, or its DRA driver offers them.

Labels are those of GPU Feature Discovery (NVIDIA/k8s-device-plugin, internal/lm and docs/gpu-feature-discovery); its
label `nvidia.com/gpu.replicas` is 0 where MIG is on and the plugin's strategy ignores it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from hetserve.api import names
from hetserve.objects.fields import short
from hetserve.objects.metadata import RawObject
from hetserve.objects.node import Node

_SHARING: Final = (
    "NVIDIA's device plugin gives each GPU to several pods; take the sharing out of the plugin's configuration here"
)
_CUT: Final = (
    "its GPUs are cut by MIG, and no label names the parts; switch MIG off, or list the parts in the annotation "
    f"{names.ANNOTATION_NODE_GPUS}"
)
_OFFERED: Final = (
    f"DRA driver {names.DRA_DRIVER} offers the GPUs to ResourceClaims; take its kubelet plugin off this node"
)
_BROKEN: Final = (
    "NVIDIA's device plugin holds the others for broken and does not say which; list the GPUs in the annotation "
    f'{names.ANNOTATION_NODE_GPUS}, with "healthy": false for these'
)
_UNSHARED: Final = ("", "none")
_ONE_EACH: Final = "1"
_MIG_ON: Final = "0"


def refusal_of(node: Node, *, annotated: bool) -> str:
    """Label or resource of a node by which NVIDIA's plugin cuts or shares its GPUs, with the remedy; empty: none does.

    annotated: an annotation lists the GPUs, so that parts by MIG have names. Sharing is refused whatever it lists.
    """
    labels, allocatable = node.labels, node.extended_resources
    found = _shared(labels, allocatable)
    if found:
        return f"{found}: {_SHARING}"
    found = "" if annotated else _cut(labels, allocatable)
    return f"{found}: {_CUT}" if found else ""


def missing_gpus(node: Node) -> str:
    """What says that NVIDIA's plugin offers some of a node's GPUs and not all, with the remedy; empty: nothing does.

    It takes back those that are broken. Where it offers none, it may have been taken off the node.
    """
    labels, allocatable = node.labels, node.extended_resources
    count, given = labels.get(names.GFD_COUNT, ""), allocatable.get(names.RESOURCE_NVIDIA_GPU, "")
    if not (_whole(count) and _whole(given) and 0 < int(given) < int(count)):
        return ""
    return f"{_resource(allocatable, names.RESOURCE_NVIDIA_GPU)} of {_label(labels, names.GFD_COUNT)}: {_BROKEN}"


def offered_by_dra(slices: int, example: str) -> str:
    """Refusal of a node whose GPUs are in ResourceSlices. slices: their number; example: the first by name."""
    more = f" and {slices - 1} more" if slices > 1 else ""
    return f"ResourceSlice {example}{more}: {_OFFERED}"


def slice_nodes(raw: RawObject) -> tuple[str, ...]:
    """Nodes whose GPUs a ResourceSlice of NVIDIA's driver offers; none of another driver's.

    Raises TypeError, AttributeError for fields of wrong types. Source: resource.k8s.io/v1, ResourceSliceSpec; the
    driver names one node per slice, or one per device.
    """
    spec: Mapping[str, Any] = raw.get("spec") or {}
    if spec.get("driver") != names.DRA_DRIVER:
        return ()
    each = (device.get("nodeName") for device in spec.get("devices") or ())
    return tuple(dict.fromkeys(str(name) for name in (spec.get("nodeName"), *each) if name))


def _shared(labels: Mapping[str, str], allocatable: Mapping[str, str]) -> str:
    """Time-slicing or MPS, by its labels, the plugin's renamed resource, or more of its GPUs than there are."""
    if labels.get(names.GFD_SHARING, "") not in _UNSHARED:
        return _label(labels, names.GFD_SHARING)
    if labels.get(names.GFD_REPLICAS, _ONE_EACH) not in (_ONE_EACH, _MIG_ON):
        return _label(labels, names.GFD_REPLICAS)
    if labels.get(names.GFD_PRODUCT, "").endswith("-SHARED"):
        return _label(labels, names.GFD_PRODUCT)
    if allocatable.get(names.RESOURCE_NVIDIA_SHARED, "0") != "0":
        return _resource(allocatable, names.RESOURCE_NVIDIA_SHARED)
    count, given = labels.get(names.GFD_COUNT, ""), allocatable.get(names.RESOURCE_NVIDIA_GPU, "")
    if _whole(count) and _whole(given) and int(given) > int(count):
        return f"{_resource(allocatable, names.RESOURCE_NVIDIA_GPU)} of {_label(labels, names.GFD_COUNT)}"
    return ""


def _cut(labels: Mapping[str, str], allocatable: Mapping[str, str]) -> str:
    """MIG, by the product of strategy single, the counts and resources of strategy mixed, or no replica of strategy
    none.
    """
    if "-MIG-" in labels.get(names.GFD_PRODUCT, ""):
        return _label(labels, names.GFD_PRODUCT)
    for key in sorted(labels):
        if key.startswith(names.RESOURCE_NVIDIA_MIG) and key.endswith(".count") and labels[key] != "0":
            return _label(labels, key)
    for resource in sorted(allocatable):
        if resource.startswith(names.RESOURCE_NVIDIA_MIG) and allocatable[resource] != "0":
            return _resource(allocatable, resource)
    if labels.get(names.GFD_REPLICAS) == _MIG_ON and names.GFD_COUNT in labels:
        return _label(labels, names.GFD_REPLICAS)
    return ""


def _label(labels: Mapping[str, str], key: str) -> str:
    return f"label {key}: {short(labels[key])}"


def _resource(allocatable: Mapping[str, str], resource: str) -> str:
    return f"allocatable {resource}: {short(allocatable[resource])}"


def _whole(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 12
