"""What spec.pause and spec.mode leave of a decision."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from hetserve.api.conditions import ConditionType, Reason
from hetserve.base.units import QPS, format_money
from hetserve.planning.plan import Counts, counts_status, read_counts
from hetserve.reconcile.plans.changes import load_of
from hetserve.reconcile.plans.plan_decision import Finding, PlanDecision, PlanState, read_status
from hetserve.reconcile.plans.plan_record import Json, PlanRecord
from hetserve.reconcile.plans.planning_context import PlanningContext, handmade_of, recorded_as, stored_finding
from hetserve.reconcile.snapshot import RawObject
from hetserve.scaling.plans.counts import cost_of


@dataclass(frozen=True, slots=True)
class Advice:
    """Advice in the status of a service whose mode is Advise. raw: as stored, at the prices of now."""

    counts: Counts
    load: QPS | None
    raw: Json


def stored_advice(context: PlanningContext, raw: RawObject) -> Advice | None:
    """The advice in a service's status; None: there is none, or what it names cannot be planned with. raw: the service.

    Its counts have the types of the problem, in their order.
    """
    told = read_status(raw).get("advice")
    if context.service.spec.mode != "Advise" or not isinstance(told, Mapping):
        return None
    try:
        held, load = dict(read_counts(told["counts"])), load_of(told.get("load"))
    except (AttributeError, KeyError, TypeError, ValueError):
        return None
    counts = tuple((option.name, held.pop(option.name, 0)) for option in context.declared.types)
    wanted = {name: n for name, n in counts if n}
    if held or not wanted or (context.recorded is not None and wanted == context.recorded.nonzero):
        return None
    return Advice(counts, load, {**told, "hourlyCost": format_money(cost_of(counts, context.declared))})


def held_advice(context: PlanningContext, advice: Advice, message: str) -> PlanDecision:
    """The decision that advice stands. message: why, if it does not say so itself."""
    told = str(advice.raw.get("message") or message)
    record = handmade_of(context, advice.counts, told, None, advice.load or 0.0)
    return replace(recorded_as(context, record), advice=advice.raw)


def paused(decision: PlanDecision, recorded: PlanRecord | None) -> PlanDecision:
    """Without a change of the plan that spec.pause holds back; a plan that costs too much is left all the same.

    A service that follows its load has weighed the pause already.
    """
    service, record = decision.service, decision.record
    if service is None or service.spec.pause == "None" or decision.following is not None or not decision.is_new:
        return decision
    assert record is not None  # noqa: S101  a new decision has a record
    before = {} if recorded is None else recorded.nonzero
    after = record.nonzero
    adds = any(n > before.get(name, 0) for name, n in after.items())
    removes = any(n > after.get(name, 0) for name, n in before.items())
    held = (adds and service.spec.pauses("ScaleUp")) or (removes and service.spec.pauses("ScaleDown"))
    too_dear = recorded is not None and decision.budget is not None and recorded.cost > decision.budget
    if not held or too_dear:
        return decision
    message = f"spec.pause is {service.spec.pause}: {record.described} is not followed"
    planned = Finding("True", Reason.PLAN_COMPUTED, message)
    state = PlanState.UNFOLLOWED if recorded is None else PlanState.FOLLOWED
    return replace(decision, planned=planned, record=recorded, state=state)


def advised(decision: PlanDecision, recorded: PlanRecord | None, raw: RawObject) -> PlanDecision:
    """What would be done, as advice; nothing is recorded or followed. raw: the service.

    Where a service follows what is measured, advice for the same instances keeps its message, as a recorded plan does:
    the load moves at each pass. What is stored stays, too, while a planner is asked.
    """
    advice = decision.advice or _advice(decision, recorded)
    told = replace(decision, record=recorded, state=PlanState.UNFOLLOWED, advice=advice)
    stored = read_status(raw)
    before = stored.get("advice")
    follows = decision.following is not None or decision.advice is not None or decision.explained is not None
    if not follows or stored.get("observedGeneration") != raw["metadata"].get("generation"):
        return told
    asks = decision.following is not None and decision.following.limited is None and isinstance(before, dict)
    known = before if isinstance(before, Mapping) else {}
    same = advice is not None and all(advice[key] == known.get(key) for key in ("counts", "hourlyCost", "reason"))
    if not (asks or same):
        return told
    planned = decision.planned.as_stored(stored_finding(raw, ConditionType.PLANNED))
    feasible = decision.feasible.as_stored(stored_finding(raw, ConditionType.FEASIBLE))
    return replace(told, advice=before, planned=planned, feasible=feasible)


def _advice(decision: PlanDecision, recorded: PlanRecord | None) -> Json | None:
    record = decision.record
    if record is None or not decision.is_new:
        return None
    if recorded is not None and record.nonzero == recorded.nonzero:
        return None
    entry = None if decision.explained is None else decision.explained.entry
    load = {} if record.load is None else {"load": record.raw["load"]}
    return {
        "counts": counts_status(record.counts),
        "summary": record.raw["summary"],
        "hourlyCost": record.raw["hourlyCost"],
        **load,
        "reason": str(Reason.PLAN_COMPUTED) if entry is None else entry["reason"],
        "message": (record.described if entry is None else entry["message"])[:4096],
    }
