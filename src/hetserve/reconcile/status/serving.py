"""Serving: whether the queries of a service are answered at its address, and status.dispatch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from hetserve.api.conditions import ConditionType, Reason
from hetserve.api.inference_service import InferenceService
from hetserve.api.service.dispatch import MOST_INSTANCES, DispatchSpec
from hetserve.reconcile.deployments.address import GRPC_PORT, address_difference, is_taken
from hetserve.reconcile.plans.plan_decision import Finding, PlanDecision, read_status
from hetserve.reconcile.plans.planning_context import stored_finding
from hetserve.reconcile.rollout import TypeState
from hetserve.reconcile.snapshot import Json, RouterFact, ServiceSnapshot

LASTING: Final = (
    Reason.NO_ROUTER,
    Reason.NAME_TAKEN,
    Reason.WRITE_REFUSED,
    Reason.ADVISING,
    Reason.TOO_MANY_INSTANCES,
)
"""Reasons that last until somebody changes something."""


@dataclass(frozen=True, slots=True)
class Serving:
    """finding: of the condition; None: the service is not dispatched to. dispatch: status.dispatch."""

    finding: Finding | None = None
    dispatch: Json | None = None

    @property
    def lacking(self) -> Finding | None:
        """What keeps the service from being Ready."""
        return None if self.finding is None or self.finding.status == "True" else self.finding


def serving(snapshot: ServiceSnapshot, decision: PlanDecision, states: Sequence[TypeState]) -> Serving:
    """Serving of the service in a snapshot; of one whose spec cannot be read, as stored."""
    raw, service = snapshot.service or {}, decision.service
    if service is None:
        return Serving(stored_finding(raw, ConditionType.SERVING), read_status(raw).get("dispatch"))
    spec, router = service.spec.dispatch, snapshot.router
    if spec is None:
        return Serving()
    where = f"namespace {service.metadata.namespace_or_default}"
    if router is None:
        words = f'no router serves {where}; add it, or "*" for all others, to one in the chart value routers'
        return Serving(Finding("False", Reason.NO_ROUTER, words))
    missing = _missing(snapshot, service)
    if missing is not None:
        return Serving(missing)
    address = _address(spec, f"{service.metadata.name}.{service.metadata.namespace_or_default}")
    finding = _answering(router, address, sum(state.ready for state in states))
    return Serving(finding, {"address": address, "router": router.name, "policy": spec.policy})


def _missing(snapshot: ServiceSnapshot, service: InferenceService) -> Finding | None:
    """Why the address does not stand; None: it does."""
    what = f"Service {service.metadata.name}"
    request = address_difference(snapshot, service)
    if is_taken(snapshot):
        words = f"{what} exists and does not belong to this service; delete or rename it, or name the service otherwise"
        return Finding("False", Reason.NAME_TAKEN, words)
    if request is None:
        return None
    if service.spec.mode == "Advise":
        return Finding("False", Reason.ADVISING, f"spec.mode is Advise: {what}, its address, is not written")
    changed = "somebody else changes it again and again, so it is corrected ever later"
    return Finding("False", Reason.WRITE_REFUSED, f"{what}: {snapshot.refused.get(request.key, changed)}")


def _answering(router: RouterFact, address: str, ready: int) -> Finding:
    if not router.leads:
        words = f"no process of router {router.name} holds its Lease; see its pods in the namespace of the release"
        return Finding("False", Reason.ROUTER_NOT_READY, words)
    if ready == 0:
        return Finding("False", Reason.NO_INSTANCE_READY, "no instance is ready, so every query is refused (503)")
    if ready > MOST_INSTANCES:
        words = f"{ready} instances are ready, and a router dispatches to at most {MOST_INSTANCES} of a service"
        return Finding("False", Reason.TOO_MANY_INSTANCES, f"{words}; use larger instance types, or several services")
    return Finding("True", Reason.QUERIES_SERVED, f"router {router.name} answers at {address}")


def _address(spec: DispatchSpec, host: str) -> str:
    return f"http://{host}" if spec.ports.http is not None else f"{host}:{GRPC_PORT}"
