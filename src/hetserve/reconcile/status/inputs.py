"""Status of InstanceTypes and ModelProfiles: who may use them, and whether they can be used."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from hetserve.api.conditions import ConditionType, Reason
from hetserve.api.input_status import MOST_CONFLICTS
from hetserve.api.instance_type import InstanceType
from hetserve.api.kinds import INSTANCE_TYPE, MODEL_PROFILE
from hetserve.api.model_profile import ModelProfile
from hetserve.base.timestamps import timestamp
from hetserve.planning.offers import namespace_of
from hetserve.reconcile.cluster.observed import Broken, ServiceOutline
from hetserve.sanitize import sanitize

Json = dict[str, Any]
Place = tuple[str, str | None]
"""Namespace and model."""
USABLE = "Usable"
_MAX_MESSAGE = 4096


@dataclass(frozen=True, slots=True)
class InputStatus:
    """What is to be said of one object. extra: fields of its kind."""

    path: str
    generation: int
    services: int
    ready: bool
    reason: str
    message: str
    extra: tuple[tuple[str, Any], ...] = ()

    def document(self, before: Mapping[str, Any], now: datetime) -> Json:
        """The status; its condition keeps the time of one in `before` (the status as stored) with the same status."""
        status = str(self.ready)
        kept = [c for c in before.get("conditions") or () if (c.get("type"), c.get("status")) == ("Ready", status)]
        condition = {
            "type": ConditionType.READY.value,
            "status": status,
            "reason": self.reason,
            "message": sanitize(self.message)[:_MAX_MESSAGE],
            "observedGeneration": self.generation,
            "lastTransitionTime": kept[0]["lastTransitionTime"] if kept else timestamp(now),
        }
        extra = {name: list(value) if isinstance(value, tuple) else value for name, value in self.extra}
        return {
            "observedGeneration": self.generation,
            "services": self.services,
            "conditions": [condition],
            **extra,
        }


@dataclass(slots=True)
class _Uses:
    """Services by type, and by namespace, model and type."""

    of_type: Counter[str] = field(default_factory=Counter)
    of_profile: Counter[tuple[Place, str]] = field(default_factory=Counter)


def input_statuses(
    services: Iterable[ServiceOutline],
    types: Iterable[InstanceType | Broken],
    profiles: Iterable[ModelProfile | Broken],
) -> Iterator[InputStatus]:
    """The status of every type and profile; services that ask alike are counted together."""
    types, profiles = tuple(types), tuple(profiles)
    rivals: dict[Place, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for profile in profiles:
        place, kind, name = _of_profile(profile)
        if kind is not None:
            rivals[place][kind].append(name)
    for kinds in rivals.values():
        for names in kinds.values():
            names.sort()
    uses = _uses(services, types, rivals)
    on_type = Counter(kind for kinds in rivals.values() for kind, names in kinds.items() for _ in names)
    for found in types:
        yield _type_status(found, uses, on_type)
    known = {_name(found) for found in types}
    for profile in profiles:
        yield _profile_status(profile, uses, rivals, known)


def _uses(
    services: Iterable[ServiceOutline],
    types: Iterable[InstanceType | Broken],
    profiled: Mapping[Place, Mapping[str, list[str]]],
) -> _Uses:
    labels = {_name(found): _labels(found) for found in types}
    alike = Counter(
        (s.namespace, s.model, s.type_names, None if s.type_labels is None else frozenset(s.type_labels.items()))
        for s in services
    )
    uses = _Uses()
    for (namespace, model, names, wanted), count in alike.items():
        place = (namespace, model)
        if names is not None:
            usable: Iterable[str] = names
        elif wanted is not None:
            usable = [name for name, own in labels.items() if wanted <= own.items()]
        else:
            usable = profiled.get(place, {})
        for name in usable:
            uses.of_type[name] += count
            uses.of_profile[place, name] += count
    return uses


def _type_status(found: InstanceType | Broken, uses: _Uses, on_type: Mapping[str, int]) -> InputStatus:
    name = _name(found)
    path = INSTANCE_TYPE.path(name=name)
    extra = (("profiles", on_type.get(name, 0)),)
    if isinstance(found, Broken):
        return InputStatus(path, found.generation, uses.of_type[name], False, Reason.SPEC_INVALID, found.error, extra)
    words = "services can be planned on it"
    return InputStatus(path, found.metadata.generation, uses.of_type[name], True, USABLE, words, extra)


def _profile_status(
    profile: ModelProfile | Broken, uses: _Uses, rivals: Mapping[Place, Mapping[str, list[str]]], known: set[str]
) -> InputStatus:
    place, kind, name = _of_profile(profile)
    path = MODEL_PROFILE.path(place[0], name)
    count = uses.of_profile[place, kind] if kind is not None else 0
    first = rivals[place][kind][: MOST_CONFLICTS + 1] if kind is not None else []
    others = [other for other in first if other != name][:MOST_CONFLICTS]
    extra = (("conflicts", tuple(others)),)
    if isinstance(profile, Broken):
        return InputStatus(path, profile.generation, count, False, Reason.SPEC_INVALID, profile.error, extra)
    generation, ready, reason, words = profile.metadata.generation, False, str(Reason.PROFILE_CONFLICT), ""
    if others:
        words = f"{', '.join(others)} in the same namespace also speak of model {place[1]} on {kind}: keep one"
    elif kind not in known:
        reason, words = str(Reason.INSTANCE_TYPE_NOT_FOUND), f"there is no InstanceType {kind}"
    else:
        ready, reason, odd = True, USABLE, profile.spec.latency.warning
        words = "services can be planned from it" + (f"; {odd}" if odd else "")
    return InputStatus(path, generation, count, ready, reason, words, extra)


def _of_profile(profile: ModelProfile | Broken) -> tuple[Place, str | None, str]:
    """(namespace and model, type, name)."""
    if isinstance(profile, Broken):
        return (profile.namespace or "default", profile.model), profile.instance_type, profile.name
    return (namespace_of(profile), profile.spec.model), profile.spec.instance_type, profile.metadata.name


def _name(found: InstanceType | Broken) -> str:
    return found.name if isinstance(found, Broken) else found.metadata.name


def _labels(found: InstanceType | Broken) -> Mapping[str, str]:
    return found.labels if isinstance(found, Broken) else found.metadata.labels
