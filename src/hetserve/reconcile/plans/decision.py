"""Decides which plan is in force, for a declared load or the measured one; then what pause and mode leave of it."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Final

from hetserve.api.conditions import ConditionType, Reason
from hetserve.api.inference_service import InferenceService
from hetserve.api.kinds import MODEL_PROFILE
from hetserve.base.units import QPS, parse_duration
from hetserve.demand.mix import BatchMix
from hetserve.planning.inputs import ClusterFacts, problem_of, without_slack_caps
from hetserve.planning.offers import Offers, Unplannable, namespace_of, resolve_offers
from hetserve.planning.problem import Problem
from hetserve.planning.registry import has_judge
from hetserve.planning.tenancy import SharingRule
from hetserve.reconcile.cluster.launch_times import observed_launch_times
from hetserve.reconcile.cluster.observed import place_of, read_service, service_outline
from hetserve.reconcile.plans.autoscaled import asking, choose_scaled, decided_for
from hetserve.reconcile.plans.bookings import as_measured, as_recorded, rule_of, rules_in_force, undeclared_types
from hetserve.reconcile.plans.changes import entry_of
from hetserve.reconcile.plans.pause_and_advise import advised, held_advice, paused, stored_advice
from hetserve.reconcile.plans.plan_decision import Explained, PlanDecision, PlanState
from hetserve.reconcile.plans.plan_record import PlanRecord, read_record, with_mix
from hetserve.reconcile.plans.plan_selection import choose
from hetserve.reconcile.plans.planner import Planner, fits
from hetserve.reconcile.plans.planning_context import (
    PlanningContext,
    is_right,
    pending,
    record_of,
    recorded_as,
    state_of,
    stays_as_recorded,
    stored_finding,
    unplannable,
    unplanned,
)
from hetserve.reconcile.snapshot import ServiceSnapshot
from hetserve.scaling import Facts, InForce, ScalingRules
from hetserve.scaling.mix import coarse, has_moved
from hetserve.scaling.plans.capacity import is_servable

_ANY_LOAD: Final = QPS(1.0)
"""Of a service that follows its load: what is planned for is measured, and no part of what is declared."""


def decide(snapshot: ServiceSnapshot, planner: Planner) -> PlanDecision:
    """Decision for the service in a snapshot; calls the planner only if its answer can matter."""
    assert snapshot.service is not None  # noqa: S101  the caller has checked
    recorded = read_record(snapshot.service)
    service = read_service(snapshot.service)
    if isinstance(service, str):
        return unplanned(Reason.SPEC_INVALID, service, recorded)
    decision = paused(_stored(_decide(snapshot, service, recorded, planner), recorded), recorded)
    return advised(decision, recorded, snapshot.service) if decision.advises else decision


def _stored(decision: PlanDecision, recorded: PlanRecord | None) -> PlanDecision:
    """A record with other terms than the stored one is new; where none is followed, the stored one stays."""
    record = decision.record
    if decision.is_new or record is None or recorded is None or record.gpus == recorded.gpus:
        return decision
    if decision.state is PlanState.FOLLOWED:
        return replace(decision, state=PlanState.NEW)
    return replace(decision, record=recorded)


def _decide(
    snapshot: ServiceSnapshot, service: InferenceService, recorded: PlanRecord | None, planner: Planner
) -> PlanDecision:
    problem_text = _stored_problem(snapshot)
    if problem_text is not None:
        return unplanned(Reason.SPEC_INVALID, problem_text, recorded, service)
    rule = rule_of(snapshot.settings, undeclared_types(snapshot, recorded), recorded)
    in_force = None if recorded is None else _in_force(snapshot, service, recorded, rule)
    context = _context(snapshot, service, recorded, rule)
    if recorded is None or in_force is None:
        return context if isinstance(context, PlanDecision) else _chosen(context, snapshot, planner)
    wanted = _chosen(in_force, snapshot, planner)
    if isinstance(context, PlanDecision) or not _leaves(wanted, recorded):
        return wanted
    made = _chosen(context, snapshot, planner)
    if _is_placed(made, wanted, context):
        return made
    return wanted if wanted.is_new and not made.waits else stays_as_recorded(in_force, recorded, made)


def _is_placed(made: PlanDecision, wanted: PlanDecision, context: PlanningContext) -> bool:
    """Whether a plan that is made now is followed: it finds a place for all that the one of the recorded kind has."""
    recorded = context.recorded
    if made.waits or not made.is_new or made.record is None or recorded is None:
        return False
    feasible, other = (one.feasible.status != "False" for one in (made, wanted))
    if not feasible and (other or made.record.nonzero == recorded.nonzero):
        return False
    scarce = context.stays or not feasible or context.problem.objective != "MinCost"
    return not (scarce and feasible == other and made.total < wanted.total)


def _in_force(
    snapshot: ServiceSnapshot, service: InferenceService, recorded: PlanRecord, rule: SharingRule
) -> PlanningContext | None:
    """The case by which the recorded plan was made; None: that of a plan that is made now.

    Percents stay after an edit too: the likeliest sigma is taken where none gives the digest.
    """
    likeliest = None
    for before in rules_in_force(rule, recorded):
        made = _context(snapshot, service, recorded, before)
        if isinstance(made, PlanningContext):
            if made.digest == recorded.inputs:
                return made
            likeliest = likeliest or made
    return likeliest if recorded.gpus.booked else None


def _leaves(wanted: PlanDecision, recorded: PlanRecord) -> bool:
    """Whether a recorded plan is left: then all instances share as they do in a plan that is made now."""
    if wanted.feasible.status == "False":
        return True
    record = wanted.record
    if not wanted.is_new or record is None:
        return False
    grown = record.inputs != recorded.inputs and record.gpus.booked != recorded.gpus.booked
    return grown or record.nonzero != recorded.nonzero


def _chosen(context: PlanningContext, snapshot: ServiceSnapshot, planner: Planner) -> PlanDecision:
    service, recorded = context.service, context.recorded
    try:
        mix = _mix_in_force(service, recorded)
        context = context.under(mix if mix is not None and is_servable(context.problem, mix) else None)
        return (choose_mixed if service.spec.scaling is None else choose_scaled)(context, snapshot, planner)
    except Exception as error:
        return unplanned(Reason.PLANNER_FAILED, f"{type(error).__name__}: {error}", recorded, service, context.offers)


def _mix_in_force(service: InferenceService, recorded: PlanRecord | None) -> BatchMix | None:
    """The measured mix that the recorded plan was made for; None: the declared one counts.

    The types may have changed since: one that they no longer serve is no plan's.
    """
    spec = service.spec
    follows = spec.objective == "MaxThroughput" or spec.scaling is not None
    measures = spec.metrics is not None and spec.metrics.measures_mix
    return recorded.mix if follows and measures and recorded is not None else None


def _context(
    snapshot: ServiceSnapshot,
    service: InferenceService,
    recorded: PlanRecord | None,
    sharing: SharingRule,
) -> PlanningContext | PlanDecision:
    """The case for a planner, where instances share by a rule; or why there is none."""
    assert snapshot.service is not None  # noqa: S101  the caller has checked
    offers = resolve_offers(service, snapshot.types, snapshot.profiles, sharing)
    if isinstance(offers, Unplannable):
        return unplannable(offers, recorded, service)
    place, planned = (namespace_of(service), service.metadata.name), _planned(snapshot, service, offers)
    asked = place, service.spec.model.name, planned.usable, snapshot.pods, snapshot.foreign_pods
    facts = _timed(snapshot, snapshot.capacity.facts(*asked, declaring=snapshot.declaring), service)
    declared = _problem(snapshot, service, planned, ClusterFacts())
    problem = _problem(snapshot, service, planned, facts)
    if isinstance(declared, Unplannable) or isinstance(problem, Unplannable):
        why = declared if isinstance(declared, Unplannable) else problem
        assert isinstance(why, Unplannable)  # noqa: S101  one of them is
        return unplannable(why, recorded, service, offers)
    recorded = None if recorded is None else _placed(snapshot, service, recorded, offers)
    stored = {kind: stored_finding(snapshot.service, kind) for kind in (ConditionType.PLANNED, ConditionType.FEASIBLE)}
    problem, runs = without_slack_caps(problem, declared), bool(snapshot.deployments or snapshot.pods)
    bound = Counter(pod.instance_type for pod in snapshot.pods if pod.node is not None and not pod.terminating)
    stays = any(has.running < bound[name] for name, has in facts.types.items())
    pairs, sigma = snapshot.counts_pairs, sharing.max_slowdown
    return PlanningContext(service, offers, declared, problem, recorded, stored, runs, pairs, sigma, stays)


def _placed(snapshot: ServiceSnapshot, service: InferenceService, recorded: PlanRecord, offers: Offers) -> PlanRecord:
    """The record; with terms as measured now, if its instances find a place only on these."""
    measured = as_measured(recorded, offers.usable)
    if measured is recorded or not _finds_places(snapshot, service, measured, offers):
        return recorded
    return recorded if _finds_places(snapshot, service, recorded, offers) else measured


def _finds_places(snapshot: ServiceSnapshot, service: InferenceService, record: PlanRecord, offers: Offers) -> bool:
    usable = as_recorded({one.name: one for one in offers.usable}, record).values()
    place = namespace_of(service), service.metadata.name
    found = snapshot.capacity.facts(place, service.spec.model.name, usable, snapshot.pods, snapshot.foreign_pods).types
    facts = ((n, found.get(name)) for name, n in record.counts)
    return all(one is not None and (one.room is None or one.running + one.room >= n) for n, one in facts)


def _planned(snapshot: ServiceSnapshot, service: InferenceService, offers: Offers) -> Offers:
    """The offers of a plan, with tolerances of its own for a fixed load that may share."""
    if service.spec.objective == "MinCost" and service.spec.scaling is None and snapshot.counts_pairs:
        return offers
    return replace(offers, usable=tuple(replace(offer, own=None) for offer in offers.usable))


def _problem(
    snapshot: ServiceSnapshot, service: InferenceService, offers: Offers, facts: ClusterFacts
) -> Problem | Unplannable:
    follows = service.spec.scaling is not None
    load = _ANY_LOAD if follows else None
    built = problem_of(service, offers, facts, snapshot.settings, load=load)
    return replace(built, load=None) if follows and isinstance(built, Problem) else built


def _timed(snapshot: ServiceSnapshot, facts: ClusterFacts, service: InferenceService) -> ClusterFacts:
    """With the launch times that this service's instances took. Only MinCost weighs them; the digest has none."""
    if service.spec.objective != "MinCost":
        return facts
    usable = (one for one in snapshot.types if one.metadata.name in facts.types)
    declared = {one.metadata.name: parse_duration(one.spec.launch_time) for one in usable}
    times = observed_launch_times(snapshot.pods, declared)
    if not times:
        return facts
    types = {name: replace(one, launch_time=times.get(name)) for name, one in facts.types.items()}
    return replace(facts, types=types)


