"""Advice that was given, which stands for the plan in force: what is advised swings no more than a plan would."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from hetserve.base.units import QPS, format_money
from hetserve.planning.plan import Counts, read_counts
from hetserve.reconcile.plans.changes import load_of
from hetserve.reconcile.plans.plan_decision import PlanDecision, read_status
from hetserve.reconcile.plans.plan_record import Json
from hetserve.reconcile.plans.planning_context import PlanningContext, cost_at, handmade_of, recorded_as
from hetserve.reconcile.snapshot import RawObject


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
    return Advice(counts, load, {**told, "hourlyCost": format_money(cost_at(context, counts))})


def held_advice(context: PlanningContext, advice: Advice, words: str) -> PlanDecision:
    """The decision that advice stands. words: why, if it does not say so itself."""
    told = str(advice.raw.get("message") or words)
    record = handmade_of(context, advice.counts, told, None, advice.load or 0.0)
    return replace(recorded_as(context, record), advice=advice.raw)
