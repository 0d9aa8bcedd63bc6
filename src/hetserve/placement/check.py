"""Independent check of a cluster: does what the raw objects say add up?

Shares no code with the ledger on purpose: it reads annotations and labels of plain Kubernetes objects and
sums them. Used by tests, by scenarios on a real control plane and by whoever doubts the ledger.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

from hetserve.api import names

RawObject = Mapping[str, Any]


def violations(pods: Iterable[RawObject], nodes: Iterable[RawObject]) -> tuple[str, ...]:
    """Everything wrong with GPU assignments: over-committed GPUs, one model twice on a GPU, unknown GPUs.

    `pods` and `nodes` are objects as the API server writes them. Pods that have finished hold nothing.
    """
    capacity = gpu_capacity(nodes)
    found: list[str] = []
    held: dict[tuple[str, str], int] = defaultdict(int)
    models: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    for namespace, name, place, mib, model in holdings(pods):
        if place not in capacity:
            found.append(f"pod {namespace}/{name} holds GPU {place[1]} of node {place[0]}, which has none such")
        held[place] += mib
        if model:
            models[place][model] += 1
    for place, mib in held.items():
        if place in capacity and mib > capacity[place]:
            found.append(f"GPU {place[1]} of node {place[0]} is over-committed: {mib} of {capacity[place]} MiB")
    for place, counter in models.items():
        found += [
            f"GPU {place[1]} of node {place[0]} holds model {model} {count} times"
            for model, count in counter.items()
            if count > 1
        ]
    return tuple(sorted(found))


def gpu_capacity(nodes: Iterable[RawObject]) -> dict[tuple[str, str], int]:
    """MiB of every GPU by (node name, GPU id), from the nodes' annotation or labels."""
    capacity: dict[tuple[str, str], int] = {}
    for node in nodes:
        metadata = node["metadata"]
        listed = (metadata.get("annotations") or {}).get(names.ANNOTATION_NODE_GPUS)
        labels = metadata.get("labels") or {}
        if listed is not None:
            for gpu in json.loads(listed):
                capacity[metadata["name"], gpu["uuid"]] = gpu["memoryMiB"]
        elif names.GFD_COUNT in labels:
            for number in range(int(labels[names.GFD_COUNT])):
                capacity[metadata["name"], str(number)] = int(labels[names.GFD_MEMORY])
    return capacity


def holdings(pods: Iterable[RawObject]) -> list[tuple[str, str, tuple[str, str], int, str | None]]:
    """(namespace, name, (node, GPU id), MiB, model) of every pod that holds a GPU by its annotations."""
    found = []
    for pod in pods:
        metadata, node = pod["metadata"], (pod.get("spec") or {}).get("nodeName")
        annotations = metadata.get("annotations") or {}
        finished = (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")
        if not node or finished or names.ANNOTATION_GPU not in annotations:
            continue
        place = (node, annotations[names.ANNOTATION_GPU])
        mib = int(annotations.get(names.ANNOTATION_GPU_MEMORY, "0"))
        model = (metadata.get("labels") or {}).get(names.LABEL_MODEL)
        found.append((metadata.get("namespace", "default"), metadata["name"], place, mib, model))
    return found
