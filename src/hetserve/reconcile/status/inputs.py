"""Status of types and profiles: who may use them, and whether they can be used."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from hetserve.api.conditions import ConditionType, Reason
from hetserve.api.kinds import INSTANCE_TYPE, KINDS
from hetserve.api.model_profile import MOST_CONFLICTS, ModelProfile
from hetserve.base.timestamps import timestamp
from hetserve.reconcile.cluster.observed import Broken, PlanInput, ServiceOutline, place_of
from hetserve.reconcile.plans.plan_decision import Finding
from hetserve.reconcile.snapshot import Json
from hetserve.reconcile.status.build import condition

Place = tuple[str, str | None]
"""Namespace and model."""
USABLE = "Usable"


@dataclass(frozen=True, slots=True)
class InputStatus:
    """What is to be said of one object. extra: fields of its kind."""

    path: str
    generation: int
    services: int
    ready: bool
    reason: str
    message: str
    extra: Mapping[str, Any]

    def document(self, before: Mapping[str, Any], now: datetime) -> Json:
        """The status; its condition keeps the time of one in `before` (the status as stored) with the same status."""
        kept = next((c for c in before.get("conditions") or () if c.get("type") == ConditionType.READY), None)
        finding = Finding(str(self.ready), self.reason, self.message)
        return {
            "observedGeneration": self.generation,
            "services": self.services,
            "conditions": [condition(ConditionType.READY, finding, kept, self.generation, timestamp(now))],
            **self.extra,
        }


_Uses = tuple[Counter[str], Counter[tuple[Place, str | None]]]
"""Services by type, and by namespace, model and type."""


def input_statuses(
    services: Iterable[ServiceOutline], types: Iterable[PlanInput], profiles: Iterable[ModelProfile | Broken]
) -> Iterator[InputStatus]:
    """The status of every type and profile; services that ask alike are counted together."""
    types, profiles = tuple(types), tuple(profiles)
    rivals: dict[Place, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for profile in sorted(profiles, key=lambda one: one.metadata.name):
        if profile.spec.instance_type is not None:
            rivals[place_of(profile)][profile.spec.instance_type].append(profile.metadata.name)
    of_type, of_profile = _uses(services, types, rivals)
    on_type = Counter(kind for kinds in rivals.values() for kind, names in kinds.items() for _ in names)
    for found in types:
        name = found.metadata.name
        yield _status(found, of_type[name], "services can be planned on it", {"profiles": on_type[name]})
    known = {found.metadata.name for found in types}
    for profile in profiles:
        yield _profile_status(profile, of_profile[place_of(profile), profile.spec.instance_type], rivals, known)


def _uses(
    services: Iterable[ServiceOutline],
    types: Iterable[PlanInput],
    profiled: Mapping[Place, Mapping[str, list[str]]],
) -> _Uses:
    labels = {found.metadata.name: found.metadata.labels for found in types}
    alike = Counter(
        (s.namespace, s.model, s.type_names, None if s.type_labels is None else frozenset(s.type_labels.items()))
        for s in services
    )
    of_type: Counter[str] = Counter()
    of_profile: Counter[tuple[Place, str | None]] = Counter()
    for (namespace, model, names, wanted), count in alike.items():
        place = (namespace, model)
        if names is not None:
            usable: Iterable[str] = names
        elif wanted is not None:
            usable = [name for name, own in labels.items() if wanted <= own.items()]
        else:
            usable = profiled.get(place, {})
        for name in usable:
            of_type[name] += count
            of_profile[place, name] += count
    return of_type, of_profile


def _profile_status(
    profile: ModelProfile | Broken, count: int, rivals: Mapping[Place, Mapping[str, list[str]]], known: set[str]
) -> InputStatus:
    place, kind, name = place_of(profile), profile.spec.instance_type, profile.metadata.name
    first = rivals[place][kind][: MOST_CONFLICTS + 1] if kind is not None else []
    others = [other for other in first if other != name][:MOST_CONFLICTS]
    extra = {"conflicts": others}
    if isinstance(profile, Broken):
        return _status(profile, count, "", extra)
    if others:
        message = f"{', '.join(others)} in the same namespace also speak of model {place[1]} on {kind}: keep one"
        return _status(profile, count, message, extra, Reason.PROFILE_CONFLICT)
    if kind not in known:
        return _status(
            profile, count, f"there is no {INSTANCE_TYPE.name} {kind}", extra, Reason.INSTANCE_TYPE_NOT_FOUND
        )
    odd = profile.spec.warning
    return _status(profile, count, "services can be planned from it" + (f"; {odd}" if odd else ""), extra)


def _status(
    found: PlanInput, services: int, message: str, extra: Mapping[str, Any], wrong: Reason | None = None
) -> InputStatus:
    """wrong: why it cannot be used; one that breaks a rule of its kind says so itself."""
    meta, broken = found.metadata, isinstance(found, Broken)
    reason = Reason.SPEC_INVALID if broken else wrong
    path = KINDS[found.kind].path(meta.namespace_or_default, meta.name)
    text = found.error if isinstance(found, Broken) else message
    return InputStatus(path, meta.generation, services, reason is None, str(reason or USABLE), text, extra)
