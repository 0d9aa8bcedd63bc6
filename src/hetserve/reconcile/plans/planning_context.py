"""A service that can be planned, and the decisions that every way of planning it can come to."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import lru_cache
from typing import Any, Final

from hetserve.api.conditions import ConditionType, Reason
from hetserve.api.inference_service import InferenceService
from hetserve.base.units import Millionths, format_ratio
from hetserve.demand.mix import BatchMix
from hetserve.objects.gpu_sharing import ONE, terms_text
from hetserve.planning.offers import Offer, Offers, Unplannable, at_tolerance
from hetserve.planning.plan import Counts, Plan
from hetserve.planning.problem import Problem, ResourceAmounts, TypeOption
from hetserve.planning.tenancy import Tenancy
from hetserve.planning.tolerances import with_tolerances
from hetserve.profiles.variants import served_variants
from hetserve.reconcile.plans.bookings import as_recorded, is_booked_right, recorded_gpus
from hetserve.reconcile.plans.plan_decision import NOT_PLANNED, Finding, PlanDecision, PlanState, read_status
from hetserve.reconcile.plans.plan_record import (
    PlanRecord,
    RecordedGpus,
    plan_record,
    record_of_counts,
    with_sigma,
)
from hetserve.scaling.plans.counts import cost_of

_NOT_BOOKED: Final = (
    "the extender that leads does not say that it counts slow-downs by pairs, so no plan with shared GPUs is made; "
    "what runs stays"
)


STAYS: Final = (
    "; what runs stays: it shares its GPUs otherwise than is planned now, and instances that do so find no place there"
)
_ANSWERED: Final = (Reason.PLAN_COMPUTED, Reason.PLANNER_TIMED_OUT, Reason.PLANNER_FAILED)


@lru_cache(maxsize=1024)
def inputs_digest(declared: Problem) -> str:
    """Digest of a problem without facts of the cluster.

    Of how an instance has its GPU only the terms are in it: prices, demands and the record say the rest, and reasons
    are only text.
    """
    alone = declared.unshared if any(one.shares for one in declared.types) else ()
    written = _canonical(replace(declared, types=(), unshared=()))
    each = {"types": declared.types, "unshared": alone}
    written |= {name: list(map(_written, options)) for name, options in each.items() if options}
    booked = [one.slowdown for one in declared.types if one.shares and one.gpu is not None and one.gpu.terms is None]
    if booked:
        written["max_slowdown"] = booked[0]  # as plans with percentages were recorded
    terms = {one.name: terms_text(one.gpu.terms) for one in declared.types if one.gpu is not None and one.gpu.terms}
    if terms:
        written["terms"] = terms
    return hashlib.sha256(json.dumps(written, sort_keys=True).encode()).hexdigest()[:16]


def _written(option: TypeOption) -> dict[str, Any]:
    """A type in a digest, with what it declares of a GPU's compute as it was first written: among its demands."""
    bare = replace(option, gpu=None, own=None, demand=replace(option.demand, gpus=0))
    written: dict[str, Any] = _canonical(bare)
    if option.gpu is not None and option.gpu.compute:
        demand = written.get("demand") or {"": ResourceAmounts.__name__}
        written["demand"] = demand | {"gpu_compute": option.gpu.compute}
    return written


def _canonical(value: Any) -> Any:
    """A value as JSON. A field that is as empty as its default is left out, so that a new one changes no digest."""
    if is_dataclass(value):
        named = {field.name: (getattr(value, field.name), field.default) for field in fields(value) if field.compare}
        written = {name: _canonical(one) for name, (one, absent) in named.items() if absent or one != absent}
        return {"": type(value).__name__, **written}
    return list(map(_canonical, value)) if isinstance(value, tuple) else value


