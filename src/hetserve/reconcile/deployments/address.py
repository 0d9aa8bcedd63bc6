"""The address of a service: a Service of its name, in its namespace, that leads to the router of that namespace.

One of that name that the service does not control is never touched.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from hetserve.api import names
from hetserve.api.inference_service import InferenceService
from hetserve.reconcile.cluster.routers import PORTS, Router
from hetserve.reconcile.deployments.build import owner_reference
from hetserve.reconcile.deployments.ownership import is_deleting, is_ours
from hetserve.reconcile.snapshot import Json, RawObject, ServiceSnapshot, WriteAddress

TAKEN_AGAIN: Final = 30.0
"""Seconds until a name that is taken is looked at again: nobody tells when a Service without our label goes."""
_ELSEWHERE: Final = ("selector", "externalIPs")
"""Fields by which a Service leads somewhere else."""


def may_have_address(raw: RawObject) -> bool:
    """Whether a stored service is dispatched to, or its status says that it has been."""
    parts = (raw.get("spec"), raw.get("status"))
    return any(isinstance(one, Mapping) and one.get("dispatch") is not None for one in parts)


def desired_address(service: InferenceService, router: Router | None) -> Json | None:
    """The Service; None: the service is not dispatched to, or no router serves its namespace."""
    if service.spec.dispatch is None or router is None:
        return None
    meta = service.metadata
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": meta.name,
            "namespace": meta.namespace_or_default,
            "labels": {names.LABEL_SERVICE: meta.name, names.LABEL_MANAGED_BY: names.MANAGED_BY},
            "ownerReferences": [owner_reference(service)],
        },
        "spec": {"type": "ExternalName", "externalName": router.host, "ports": [dict(port) for port in PORTS]},
    }


def is_taken(snapshot: ServiceSnapshot) -> bool:
    """Whether somebody else's Service has the name."""
    return snapshot.address is not None and not is_ours(snapshot.address, snapshot.uid)


def address_difference(snapshot: ServiceSnapshot, service: InferenceService) -> WriteAddress | None:
    """What would bring the address to what it should be, whether or not that may be sent now; None: it is so."""
    found, wanted = snapshot.address, desired_address(service, snapshot.router)
    if is_taken(snapshot) or found == wanted or (found is not None and is_deleting(found)):
        return None
    if found is None or wanted is None or not _is_as(found, wanted):
        return WriteAddress(service.metadata.namespace_or_default, service.metadata.name, wanted, found)
    return None


def next_address(snapshot: ServiceSnapshot, service: InferenceService | None) -> WriteAddress | None:
    """The request that is sent now. service: None: its spec cannot be read, and what stands stays."""
    if service is None or service.spec.mode == "Advise":
        return None
    request = address_difference(snapshot, service)
    return None if request is None or request.key in snapshot.refused or is_held(snapshot, request) else request


def is_held(snapshot: ServiceSnapshot, request: WriteAddress) -> bool:
    """Whether a correction waits, since somebody edits the Service again and again."""
    return request.corrects and request.repaired in snapshot.held


def address_wakes(snapshot: ServiceSnapshot, service: InferenceService | None) -> float | None:
    """Seconds until time alone changes what can be done about the address; None: nothing waits."""
    if service is None or service.spec.dispatch is None or snapshot.router is None:
        return None
    request = address_difference(snapshot, service)
    return TAKEN_AGAIN if is_taken(snapshot) else None if request is None else snapshot.held.get(request.repaired)


def correction(found: RawObject, wanted: Json) -> Json:
    """Merge patch of a Service of ours that somebody has edited, at exactly its resourceVersion."""
    known = {key: found["metadata"][key] for key in ("uid", "resourceVersion")}
    metadata = {**known, "labels": wanted["metadata"]["labels"]}
    return {"metadata": metadata, "spec": {**dict.fromkeys(_ELSEWHERE), **wanted["spec"]}}


def _is_as(found: RawObject, wanted: Json) -> bool:
    spec, labels = found.get("spec") or {}, found["metadata"].get("labels") or {}
    ports = [_port(one) for one in spec.get("ports") or ()]
    return (
        wanted["metadata"]["labels"].items() <= labels.items()
        and all(spec.get(key) == wanted["spec"][key] for key in ("type", "externalName"))
        and ports == list(map(_port, wanted["spec"]["ports"]))
        and not any(spec.get(key) for key in _ELSEWHERE)
    )


def _port(raw: RawObject) -> tuple[Any, ...]:
    return tuple(raw.get(key) for key in ("name", "port", "protocol", "targetPort", "appProtocol"))
