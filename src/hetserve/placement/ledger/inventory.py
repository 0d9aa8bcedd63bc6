"""A node's GPUs: from the annotation `hetserve.io/gpus`, else from GPU Feature Discovery labels, which have no UUIDs.

A node whose text cannot be read has no GPUs and a problem. One keeps its GPUs and takes no new pods while somebody else
gives them: NVIDIA's device plugin cuts or shares them, or its DRA driver offers them. Source of the labels: GPU Feature
Discovery (NVIDIA/k8s-device-plugin, internal/lm and docs/gpu-feature-discovery); its label `nvidia.com/gpu.replicas` is
0 where MIG is on and the plugin's strategy ignores it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from hetserve.api import names
from hetserve.base.units import MiB
from hetserve.objects.fields import InvalidObjectError, short
from hetserve.objects.metadata import RawObject, uid_of
from hetserve.objects.node import Node
from hetserve.objects.resources import MAX_GPUS_PER_NODE, MAX_MIB
from hetserve.placement.pods.requests import LONGEST_GPU_ID
from hetserve.placement.pods.view import id_order

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


_KEYS: Final = frozenset({"uuid", "product", "memoryMiB", "healthy"})


Place = tuple[str, str]
"""Node name and GPU id, as a bound pod names its GPU."""


@dataclass(frozen=True, slots=True)
class Gpu:
    """`id`: the UUID if known, else the index as text."""

    id: str
    product: str
    memory_mib: MiB
    healthy: bool = True


@dataclass(frozen=True, slots=True)
class NodeInventory:
    """A node's GPUs. problem: why they cannot be read. refused: who else gives them, with the remedy; empty: nobody.

    missing: some are broken, and nobody says which.
    """

    name: str
    uid: str
    gpus: tuple[Gpu, ...] = ()
    problem: str | None = None
    refused: str = ""
    missing: str = ""


def parse_node(raw: RawObject) -> NodeInventory:
    """Inventory of a node, with the problem of a text that cannot be read.

    Raises InvalidObjectError for an object without a name.
    """
    node = Node(raw)
    name, uid = node.name, uid_of(raw)
    try:
        annotation = node.annotations.get(names.ANNOTATION_NODE_GPUS)
        gpus = _from_labels(node.labels) if annotation is None else _from_annotation(annotation)
        refused = refusal_of(node, annotated=annotation is not None)
    except InvalidObjectError as error:
        return NodeInventory(name, uid, problem=f"node {name}: {error}")
    missing = missing_gpus(node) if annotation is None and not refused else ""
    return NodeInventory(name, uid, tuple(sorted(gpus, key=gpu_order)), refused=refused, missing=missing)


def gpu_order(gpu: Gpu) -> tuple[int, str]:
    return id_order(gpu.id)


def _from_labels(labels: Mapping[str, str]) -> list[Gpu]:
    found = {key: labels.get(key) for key in (names.GFD_PRODUCT, names.GFD_COUNT, names.GFD_MEMORY)}
    missing = [key for key, value in found.items() if value is None]
    if len(missing) == len(found):
        return []
    if missing:
        raise InvalidObjectError(
            f"label {missing[0]} is missing beside the other {names.GFD_COUNT.split('.')[0]} labels"
        )
    count = _label_number(labels, names.GFD_COUNT, MAX_GPUS_PER_NODE)
    memory = _label_number(labels, names.GFD_MEMORY, MAX_MIB)
    if count and not memory:
        raise InvalidObjectError(f"label {names.GFD_MEMORY}: '0' MiB cannot hold anything")
    return [Gpu(str(index), labels[names.GFD_PRODUCT], MiB(memory)) for index in range(count)]


def _label_number(labels: Mapping[str, str], key: str, most: int) -> int:
    text = labels[key]
    if not (text.isascii() and text.isdigit()) or len(text) > 12 or int(text) > most:
        raise InvalidObjectError(f"label {key}: {text!r} is not a whole number from 0 to {most}")
    return int(text)


def _from_annotation(text: str) -> list[Gpu]:
    where = f"annotation {names.ANNOTATION_NODE_GPUS}"
    try:
        entries = json.loads(text)
    except (ValueError, RecursionError):
        raise InvalidObjectError(f"{where} is not JSON; write a list of {{uuid, product, ...}}") from None
    if not isinstance(entries, list):
        raise InvalidObjectError(f"{where} is not a list of {{uuid, product, memoryMiB, healthy}}")
    if len(entries) > MAX_GPUS_PER_NODE:
        raise InvalidObjectError(f"{where} lists {len(entries)} GPUs; at most {MAX_GPUS_PER_NODE} are possible")
    gpus = [_entry(entry, f"{where}[{index}]") for index, entry in enumerate(entries)]
    seen: set[str] = set()
    for gpu in gpus:
        if gpu.id in seen:
            raise InvalidObjectError(f"{where}: uuid {gpu.id!r} is listed twice")
        seen.add(gpu.id)
    return gpus


def _entry(entry: object, where: str) -> Gpu:
    if not isinstance(entry, dict):
        raise InvalidObjectError(f"{where} is not an object with uuid, product, memoryMiB, healthy")
    unknown = sorted(set(entry) - _KEYS)
    if unknown:
        raise InvalidObjectError(f"{where}: unknown key {unknown[0]!r}; known are {', '.join(sorted(_KEYS))}")
    for key in ("uuid", "product"):
        if not isinstance(entry.get(key), str) or not entry[key]:
            raise InvalidObjectError(f"{where}.{key}: {entry.get(key)!r} is not a text")
    if "," in entry["uuid"] or any(letter.isspace() for letter in entry["uuid"]):
        raise InvalidObjectError(f"{where}.uuid: {entry['uuid']!r} holds a ',' or a blank; ids are joined by ','")
    if len(entry["uuid"]) > LONGEST_GPU_ID:
        raise InvalidObjectError(f"{where}.uuid: {short(entry['uuid'])} has more than {LONGEST_GPU_ID} characters")
    memory, healthy = entry.get("memoryMiB"), entry.get("healthy", True)
    if not isinstance(memory, int) or isinstance(memory, bool) or not 0 < memory <= MAX_MIB:
        raise InvalidObjectError(f"{where}.memoryMiB: {memory!r} is not a whole number of MiB from 1 to {MAX_MIB}")
    if not isinstance(healthy, bool):
        raise InvalidObjectError(f"{where}.healthy: {healthy!r} is neither true nor false")
    return Gpu(entry["uuid"], entry["product"], MiB(memory), healthy)
