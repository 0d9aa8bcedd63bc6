"""Independent check of GPU assignments in raw objects; shares no code with the ledger or `hetserve.objects`."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NamedTuple

from hetserve.api import names

RawObject = Mapping[str, Any]
Place = tuple[str, str]
_MOST_GPUS, _MOST_MIB, _LONGEST_ID = 128, 2**27, 63
_SHOWN = 60
_ALL_COMPUTE = 100
_MILLION, _MOST_FACTORS, _LONGEST_TERMS = 10**6, 256, 2**15
_PLUGIN = (names.RESOURCE_NVIDIA_GPU, names.RESOURCE_NVIDIA_SHARED)
_SUFFIXES = {"": 1, "k": 1000, "M": 1000**2, "G": 1000**3, "Ki": 1024, "Mi": 1024**2, "Gi": 1024**3}


class Terms(NamedTuple):
    """On what a pod shares its GPUs, in millionths: its share of the compute, how many times as long as alone it may
    take, and what it adds to the times of other models, of those named by name.
    """

    share: int
    tolerance: int
    others: int
    named: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True)
class GpuHolding:
    """What a pod holds of one GPU by its annotations.

    `shares_model`: it may share the GPU with its own model. `compute`: percent; None: it names none. `terms`: None if
    it shares by percent or memory alone.
    """

    namespace: str
    name: str
    uid: str
    place: Place
    mib: int
    whole: bool
    model: str | None
    shares_model: bool
    compute: int | None = None
    terms: Terms | None = None


def violations(pods: Iterable[RawObject], nodes: Iterable[RawObject]) -> tuple[str, ...]:
    """Errors of GPU assignments: over-committed or shared whole GPUs, a namespace's model twice, unknown GPUs, GPUs of
    both sources, pods that declare compute beside pods that do not.

    `pods` and `nodes`: as the API server writes them.
    """
    capacity = gpu_capacity(nodes)
    on_gpu: dict[Place, list[GpuHolding]] = defaultdict(list)
    pods = list(pods)
    found = [*_miscounted(pods), *(text for pod in pods if not _names(pod) and (text := unsaid(pod)))]
    for held in holdings(pods):
        if held.place not in capacity:
            node, gpu = held.place
            found.append(f"pod {held.namespace}/{held.name} holds GPU {gpu} of node {node}, which has none such")
        on_gpu[held.place].append(held)
    for place, here in on_gpu.items():
        found += _wrong_on(place, here, capacity.get(place))
    found += _given_twice(pods, {node for node, _ in on_gpu})
    return tuple(sorted(found))


def _given_twice(pods: Iterable[RawObject], with_ours: Collection[str]) -> Iterator[str]:
    for pod in pods:
        if (through := plugged(pod)) and (node := pod["spec"]["nodeName"]) in with_ours:
            who = f"{pod['metadata'].get('namespace', 'default')}/{pod['metadata']['name']}"
            yield f"pod {who} has GPUs of node {node} through {through}, which pods of ours may hold"


def plugged(pod: RawObject) -> str:
    """Resource by which NVIDIA's device plugin gives GPUs to a bound pod; empty: none."""
    spec = pod.get("spec") or {}
    if (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed") or not spec.get("nodeName"):
        return ""
    for container in [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]:
        resources = container.get("resources") or {}
        for resource, amount in {**(resources.get("limits") or {}), **(resources.get("requests") or {})}.items():
            if (resource in _PLUGIN or resource.startswith(names.RESOURCE_NVIDIA_MIG)) and str(amount) != "0":
                return str(resource)
    return ""


def _wrong_on(place: Place, here: list[GpuHolding], capacity: int | None) -> Iterator[str]:
    where = f"GPU {place[1]} of node {place[0]}"
    mib = sum(held.mib for held in here)
    if capacity is not None and mib > capacity:
        yield f"{where} is over-committed: {mib} of {capacity} MiB"
    if len(here) > 1 and any(held.whole for held in here):
        yield f"{where} is held whole and by {len(here)} pods"
    shared = [held for held in here if not held.whole]
    percent = percent_held(shared)
    if percent > _ALL_COMPUTE:
        yield f"{where} is over-booked: {percent} percent of its compute"
    if percent and any(held.compute is None for held in shared):
        yield f"{where} holds pods that declare compute beside pods that do not"
    if len({held.terms is None for held in shared}) > 1:
        yield f"{where} holds pods that share on terms beside pods that do not"
    for (namespace, model), count in Counter((held.namespace, held.model) for held in here if held.model).items():
        own = [held for held in here if (held.namespace, held.model) == (namespace, model)]
        if count > 1 and not all(held.shares_model for held in own):
            yield f"{where} holds model {namespace}/{model} {count} times"


def percent_held(here: Collection[GpuHolding]) -> int:
    """Percent of a GPU's compute that pods on it hold: of pods that all share on terms, of what the one that is pressed
    hardest tolerates, rounded up.
    """
    terms = [held.terms for held in here if held.terms is not None]
    if not terms or len(terms) < len(here):
        return sum(_ALL_COMPUTE if held.whole else held.compute or 0 for held in here)
    pairs, most = list(zip(here, terms, strict=True)), Fraction(0)
    for one, its in pairs:
        added = [_adds(theirs, other, one) for other, theirs in pairs if other.uid != one.uid]
        slow = max(sum(its.share for its in terms), _MILLION + sum(added) if added else 0)
        most = max(most, Fraction(slow, its.tolerance))
    return -(-_ALL_COMPUTE * most.numerator // most.denominator)


def _adds(terms: Terms, pod: GpuHolding, other: GpuHolding) -> int:
    """Millionths that a pod adds to the times of another: by pair where that is of a known model of its namespace."""
    factors = dict(terms.named)
    if other.model and other.namespace == pod.namespace:
        return factors.get(other.model, terms.others)
    return max([terms.others, *factors.values()])


def unsaid(pod: RawObject) -> str:
    """Why a bound pod does not name enough GPUs; empty if it does."""
    spec = pod.get("spec") or {}
    finished = (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")
    memory, gpus = (_asked(spec, resource) for resource in (names.RESOURCE_GPU_MEMORY, names.RESOURCE_GPU))
    named, asked = _names(pod), max(gpus, 1) if memory or gpus else 0
    if finished or not spec.get("nodeName") or len(named) >= asked:
        return ""
    who = f"{pod['metadata'].get('namespace', 'default')}/{pod['metadata']['name']}"
    return f"pod {who} runs on {asked} GPUs of node {spec['nodeName']}, and its annotation names {len(named)}"


def _names(pod: RawObject) -> tuple[str, ...]:
    """Distinct GPUs that a pod's annotation names; none if no node could have them all."""
    annotations = pod["metadata"].get("annotations") or {}
    text = annotations.get(names.ANNOTATION_GPU, "")
    if len(text) > _MOST_GPUS * (_LONGEST_ID + 1) or text.count(",") >= _MOST_GPUS:
        return ()
    found = tuple(dict.fromkeys(gpu for written in text.split(",") if (gpu := written.strip())))
    return found if all(len(gpu) <= _LONGEST_ID for gpu in found) else ()


def gpu_capacity(nodes: Iterable[RawObject]) -> dict[Place, int]:
    """MiB of every GPU by (node name, GPU id). Raises ValueError for a node that cannot be read."""
    capacity: dict[Place, int] = {}
    for node in nodes:
        metadata = node["metadata"]
        listed = (metadata.get("annotations") or {}).get(names.ANNOTATION_NODE_GPUS)
        labels = metadata.get("labels") or {}
        found = _listed(listed) if listed is not None else _labelled(labels) if names.GFD_COUNT in labels else []
        for gpu, mib in found:
            capacity[metadata["name"], gpu] = mib
    return capacity


def _listed(text: str) -> list[tuple[str, int]]:
    try:
        entries = json.loads(text)
    except RecursionError:
        raise ValueError("the list of GPUs is nested too deeply") from None
    if not isinstance(entries, list) or len(entries) > _MOST_GPUS:
        raise ValueError("no list of GPUs")
    found = [(str(entry["uuid"]), entry["memoryMiB"]) for entry in entries if _is_gpu(entry)]
    if len(dict(found)) != len(entries):
        raise ValueError("an entry is no GPU, or one is listed twice")
    return found


def _is_gpu(entry: Any) -> bool:
    if not isinstance(entry, dict) or not entry.keys() <= {"uuid", "product", "memoryMiB", "healthy"}:
        return False
    texts, memory = (entry.get("uuid"), entry.get("product")), entry.get("memoryMiB")
    return (
        all(isinstance(text, str) and text for text in texts)
        and not any(letter == "," or letter.isspace() for letter in entry["uuid"])
        and len(entry["uuid"]) <= _LONGEST_ID
        and type(memory) is int
        and 0 < memory <= _MOST_MIB
        and isinstance(entry.get("healthy", True), bool)
    )


def _labelled(labels: Mapping[str, str]) -> list[tuple[str, int]]:
    texts = (labels[names.GFD_COUNT], labels[names.GFD_MEMORY])
    if not all(text.isascii() and text.isdigit() for text in texts):
        raise ValueError(f"labels that say {texts[0]} GPUs of {texts[1]} MiB")
    count, mib = map(int, texts)
    if not 0 <= count <= _MOST_GPUS or not 0 < mib <= _MOST_MIB or names.GFD_PRODUCT not in labels:
        raise ValueError(f"labels that say {count} GPUs of {mib} MiB")
    return [(str(number), mib) for number in range(count)]


def holdings(pods: Iterable[RawObject]) -> list[GpuHolding]:
    found = []
    for pod in _holders(pods):
        metadata = pod["metadata"]
        annotations = metadata["annotations"]
        mib = annotations.get(names.ANNOTATION_GPU_MEMORY, "0").split(",")
        compute = annotations.get(names.ANNOTATION_GPU_COMPUTE, "").split(",")
        terms = _terms(pod)
        for number, gpu in enumerate(_names(pod)):
            found.append(
                GpuHolding(
                    metadata.get("namespace", "default"),
                    metadata["name"],
                    metadata["uid"],
                    (pod["spec"]["nodeName"], gpu),
                    int(mib[number]) if number < len(mib) else 0,
                    _wants_whole(pod["spec"]),
                    (metadata.get("labels") or {}).get(names.LABEL_MODEL),
                    annotations.get(names.ANNOTATION_ANTI_AFFINITY) == "None",
                    int(compute[number]) if number < len(compute) and compute[number] else None,
                    terms,
                )
            )
    return found


def _holders(pods: Iterable[RawObject]) -> Iterator[RawObject]:
    for pod in pods:
        finished = (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")
        bound = (pod.get("spec") or {}).get("nodeName")
        if bound and not finished and names.ANNOTATION_GPU in (pod["metadata"].get("annotations") or {}):
            yield pod


def _terms(pod: RawObject) -> Terms | None:
    """Terms on which a pod shares GPUs; None if it has none, or some that nobody can read, or asks no 100 percent."""
    text, spec = (pod["metadata"].get("annotations") or {}).get(names.ANNOTATION_GPU_SHARING), pod["spec"]
    if not isinstance(text, str) or _asked(spec, names.RESOURCE_GPU_COMPUTE) != _ALL_COMPUTE or _wants_whole(spec):
        return None
    try:
        found = json.loads(text, object_pairs_hook=_single, parse_int=str, parse_float=str, parse_constant=str)
        share, tolerance = (_millionths(found.pop(key)) for key in ("share", "tolerance"))
        factors = {model: _millionths(factor) for model, factor in found.pop("factors").items()}
        others = factors.pop("*")
    except (AttributeError, KeyError, RecursionError, TypeError, ValueError):
        return None
    sound = 0 < share <= _MILLION <= min(tolerance, others, *factors.values()) and all(map(_is_label, factors))
    if found or not sound or len(factors) > _MOST_FACTORS or len(text) > _LONGEST_TERMS:
        return None
    return Terms(share, tolerance, others - _MILLION, tuple(sorted((m, f - _MILLION) for m, f in factors.items())))


def _is_label(model: str) -> bool:
    """Whether a model's name can be the value of a label."""
    inner = model.replace("-", "0").replace("_", "0").replace(".", "0")
    return len(model) <= _LONGEST_ID and inner.isascii() and inner.isalnum() and (model[0] + model[-1]).isalnum()


def _single(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(dict(pairs)) < len(pairs):
        raise ValueError("a key is there twice")
    return dict(pairs)


def _millionths(number: str) -> int:
    """Of a decimal number of at most six digits before the point and six after."""
    whole, point, rest = number.partition(".")
    if not all(
        1 <= len(part) <= 6 and part.isascii() and part.isdigit() for part in (whole, *([rest] if point else ()))
    ):
        raise ValueError(number)
    return int(whole) * _MILLION + int(rest.ljust(6, "0"))


def _miscounted(pods: Iterable[RawObject]) -> Iterator[str]:
    """Pods whose annotations name another number of GPUs, or of MiB, or other compute than their containers request."""
    for pod in _holders(pods):
        metadata, asked = pod["metadata"], max(_asked(pod["spec"], names.RESOURCE_GPU), 1)
        for key in (names.ANNOTATION_GPU, names.ANNOTATION_GPU_MEMORY):
            written = metadata["annotations"].get(key, "")
            said = len(_names(pod)) if key == names.ANNOTATION_GPU else written.count(",") + 1
            if said != asked:
                who = f"{metadata.get('namespace', 'default')}/{metadata['name']}"
                yield f"pod {who}: {key} {written[:_SHOWN]} is not {asked} GPUs"
        percent = 0 if _wants_whole(pod["spec"]) else _asked(pod["spec"], names.RESOURCE_GPU_COMPUTE)
        written = metadata["annotations"].get(names.ANNOTATION_GPU_COMPUTE, "")
        if written != ",".join([str(percent)] * asked if percent else []):
            who = f"{metadata.get('namespace', 'default')}/{metadata['name']}"
            said = f"{names.ANNOTATION_GPU_COMPUTE} {written[:_SHOWN]!r}"
            yield f"pod {who}: {said} is not {percent} percent on {asked} GPUs"


def _wants_whole(spec: RawObject) -> bool:
    return _asked(spec, names.RESOURCE_GPU) > 0 and _asked(spec, names.RESOURCE_GPU_MEMORY) == 0


def _asked(spec: RawObject, resource: str) -> int:
    sidecars = [c for c in spec.get("initContainers") or () if c.get("restartPolicy") == "Always"]
    limits = [(c.get("resources") or {}).get("limits") or {} for c in [*(spec.get("containers") or ()), *sidecars]]
    return sum(_number(str(limit.get(resource, 0))) for limit in limits)


def _number(quantity: str) -> int:
    """The API server writes 12000 as "12k"."""
    digits = quantity.rstrip("kMGKi")
    return int(digits) * _SUFFIXES[quantity[len(digits) :]]
