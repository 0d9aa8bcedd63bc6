"""Sums GPU shares from raw annotations; shares no code with the ledger or the shipped checker."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator
from fractions import Fraction
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
        found += [f"{wrong} on {who}" for wrong in _compute_broken([pod for _, pod in here])]
        if len(set(named)) < len(named):
            found.append(f"one model of a namespace is twice on {who}")
        if len(here) > 1 and any(names.RESOURCE_GPU_MEMORY not in _limits(pod) for _, pod in here):
            found.append(f"a whole GPU is shared on {who}")
    return found


def _compute_broken(here: list[Manifest]) -> Iterator[str]:
    """What is wrong with the compute of the pods of one GPU: of which kinds they are, and how much they take."""
    terms = [(pod, _terms(pod)) for pod in here]
    paired = [(pod, found) for pod, found in terms if found is not None]
    percents = [
        pod["metadata"]["annotations"].get(names.ANNOTATION_GPU_COMPUTE) for pod, found in terms if found is None
    ]
    declared = [int(text.split(",")[0]) for text in percents if text]
    if sum(declared) > ALL_COMPUTE:
        yield f"more than {ALL_COMPUTE} % of compute are held"
    if len([kind for kind in (paired, declared, len(percents) - len(declared)) if kind]) > 1:
        yield "pods that count their compute in different ways are beside each other"
    shares = sum(found["share"] for _, found in paired)
    for pod, found in paired if len(paired) > 1 else ():
        harm = sum(_factor(other, of, pod) - 1 for other, of in paired if other is not pod)
        if max(shares, 1 + harm) > found["tolerance"]:
            yield f"{pod['metadata']['name']} is slowed down more than it tolerates"


def _terms(pod: Manifest) -> dict[str, Any] | None:
    """The annotation with fractions for texts; None: the pod has none, or asks for less than all compute."""
    written = pod["metadata"].get("annotations", {}).get(names.ANNOTATION_GPU_SHARING)
    if written is None or str(_limits(pod).get(names.RESOURCE_GPU_COMPUTE)) != str(ALL_COMPUTE):
        return None
    try:
        found = json.loads(written)
        return {
            **{key: Fraction(found[key]) for key in ("share", "tolerance")},
            "factors": {model: Fraction(factor) for model, factor in found["factors"].items()},
        }
    except (ValueError, KeyError, TypeError):
        return None


def _factor(other: Manifest, of: dict[str, Any], pod: Manifest) -> Fraction:
    """How many times longer a neighbour with these terms makes the times of a pod."""
    metadata, factors = pod["metadata"], of["factors"]
    model = metadata.get("labels", {}).get(names.LABEL_MODEL)
    if model is None or metadata["namespace"] != other["metadata"]["namespace"]:
        return Fraction(max(factors.values()))
    return Fraction(factors.get(model, factors["*"]))


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