@dataclass(frozen=True, slots=True)
class PlanningContext:
    """A service that can be planned. declared: problem without facts of the cluster; problem: with them.

    stored: what the status says of planning. runs: whether it has any Deployment or pod. counts_pairs: as of
    ServiceSnapshot. max_slowdown: sigma. stays: instances run of which those that book as planned now would find no
    place. measured_mix: which the plan in force is for, and both problems with it; None: what is declared.
    declared_mix: of the spec.
    """

    service: InferenceService
    offers: Offers
    declared: Problem
    problem: Problem
    recorded: PlanRecord | None
    stored: Mapping[ConditionType, Finding | None]
    runs: bool
    counts_pairs: bool
    max_slowdown: Millionths
    stays: bool = False
    measured_mix: BatchMix | None = None
    declared_mix: BatchMix | None = None

    @property
    def digest(self) -> str:
        mix = self.declared_mix
        return inputs_digest(self.declared if mix is None else replace(self.declared, mix=mix))

    def under(self, mix: BatchMix | None) -> PlanningContext:
        """The context under a measured mix; None: under that of the spec."""
        if mix is None:
            return self
        problems = replace(self.declared, mix=mix), replace(self.problem, mix=mix)
        spec = self.declared.mix if self.declared_mix is None else self.declared_mix
        return replace(self, declared=problems[0], problem=problems[1], measured_mix=mix, declared_mix=spec)

    def at(self, tolerances: Mapping[str, Millionths]) -> PlanningContext:
        """The context where types share GPUs on tolerances of the service's own."""
        if not tolerances:
            return self
        usable = tuple(
            at_tolerance(offer, tolerances[offer.name]) if offer.name in tolerances else offer
            for offer in self.offers.usable
        )
        problems = with_tolerances(self.declared, tolerances), with_tolerances(self.problem, tolerances)
        return replace(self, offers=replace(self.offers, usable=usable), declared=problems[0], problem=problems[1])

    @property
    def kept(self) -> PlanningContext:
        """The context where an instance that runs alone tolerates what is recorded, if that is more than is planned."""
        if self.recorded is None:
            return self
        alone, terms = {name for name, n in self.recorded.counts if n == 1}, self.recorded.gpus.terms
        held = {one.name: one.slowdown or ONE for one in self.declared.types if one.own is not None}
        wider = {name: terms[name].tolerance for name in alone & terms.keys() & held.keys()}
        return self.at({name: most for name, most in wider.items() if most > held[name]})

    def promising(self, gpus: RecordedGpus) -> PlanningContext:
        """The context where types have the tolerances of a record, whose digest and prices are of these."""
        held = {one.name: one.slowdown for one in self.declared.types if one.own is not None}
        tolerances = {name: one.tolerance for name, one in gpus.terms.items() if name in held}
        return self.at({name: most for name, most in tolerances.items() if most != held[name]})


def record_of(context: PlanningContext, plan: Plan) -> PlanRecord:
    """The record of a plan; its digest and price are those of the tolerances that are recorded.

    A tolerance that instances have stays, unless it makes them dearer than the budget allows.
    """
    made = context.at(dict(plan.tolerances))
    gpus = recorded_gpus(plan.counts, made.offers.usable, context.recorded)
    promised = made.promising(gpus)
    cost, budget = cost_of(plan.counts, promised.declared), context.declared.budget
    if budget is not None and plan.cost <= budget < cost:
        gpus, promised, cost = recorded_gpus(plan.counts, made.offers.usable, None), made, plan.cost
    held = {name: terms.tolerance for name, terms in gpus.terms.items()}
    stays = [f"{name} keeps {format_ratio(held[name])}, as recorded" for name, t in plan.tolerances if held[name] != t]
    said = replace(plan, cost=cost, verdict="; ".join([plan.verdict or plan.message, *stays]))
    return with_sigma(plan_record(said, promised.digest, gpus), context.max_slowdown)


def handmade_of(context: PlanningContext, counts: Counts, message: str, plan: Plan | None, qps: float) -> PlanRecord:
    """The record of counts that no planner proposed as they are. plan: that they are a part of; qps: held at least."""
    by = context.problem.planned_by if plan is None else plan.planner
    cost, gpus = cost_of(counts, context.declared), recorded_gpus(counts, context.offers.usable, context.recorded)
    return record_of_counts(counts, cost, context.digest, gpus, qps=f"{qps:.1f}", planner=by, verdict=message)


def recorded_as(context: PlanningContext, record: PlanRecord, *, ideal: bool = False) -> PlanDecision:
    return planned(context, record, state_of(record, context.recorded), ideal=ideal)


def state_of(record: PlanRecord, recorded: PlanRecord | None) -> PlanState:
    """Of a plan that is followed. recorded: what the status has."""
    return PlanState.FOLLOWED if recorded is not None and record.raw == recorded.raw else PlanState.NEW


def pending(context: PlanningContext, standing: PlanRecord | None) -> PlanDecision:
    """The planner has not answered yet: a recorded plan of the same inputs is followed, and planning is not news."""
    if standing is None:
        awaited = PlanState.AWAITED
        return PlanDecision(NOT_PLANNED, NOT_PLANNED, NOT_PLANNED, context.recorded, awaited, service=context.service)
    decision = planned(context, standing)
    said, feasible = context.stored[ConditionType.PLANNED], context.stored[ConditionType.FEASIBLE]
    if said is None or feasible is None or said.reason not in _ANSWERED:
        return decision
    return replace(decision, planned=said, feasible=feasible)


def unbooked(context: PlanningContext, standing: PlanRecord | None) -> PlanDecision:
    """The extender counts no pairs: a recorded plan with shared GPUs is followed, and none is made."""
    if standing is not None:
        return pending(context, standing)
    return unplanned(Reason.COMPUTE_NOT_BOOKED, _NOT_BOOKED, context.recorded, context.service, context.offers)


