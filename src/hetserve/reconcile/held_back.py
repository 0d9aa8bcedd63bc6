"""What spec.pause and spec.mode leave of a decision."""

from __future__ import annotations

from dataclasses import replace

from hetserve.api.conditions import Reason
from hetserve.reconcile.plan_decision import Finding, PlanDecision
from hetserve.reconcile.plan_record import Json, PlanRecord
from hetserve.reconcile.switching import nonzero


def paused(decision: PlanDecision, recorded: PlanRecord | None) -> PlanDecision:
    """Without a change of the plan that spec.pause holds back; a plan that costs too much is left all the same.

    A service that follows its load has weighed the pause already.
    """
    service, record = decision.service, decision.record
    if service is None or service.spec.pause == "None" or decision.following is not None or not decision.fresh:
        return decision
    assert record is not None  # noqa: S101  a fresh decision has a record
    before = {} if recorded is None else recorded.nonzero
    after = record.nonzero
    adds = any(n > before.get(name, 0) for name, n in after.items())
    removes = any(n > after.get(name, 0) for name, n in before.items())
    held = (adds and service.spec.pauses("ScaleUp")) or (removes and service.spec.pauses("ScaleDown"))
    too_dear = recorded is not None and decision.budget is not None and recorded.cost > decision.budget
    if not held or too_dear:
        return decision
    words = f"spec.pause is {service.spec.pause}: {record.described} is not followed"
    planned = Finding("True", Reason.PLAN_COMPUTED, words)
    return replace(decision, planned=planned, record=recorded, fresh=False, follow=recorded is not None)


def advised(decision: PlanDecision, recorded: PlanRecord | None) -> PlanDecision:
    """What would be done, as advice; nothing is recorded or followed."""
    return replace(decision, record=recorded, fresh=False, follow=False, advice=_advice(decision, recorded))


def _advice(decision: PlanDecision, recorded: PlanRecord | None) -> Json | None:
    record = decision.record
    if record is None or not decision.fresh:
        return None
    if recorded is not None and nonzero(record.counts) == recorded.nonzero:
        return None
    entry = None if decision.following is None else decision.following.entry
    load = {} if record.load is None else {"load": record.raw["load"]}
    return {
        "summary": record.raw["summary"],
        "hourlyCost": record.raw["hourlyCost"],
        **load,
        "reason": str(Reason.PLAN_COMPUTED) if entry is None else entry["reason"],
        "message": (record.described if entry is None else entry["message"])[:4096],
    }
