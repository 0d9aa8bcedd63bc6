"""A node's GPUs: from the annotation `hetserve.io/gpus`, else from GPU Feature Discovery labels, which have no UUIDs.

A node whose text cannot be read has no GPUs and a problem. One whose GPUs somebody else gives keeps them, and takes no
new pods.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from hetserve.api import names
from hetserve.base.units import MiB
from hetserve.objects.fields import InvalidObjectError, short
from hetserve.objects.metadata import RawObject, uid_of
from hetserve.objects.node import Node
from hetserve.objects.resources import MAX_GPUS_PER_NODE, MAX_MIB
from hetserve.placement.ledger.other_givers import missing_gpus, refusal_of
from hetserve.placement.pods.requests import LONGEST_GPU_ID
from hetserve.placement.pods.view import id_order

_KEYS: Final = frozenset({"uuid", "product", "memoryMiB", "healthy"})


Place = tuple[str, str]
"""Node name and GPU id, as a bound pod names its GPU."""


class GpuKey(NamedTuple):
    node_uid: str
    gpu: str


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
