"""What a status says of the load: the conditions of metrics and scaling, the demand, the decisions, the advice.

A measured figure moves at each pass. It causes no write: a condition keeps its message while its reason stays, and the
demand is written beside other changes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from pydantic import ValidationError

from hetserve.api.conditions import ConditionType, Reason
from hetserve.api.inference_service import InferenceService, InferenceServiceSpec
from hetserve.api.service.scaling_status import MOST_DECISIONS, DecisionStatus
from hetserve.base.timestamps import timestamp, unix_seconds
from hetserve.demand.observed import Demand, Freshness, Trouble
from hetserve.reconcile.cluster.observed import ScalerFact
from hetserve.reconcile.plans.plan_decision import Finding, PlanDecision
from hetserve.reconcile.snapshot import Json
from hetserve.registry.planners import PLANNERS, default_planner

_REFRESHED: Final = 60.0
"""Seconds by which a newer sample is worth writing, where something else is written."""
_MOST_NAMED: Final = 5


def scaling_findings(
    decision: PlanDecision,
    demand: Demand | None,
    before: Mapping[str, Mapping[str, Any]],
    scalers: Sequence[ScalerFact] = (),
    generation: int = 0,
) -> dict[ConditionType, Finding]:
    """Conditions of metrics and scaling. before: the stored conditions by type. scalers: as of ServiceSnapshot.

    generation: of the spec; of an earlier one, no message stays.
    """
    found = dict(_findings(decision, demand, before))
    foreign = None if decision.advises else foreign_scaler(scalers)
    present = {kind: one for kind, one in before.items() if one.get("observedGeneration") == generation}
    steady = {kind: _steady(kind, finding, present.get(kind.value)) for kind, finding in found.items()}
    return steady if foreign is None else {**steady, ConditionType.SCALING_ACTIVE: foreign}


def foreign_scaler(scalers: Iterable[ScalerFact]) -> Finding | None:
    """The condition ScalingActive of a service whose Deployments these scale; None: there are none."""
    named = [
        f"HorizontalPodAutoscaler {one.name} changes the replicas of Deployment {one.deployment}"
        for one in sorted(scalers)
    ]
    if not named:
        return None
    return Finding("False", Reason.FOREIGN_SCALER, f"{few(named, '; ')}; such changes are undone")


def few(items: Sequence[str], joint: str) -> str:
    """The first items, and how many more there are."""
    more = f"{joint}and {len(items) - _MOST_NAMED} more" if len(items) > _MOST_NAMED else ""
    return joint.join(items[:_MOST_NAMED]) + more


def _findings(
    decision: PlanDecision, demand: Demand | None, before: Mapping[str, Mapping[str, Any]]
) -> Iterator[tuple[ConditionType, Finding]]:
    metrics = metrics_finding(demand, decision.service)
    if metrics is None and demand is not None:  # Prometheus has not been asked yet
        metrics = Finding.stored(before.get(ConditionType.METRICS_AVAILABLE.value))
    if metrics is not None:
        yield ConditionType.METRICS_AVAILABLE, metrics
    following, service = decision.following, decision.service
    if following is None:
        held = _held_back(decision)
        if held is not None:
            yield ConditionType.SCALING_ACTIVE, held
        elif service is not None and service.spec.scaling is not None:
            yield ConditionType.SCALING_ACTIVE, Finding("Unknown", Reason.NOT_PLANNED, "there is no plan to scale from")
        return
    yield ConditionType.SCALING_ACTIVE, following.active
    limited = following.limited or Finding.stored(before.get(ConditionType.SCALING_LIMITED.value))
    if limited is not None:
        yield ConditionType.SCALING_LIMITED, limited


def _held_back(decision: PlanDecision) -> Finding | None:
    """Of a service that follows no load; None: nothing holds it back."""
    if decision.advises:
        return Finding("False", Reason.ADVISING, "spec.mode is Advise: nothing but the status is written")
    service = decision.service
    if service is None or service.spec.pause == "None" or service.spec.scaling is not None:
        return None
    message = f"spec.pause is {service.spec.pause}: a plan that does so is not followed"
    return Finding("False" if service.spec.pause == "All" else "True", Reason.PAUSED, message)


def _steady(kind: ConditionType, finding: Finding, before: Mapping[str, Any] | None) -> Finding:
    """The finding with its stored message, if only figures can differ; ScalingActive and pauses have none that move."""
    if finding.status != "Unknown" and (kind is ConditionType.SCALING_ACTIVE or finding.reason == Reason.PAUSED):
        return finding
    stored = finding.as_stored(Finding.stored(before))
    news = kind is ConditionType.METRICS_AVAILABLE and finding.status == "True"
    return finding if news and _first_clause(stored) != _first_clause(finding) else stored


def demand_status(stored: object, demand: Demand | None) -> Json | None:
    """status.demand; what is stored stays while it is of the same minute, and a merge keeps what was measured last."""
    before = dict(stored) if isinstance(stored, Mapping) else None
    if demand is None:
        return None
    if demand.trouble is Trouble.NOT_ASKED:
        return before
    latest, found = demand.latest, {"freshness": str(demand.freshness)}
    if latest is None:
        return found
    if before is not None and before.get("freshness") == demand.freshness and _is_recent(before, latest.at):
        return before
    return {**found, "qps": f"{latest.qps:.6g}", "sampledAt": timestamp(latest.at)}


def _is_recent(before: Mapping[str, Any], at: float) -> bool:
    try:
        known = unix_seconds(str(before.get("sampledAt")))
    except ValueError:
        return False
    return abs(at - known) < _REFRESHED


def capacity_status(stored: object, decision: PlanDecision) -> Json | None:
    """status.capacity; what is stored stays while nothing is decided: its digest says what it stands on."""
    service = decision.service
    if service is not None and service.spec.scaling is None:
        return None
    if decision.following is None:
        return dict(stored) if isinstance(stored, Mapping) else None
    return decision.following.known


def decisions_status(stored: object, decision: PlanDecision) -> list[Any] | None:
    """status.lastDecisions, the newest first; an entry goes with the plan that it records.

    What the API server would refuse, as it was written by another version, is left out.
    """
    known = [one for one in stored if _is_entry(one)] if isinstance(stored, list) else []
    entry = None if decision.explained is None or not decision.is_new else decision.explained.entry
    return ([] if entry is None else [entry]) + known[: MOST_DECISIONS - (entry is not None)] or None


def _is_entry(one: object) -> bool:
    try:
        DecisionStatus.model_validate(one)
    except ValidationError:
        return False
    return True


_BY_TROUBLE: Final = {
    Trouble.NOT_CONFIGURED: Reason.PROMETHEUS_NOT_CONFIGURED,
    Trouble.UNREACHABLE: Reason.PROMETHEUS_UNREACHABLE,
    Trouble.QUERY_REFUSED: Reason.QUERY_REFUSED,
    Trouble.QUERIES_NOT_ALLOWED: Reason.QUERIES_NOT_ALLOWED,
}
_BY_FRESHNESS: Final = {
    Freshness.STALE: Reason.METRICS_STALE,
    Freshness.MISSING: Reason.METRICS_MISSING,
    Freshness.INVALID: Reason.METRICS_INVALID,
}


def metrics_finding(demand: Demand | None, service: InferenceService | None) -> Finding | None:
    """Finding of MetricsAvailable; None: no condition without spec.metrics, and the one of before until it was asked.

    The message of fresh demand names what else is not known; figures that move at each pass are not in them. service:
    None: it cannot be read.
    """
    if demand is None or demand.trouble is Trouble.NOT_ASKED:
        return None
    if demand.freshness is Freshness.FRESH:
        idle = None if service is None else _decides_nothing(service.spec)
        message = "the load is measured" if idle is None else f"the load is measured and decides nothing: {idle}"
        return Finding("True", Reason.METRICS_FRESH, "; ".join((message, *demand.notes)))
    reason = _BY_FRESHNESS[demand.freshness] if demand.trouble is None else _BY_TROUBLE[demand.trouble]
    return Finding("False", reason, f"{demand.why}; nothing shrinks")


def _first_clause(finding: Finding) -> str:
    """What says more than figures, and than what else is not known."""
    return finding.message.partition("; ")[0]


def _decides_nothing(spec: InferenceServiceSpec) -> str | None:
    """Why no plan depends on what is measured; None: plans do."""
    if spec.metrics is None or spec.scaling is not None:
        return None
    if spec.objective == "MinCost":
        return "without spec.scaling the plan is for spec.load"
    if not spec.metrics.measures_mix:
        return "with MaxThroughput the batch sizes count, and spec.metrics.queries.batchSizes is not set"
    planner = spec.planner or default_planner("MaxThroughput")
    if PLANNERS[planner].tries:
        return None
    others = " or ".join(PLANNERS.names_of(lambda member: member.tries))
    return f"spec.planner {planner} tries no plan, so that two do not compare; set {others}"
