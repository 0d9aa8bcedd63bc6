"""Sums GPU shares from raw annotations; shares no code with the ledger or the shipped checker."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from harness.kube import Manifest
from hetserve.api import names
from hetserve.base.units import parse_quantity

FINISHED = ("Succeeded", "Failed")
ALL_COMPUTE = 100
Place = tuple[str, str]
"""Node and GPU."""


class GpuShare(NamedTuple):
    """Memory of one GPU that one pod holds."""

    uid: str
    node: str
    gpu: str
    mib: int


def shares(pods: Iterable[Manifest]) -> Iterator[GpuShare]:
    """Per pod and GPU. Raises KeyError or ValueError for odd annotations."""
    for pod in pods:
        yield from shares_of(pod)


def shares_of(pod: Manifest) -> list[GpuShare]:
    if not pod["spec"].get("nodeName") or pod["status"].get("phase") in FINISHED:
        return []
    annotations = pod["metadata"].get("annotations", {})
    gpus = annotations[names.ANNOTATION_GPU].split(",")
    mib = [int(text) for text in annotations[names.ANNOTATION_GPU_MEMORY].split(",")]
    return [
        GpuShare(pod["metadata"]["uid"], pod["spec"]["nodeName"], gpu, each)
        for gpu, each in zip(gpus, mib, strict=True)
    ]


def capacities(nodes: Iterable[Manifest]) -> dict[Place, int]:
    """MiB of each GPU, from the harness's labels."""
    labelled = ((node["metadata"]["name"], node["metadata"]["labels"]) for node in nodes)
    return {
        (name, str(number)): int(labels[names.GFD_MEMORY])
        for name, labels in labelled
        for number in range(int(labels.get(names.GFD_COUNT, 0)))
    }


def broken(pods: Iterable[Manifest], capacity: dict[Place, int]) -> list[str]:
    on_gpu: dict[Place, list[tuple[GpuShare, Manifest]]] = defaultdict(list)
    found = []
    for pod in pods:
        held = shares_of(pod)
        if held and not _as_asked(pod, held, capacity):
            found.append(f"{pod['metadata']['name']} holds {held}, and asked for {_limits(pod)}")
        for share in held:
            on_gpu[share.node, share.gpu].append((share, pod))
    for place, here in sorted(on_gpu.items(), key=lambda item: item[0]):
        labelled = ((pod["metadata"], pod["metadata"].get("labels", {}).get(names.LABEL_MODEL)) for _, pod in here)
        named = [(metadata["namespace"], model) for metadata, model in labelled if model]
        who = f"{place}: {sorted(pod['metadata']['name'] for _, pod in here)}"
        if sum(share.mib for share, _ in here) > capacity[place]:
            found.append(f"more than {capacity[place]} MiB are held on {who}")
        percents = [pod["metadata"].get("annotations", {}).get(names.ANNOTATION_GPU_COMPUTE) for _, pod in here]
        declared = [int(text.split(",")[0]) for text in percents if text]
        if sum(declared) > ALL_COMPUTE:
            found.append(f"more than {ALL_COMPUTE} % of compute are held on {who}")
        if declared and len(declared) < len(here):
            found.append(f"pods that declare compute are beside others on {who}")
        if len(set(named)) < len(named):
            found.append(f"one model of a namespace is twice on {who}")
        if len(here) > 1 and any(names.RESOURCE_GPU_MEMORY not in _limits(pod) for _, pod in here):
            found.append(f"a whole GPU is shared on {who}")
    return found


def _as_asked(pod: Manifest, held: list[GpuShare], capacity: dict[Place, int]) -> bool:
    """Whether the pod holds as many GPUs, MiB and percent of compute as it asked for."""
    limits = _limits(pod)
    compute = ",".join([str(limits[names.RESOURCE_GPU_COMPUTE])] * len(held)) if _declares(limits) else None
    if pod["metadata"]["annotations"].get(names.ANNOTATION_GPU_COMPUTE) != compute:
        return False
    memory = limits.get(names.RESOURCE_GPU_MEMORY)
    each = [capacity[share.node, share.gpu] if memory is None else int(parse_quantity(str(memory))) for share in held]
    count = len({share.gpu for share in held})
    return [share.mib for share in held] == each and count == len(held) == int(limits.get(names.RESOURCE_GPU, 1))


def _declares(limits: dict[str, Any]) -> bool:
    return names.RESOURCE_GPU_MEMORY in limits and names.RESOURCE_GPU_COMPUTE in limits


def _limits(pod: Manifest) -> dict[str, Any]:
    limits: dict[str, Any] = pod["spec"]["containers"][0]["resources"]["limits"]
    return limits