def stays_as_recorded(context: PlanningContext, recorded: PlanRecord, made: PlanDecision) -> PlanDecision:
    """The recorded plan is followed as its instances share now: none that shares otherwise is made, or finds a place.

    made: what a planner says of such a plan.
    """
    decision = pending(context, recorded)
    if made.state is PlanState.AWAITED:
        return decision
    feasible = made.feasible
    if made.is_new and not made.waits:
        feasible = Finding("False", Reason.CAPACITY_TOO_LOW, f"{made.feasible.message}{STAYS}")
    return replace(decision, planned=made.planned, feasible=feasible, following=made.following)


def is_right(record: PlanRecord, context: PlanningContext) -> bool:
    """Whether nobody edited a record of the same inputs.

    One above the budget is right for a service that follows its load: it stands until the policy has cut it.
    """
    follows = context.service.spec.scaling is not None
    declared = replace(context.declared, budget=None) if follows else context.declared
    return _is_priced_right(record, declared) and is_booked_right(record, context.offers.usable)


def _is_priced_right(record: PlanRecord, declared: Problem) -> bool:
    """Whether the recorded cost equals the cost at declared prices and is within the budget."""
    if not {name for name, _ in record.counts} <= {option.name for option in declared.types}:
        return False
    cost = cost_of(record.counts, declared)
    return cost == record.cost and (declared.budget is None or cost <= declared.budget)


def planned(
    context: PlanningContext, record: PlanRecord, state: PlanState = PlanState.FOLLOWED, *, ideal: bool = False
) -> PlanDecision:
    return PlanDecision(
        Finding("True", Reason.PLAN_COMPUTED, record.described),
        Finding("True", Reason.PLAN_FEASIBLE, record.verdict),
        Finding("True", Reason.PROFILES_FOUND, _profiled(context.offers, context.service)),
        record,
        state,
        ideal=ideal,
        service=context.service,
        offers=as_recorded(_by_name(context.offers), record),
    )


def infeasible(context: PlanningContext, plan: Plan, recorded: PlanRecord | None, *, follow: bool) -> PlanDecision:
    offers = _by_name(context.offers)
    return PlanDecision(
        Finding("True", Reason.PLAN_COMPUTED, f"planned by {plan.planner}; no plan is feasible"),
        Finding("False", plan.reason, plan.message),
        Finding("True", Reason.PROFILES_FOUND, _profiled(context.offers, context.service)),
        recorded,
        PlanState.FOLLOWED if follow else PlanState.UNFOLLOWED,
        service=context.service,
        offers=offers if recorded is None else as_recorded(offers, recorded),
    )


def unplannable(
    why: Unplannable, recorded: PlanRecord | None, service: InferenceService, offers: Offers | None = None
) -> PlanDecision:
    decision = unplanned(why.reason, why.message, recorded, service, offers)
    if ConditionType.PROFILE_READY not in why.conditions:
        return decision
    profiles = Finding("False", why.reason, why.message)
    return PlanDecision(decision.planned, decision.feasible, profiles, recorded, service=service)


def unplanned(
    reason: Reason,
    message: str,
    recorded: PlanRecord | None,
    service: InferenceService | None = None,
    offers: Offers | None = None,
) -> PlanDecision:
    by_name = {} if offers is None else _by_name(offers)
    planned = Finding("False", reason, message)
    return PlanDecision(planned, NOT_PLANNED, NOT_PLANNED, recorded, service=service, offers=by_name)


def _profiled(offers: Offers, service: InferenceService) -> str:
    found = "profiles of this model on " + ", ".join(offer.name for offer in offers.usable)
    gpus = [(offer.name, offer.gpu) for offer in offers.usable if offer.gpu is not None]
    alone = [f"{name} ({gpu.why})" for name, gpu in gpus if gpu.tenancy is Tenancy.EXCLUSIVE]
    if alone:
        found += f"; a whole GPU for each instance on {', '.join(alone)}"
    apart = [name for name, gpu in gpus if gpu.shares and not gpu.copies]
    if apart and service.spec.own_copies == "Allowed":
        found += (
            f"; spec.ownCopies is Allowed, but copies stay apart on {', '.join(apart)}: no ModelProfile there has "
            f"interference of {service.spec.model.name} with itself, measure it"
        )
    served = " and ".join(served_variants([offer.profile for offer in offers.usable]))
    return f"{found}; of the variants the most accurate is planned and served: {served}" if served else found


def _by_name(offers: Offers) -> dict[str, Offer]:
    return {offer.name: offer for offer in offers.usable}


def stored_finding(raw: Mapping[str, Any], kind: ConditionType) -> Finding | None:
    """A condition in the status of a raw service."""
    conditions = read_status(raw).get("conditions") or ()
    return Finding.stored(next((c for c in conditions if isinstance(c, Mapping) and c.get("type") == kind.value), None))