def _stored_problem(snapshot: ServiceSnapshot) -> str | None:
    """The first broken type or profile that the service would use; None if there is none.

    A broken object must not stop services that do not use it.
    """
    if not snapshot.broken or snapshot.service is None:
        return None
    service = service_outline(snapshot.service)
    own = (service.namespace, service.model)
    profiled = {profile.spec.instance_type for profile in snapshot.profiles if place_of(profile) == own}
    for broken in snapshot.broken:
        if broken.kind == MODEL_PROFILE.name:
            names = service.type_names
            used = place_of(broken) == own and (names is None or broken.spec.instance_type in names)
        else:
            used = service.may_use(broken.metadata, profiled=broken.metadata.name in profiled)
        if used:
            return f"{broken.kind} {broken.metadata.name}: {broken.error}"
    return None


def choose_mixed(context: PlanningContext, snapshot: ServiceSnapshot, planner: Planner) -> PlanDecision:
    """The plan in force; of MaxThroughput one for the mix as measured, if it holds more by enough under that.

    Only planners that try what they claim are asked: the bounds of others do not compare. A recorded plan names the
    measured mix that it was made for, beside the digest of what is declared. From then on that mix stands for the
    declared one, as long as the load is measured: neither digits nor a restart undo the change.
    """
    standing, demand = _standing(context), snapshot.demand
    if standing is None or demand is None:
        return _labelled(context, choose(context, planner))
    advice = stored_advice(context, snapshot.service or {})
    held, now = InForce(standing.counts if advice is None else advice.counts), snapshot.now.timestamp()
    facts = Facts(now, ScalingRules(), demand, context.problem, context.declared, held)  # neither load nor what runs
    decided, on_record = decided_for(context, facts, asking(context, planner, facts))
    if decided.pending:
        return pending(context, standing)
    if decided.plan is None:
        if advice is not None and has_moved(context.problem, demand):
            return held_advice(context, advice, decided.words)
        return _labelled(context, choose(context, planner))
    assert demand.mix is not None  # noqa: S101  the plan is for it
    plan = replace(decided.plan, verdict=f"{decided.words}; {decided.plan.verdict or decided.plan.message}")
    record = with_mix(record_of(context, plan), coarse(demand.mix))
    explained = Explained(entry_of(decided, standing, record, snapshot.now), on_record)
    return replace(recorded_as(context, record), explained=explained)


def _standing(context: PlanningContext) -> PlanRecord | None:
    """The recorded plan, if it may be left for one of another mix: it is of the same inputs and fits the cluster."""
    record, spec = context.recorded, context.service.spec
    if record is None or record.inputs != context.digest or spec.objective != "MaxThroughput" or spec.metrics is None:
        return None
    booked = context.counts_pairs or not any(offer.shares for offer in context.offers.usable)
    return (
        record
        if booked and has_judge(context.problem) and is_right(record, context) and fits(record.counts, context.problem)
        else None
    )


def _labelled(context: PlanningContext, decision: PlanDecision) -> PlanDecision:
    """With the mix that it was planned for in its record."""
    if decision.record is None or not decision.is_followed:
        return decision
    record = with_mix(decision.record, context.measured_mix)
    if record.raw == decision.record.raw:
        return decision
    return replace(decision, record=record, state=state_of(record, context.recorded))
