"""Annotations by which a pod says which GPUs it accepts, beside whom, and by which policy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from hetserve.api import names
from hetserve.objects.fields import InvalidObjectError, short, text
from hetserve.placement.pods.requests import ANY_GPU, LONGEST_WISHES, MOST_WISHES, AntiAffinity, GpuSelector, PolicyName
from hetserve.registry.placement_policies import PLACEMENT_POLICIES

_LISTS: Final = (
    names.ANNOTATION_GPU_PRODUCT,
    names.ANNOTATION_GPU_PRODUCT_EXCLUDE,
    names.ANNOTATION_GPU_UUID,
    names.ANNOTATION_GPU_UUID_EXCLUDE,
)
_WISHES: Final = frozenset({names.ANNOTATION_ANTI_AFFINITY, names.ANNOTATION_PLACEMENT_POLICY, *_LISTS})


@dataclass(frozen=True, slots=True)
class Preferences:
    """A pod's wishes. `complaint`: the annotation that cannot be read; the wishes are the defaults then."""

    anti_affinity: AntiAffinity = AntiAffinity.HARD
    policy: PolicyName | None = None
    selector: GpuSelector = ANY_GPU
    complaint: str | None = None


_NO_WISHES: Final = Preferences()


def preferences(annotations: Mapping[str, Any]) -> Preferences:
    """Wishes of a pod; raises nothing."""
    if annotations.keys().isdisjoint(_WISHES):
        return _NO_WISHES
    anti_affinity = AntiAffinity.HARD
    try:
        affinities = tuple(member.value for member in AntiAffinity)
        wish = _choice(annotations, names.ANNOTATION_ANTI_AFFINITY, affinities)
        anti_affinity = AntiAffinity.HARD if wish is None else AntiAffinity(wish)
        named = _choice(annotations, names.ANNOTATION_PLACEMENT_POLICY, PLACEMENT_POLICIES.names)
        policy = None if named is None else PolicyName(named)
        return Preferences(anti_affinity, policy, _selector(annotations))
    except InvalidObjectError as error:
        return Preferences(anti_affinity, complaint=str(error))


def _choice(annotations: Mapping[str, Any], key: str, choices: Sequence[str]) -> str | None:
    value = text(annotations.get(key), f"annotation {key}")
    if value is not None and value not in choices:
        raise InvalidObjectError(f"annotation {key}: {short(value)} is not {' or '.join(choices)}")
    return value


def _selector(annotations: Mapping[str, Any]) -> GpuSelector:
    values = [text(annotations.get(key), f"annotation {key}") for key in _LISTS]
    if not any(values):
        return ANY_GPU
    _limited(values)
    return GpuSelector(*(_entries(value, key) if value else () for value, key in zip(values, _LISTS, strict=True)))


def _limited(values: Sequence[str | None]) -> None:
    """Raises InvalidObjectError, naming the list with which all are too long together."""
    entries = characters = 0
    for value, key in zip(values, _LISTS, strict=True):
        if value:
            entries, characters = entries + value.count(",") + 1, characters + len(value)
        if value and (entries > MOST_WISHES or characters > LONGEST_WISHES):
            most = f"{MOST_WISHES} entries or {LONGEST_WISHES} characters"
            raise InvalidObjectError(
                f"annotation {key}: with {short(value)} the lists of the pod have more than {most}"
            )


def _entries(value: str, key: str) -> tuple[str, ...]:
    entries = tuple(entry.strip() for entry in value.split(","))
    if not all(entries):
        raise InvalidObjectError(f"annotation {key}: {short(value)} has an empty entry; join entries by one ','")
    return tuple(sorted(set(entries)))
