"""Finds stored objects that break a rule, for example ones older than the rule."""

from __future__ import annotations

from hetserve.api.inference_service import InferenceService
from hetserve.planning.offers import namespace_of
from hetserve.reconcile.cluster.observed import Broken
from hetserve.reconcile.snapshot import ServiceSnapshot


def stored_problem(service: InferenceService, snapshot: ServiceSnapshot) -> str | None:
    """The first broken type or profile that the service would use, in words; None if there is none.

    A broken object must not stop services that do not use it.
    """
    for broken in snapshot.broken:
        if _used(service, broken, snapshot):
            return f"{broken.kind} {broken.name}: {broken.error}"
    return None


def _used(service: InferenceService, broken: Broken, snapshot: ServiceSnapshot) -> bool:
    if broken.kind == "ModelProfile":
        named = _names(service)
        return (
            broken.namespace == namespace_of(service)
            and broken.model == service.spec.model.name
            and (named is None or broken.instance_type in named)
        )
    ref = service.spec.instance_types
    if ref is not None and ref.names is not None:
        return broken.name in ref.names
    if ref is not None and ref.selector is not None:
        return all(broken.labels.get(key) == value for key, value in ref.selector.match_labels.items())
    return any(
        profile.spec.instance_type == broken.name
        and profile.spec.model == service.spec.model.name
        and namespace_of(profile) == namespace_of(service)
        for profile in snapshot.profiles
    )


def _names(service: InferenceService) -> list[str] | None:
    ref = service.spec.instance_types
    return None if ref is None else ref.names
