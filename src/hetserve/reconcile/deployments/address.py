"""The address of a service: a Service of its name, in its namespace, that leads to the router of that namespace.

One of that name that the service does not control is never touched.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from hetserve.api import names
from hetserve.api.inference_service import InferenceService
from hetserve.reconcile.deployments.build import owner_reference
from hetserve.reconcile.deployments.ownership import is_deleting, is_ours
from hetserve.reconcile.snapshot import Json, RawObject, RouterFact, ServiceSnapshot, WriteAddress

GRPC_PORT: Final = 8001
PORTS: Final[tuple[Json, ...]] = (
    {"name": "http", "port": 80, "protocol": "TCP", "targetPort": 80},
    {"name": "grpc", "port": 8001, "protocol": "TCP", "targetPort": 8001, "appProtocol": "kubernetes.io/h2c"},
)
"""Of a router's Service."""
TAKEN_AGAIN: Final = 30.0
"""Seconds: nobody tells when a Service without our label goes."""
_ELSEWHERE: Final = ("selector", "externalIPs")
"""Fields by which a Service leads somewhere else."""


def may_have_address(raw: RawObject) -> bool:
    """Whether a stored service is dispatched to, or its status says that it has been."""
    parts = (raw.get("spec"), raw.get("status"))
    return any(isinstance(one, Mapping) and one.get("dispatch") is not None for one in parts)


def desired_address(service: InferenceService, router: RouterFact | None) -> Json | None:
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
        "spec": {"type": "ExternalName", "externalName": router.host, "ports": list(PORTS)},
    }


def is_taken(snapshot: ServiceSnapshot) -> bool:
    """Whether somebody else's Service has the name."""
    return snapshot.address is not None and not is_ours(snapshot.address, snapshot.uid)


def address_difference(snapshot: ServiceSnapshot, service: InferenceService) -> WriteAddress | None:
    """What would bring the address to what it should be, whether or not that may be sent now; None: it is so."""
    found, wanted = snapshot.address, desired_address(service, snapshot.router)
    if is_taken(snapshot) or (found is None and wanted is None) or (found is not None and is_deleting(found)):
        return None
    if found is None or wanted is None or not _is_as(found, wanted):
        return WriteAddress(service.metadata.namespace_or_default, service.metadata.name, wanted, found)
    return None


def next_address(snapshot: ServiceSnapshot, service: InferenceService | None) -> WriteAddress | None:
    """The request that is sent now. service: None: its spec cannot be read, and what stands stays."""
    if service is None or service.spec.mode == "Advise":
        return None
    request = address_difference(snapshot, service)
    return None if request is None or request.key in snapshot.refused or request.key in snapshot.held else request


def address_wakes(snapshot: ServiceSnapshot, service: InferenceService | None) -> float | None:
    """Seconds until a name that is taken is looked at again, or a held repair may be made; None: nothing waits."""
    if service is None or service.spec.dispatch is None:
        return None
    request = address_difference(snapshot, service)
    return TAKEN_AGAIN if is_taken(snapshot) else None if request is None else snapshot.held.get(request.key)


def correction(found: RawObject, wanted: Json) -> Json:
    """Merge patch of a Service of ours that somebody has edited, at exactly its resourceVersion."""
    known = {key: found["metadata"][key] for key in ("uid", "resourceVersion")}
    metadata = {**known, "labels": wanted["metadata"]["labels"]}
    return {"metadata": metadata, "spec": {**dict.fromkeys(_ELSEWHERE), **wanted["spec"]}}


def _is_as(found: RawObject, wanted: Json) -> bool:
    spec, labels = found.get("spec") or {}, found["metadata"].get("labels") or {}
    labelled = wanted["metadata"]["labels"].items() <= labels.items()
    as_wanted = all(spec.get(key) == value for key, value in wanted["spec"].items())
    return labelled and as_wanted and not any(spec.get(key) for key in _ELSEWHERE)
