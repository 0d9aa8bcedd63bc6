"""Decides which plan is in force for a service that follows its measured load: the policy of `hetserve.scaling`.

The recorded plan carries the load that it was made for beside the digest of what is declared, so that no digit of the
load makes another plan. What the policy reads besides is in the snapshot: samples, pods, and the recorded decisions.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Final

from hetserve import scaling
from hetserve.api.conditions import ConditionType, Reason
from hetserve.base.timestamps import timestamp
from hetserve.base.units import QPS, Seconds
from hetserve.demand.measured_mix import moved_mix
from hetserve.demand.observed import Demand, Freshness
from hetserve.demand.windows import highest, lowest
from hetserve.planning.reach import PlannerJob
from hetserve.planning.registry import has_judge
from hetserve.reconcile.cluster.launch_times import served_since
from hetserve.reconcile.cluster.observed import PodFact
from hetserve.reconcile.plans.capacities import Capacities
from hetserve.reconcile.plans.changes import CLOCKS_DIFFER, entry_of, history_of
from hetserve.reconcile.plans.pause_and_advise import Advice, held_advice, stored_advice
from hetserve.reconcile.plans.plan_decision import Explained, Finding, Following, PlanDecision, PlanState, read_status
from hetserve.reconcile.plans.plan_record import PlanRecord, with_load, with_mix
from hetserve.reconcile.plans.planner import Planner, PlannerTimedOut, PlanPending, PlanQuestion
from hetserve.reconcile.plans.planning_context import (
    PlanningContext,
    handmade_of,
    is_right,
    pending,
    record_of,
    recorded_as,
    stored_finding,
    unbooked,
    unplanned,
)
from hetserve.reconcile.snapshot import ServiceSnapshot
from hetserve.scaling import Action, Decision, ScalingReason
from hetserve.scaling.actions.growth import is_short, late_until, misses_slo
from hetserve.scaling.actions.shrinking import stays_until
from hetserve.scaling.dead_band import over
from hetserve.scaling.mix import mix_to_follow
from hetserve.scaling.plans.counts import in_order
from hetserve.scaling.plans.problems import can_wait
from hetserve.scaling.policy import turns_in
from hetserve.scaling.record.record import DecisionRecord, decided_on_record
from hetserve.scaling.scarcity import since_asked

_NOT_MEASURED: Final = Demand(Freshness.MISSING, "spec.metrics is not set")
_LIMITS: Final = {
    ScalingReason.STEP_POLICY: Reason.STEP_POLICY_LIMITS,
    ScalingReason.AT_MINIMUM: Reason.MIN_INSTANCES_REACHED,
    ScalingReason.AT_MAXIMUM: Reason.MAX_INSTANCES_REACHED,
    ScalingReason.BEYOND_REACH: Reason.LOAD_BEYOND_REACH,
    ScalingReason.BEYOND_ROOM: Reason.CAPACITY_LIMITS,
    ScalingReason.BEYOND_BUDGET: Reason.BUDGET_LIMITS,
    ScalingReason.BUDGET_CUT: Reason.BUDGET_LIMITS,
    ScalingReason.TYPE_SCARCE: Reason.TYPE_SCARCE,
    ScalingReason.PAUSED: Reason.PAUSED,
}
_NOT_JUDGED: Final = "the load is not known throughout the windows, so nothing says whether anything limits it"
_BY_BUDGET: Final = (ScalingReason.BEYOND_BUDGET, ScalingReason.BUDGET_CUT)
_LATE: Final = "queries that are late do not count"
_NOTHING: Final = (ScalingReason.LOAD_UNKNOWN, ScalingReason.PLANNER_FAILED, ScalingReason.PAUSED)


def choose_scaled(context: PlanningContext, snapshot: ServiceSnapshot, planner: Planner) -> PlanDecision:
    """The decision of the policy, as a plan in force. Calls the planner as `decide` of `hetserve.scaling` asks."""
    in_force = _in_force(context)
    if not context.counts_pairs and any(offer.shares for offer in context.offers.usable):
        return unbooked(context, in_force)
    # A mix that has moved is recorded at once, with whatever is decided: it stays while nothing is measured.
    before, context = context, context.under(mix_to_follow(context.problem, snapshot.demand or _NOT_MEASURED))
    advice = stored_advice(context, snapshot.service or {})
    history = history_of(snapshot.service or {}, snapshot.now.timestamp())
    since = _mix_since(context, before, snapshot)
    facts = facts_of(context, snapshot, in_force_by(in_force, advice, since), history.changes)
    known = Capacities(context.problem, facts.in_force, read_status(snapshot.service or {}).get("capacity"))
    decided, on_record = decided_for(context, facts, known.answering(asking(context, planner, facts)))
    following = _following(context, snapshot, facts, decided, history.ignored)
    following = replace(following, known=None if decided.counts is None else known.told(decided.counts))
    if context.service.spec.mode == "Advise":
        following = replace(following, capacity=None)  # of what is advised, not of what runs
    if context.service.spec.mode == "Advise" and context.measured_mix != before.measured_mix:
        following = replace(following, known=None)  # the mix is not recorded: each pass would write other figures
    if decided.counts is None:
        none = _without_plan(context, decided)
        planned = _steady(none.planned, context, snapshot, ConditionType.PLANNED)
        feasible = _steady(none.feasible, context, snapshot, ConditionType.FEASIBLE)
        return replace(none, planned=planned, feasible=feasible, following=following)
    if decided.changes:
        record = with_mix(with_load(_record(context, decided), decided.load), context.measured_mix, since)
        explained = Explained(entry_of(decided, context.recorded, record, snapshot.now), on_record)
        made = replace(recorded_as(context, record), explained=explained)
    else:
        made = _held(context, in_force, advice, decided, since)
    planned, feasible = made.planned, _feasible(context, decided, made)
    if decided.reason is ScalingReason.PLANNER_FAILED:
        planned = Finding("True", Reason.PLANNER_FAILED, f"{planned.message}; {decided.words}")
    if not made.is_new:
        if _is_still_short(context, decided):
            feasible = context.stored[ConditionType.FEASIBLE] or feasible
            # It ends as soon as it is not true. Advice has no message of its own to keep.
            limited = following.limited if context.service.spec.mode == "Advise" else None
            following = replace(following, dead_band=None, stays=False, limited=limited)
        planned = _steady(planned, context, snapshot, ConditionType.PLANNED)
        feasible = _steady(feasible, context, snapshot, ConditionType.FEASIBLE)
    return replace(made, planned=planned, feasible=feasible, following=following)


def decided_for(
    context: PlanningContext, facts: scaling.Facts, ask: scaling.Ask
) -> tuple[Decision, DecisionRecord | None]:
    """The policy's decision, and its record; advice, which is given anew at each pass, has none."""
    if context.service.spec.mode == "Advise":
        return scaling.decide(facts, ask), None
    meta = context.service.metadata
    return decided_on_record(meta.name, meta.namespace or "default", facts, ask)


def _mix_since(context: PlanningContext, before: PlanningContext, snapshot: ServiceSnapshot) -> float | None:
    """From when on the mix of the case counts, in whole seconds; None: it is declared, or not to be recorded."""
    now = float(int(snapshot.now.timestamp()))
    if context.measured_mix != before.measured_mix:
        return None if context.service.spec.mode == "Advise" else now
    recorded = None if context.recorded is None or context.measured_mix is None else context.recorded.mix_since
    return None if recorded is None or recorded > now + CLOCKS_DIFFER else min(recorded, now)


def _in_force(context: PlanningContext) -> PlanRecord | None:
    """The recorded plan, unless somebody edited it."""
    recorded = context.recorded
    edited = recorded is not None and recorded.inputs == context.digest and not is_right(recorded, context)
    return None if edited else recorded


def in_force_by(
    recorded: PlanRecord | None, advice: Advice | None, mix_since: float | None = None
) -> scaling.InForce | None:
    """What the policy takes for the plan in force: the advice that stands, else the recorded plan."""
    stands = recorded if advice is None else advice
    return None if stands is None else scaling.InForce(stands.counts, stands.load, mix_since)


def facts_of(
    context: PlanningContext,
    snapshot: ServiceSnapshot,
    in_force: scaling.InForce | None,
    changes: tuple[scaling.Change, ...],
) -> scaling.Facts:
    """What the policy decides by."""
    spec, load = context.service.spec, context.service.spec.load
    assert spec.scaling is not None  # noqa: S101  the caller has checked
    now, bound = snapshot.now.timestamp(), _counted(snapshot, lambda pod: pod.node is not None)
    counts = {} if in_force is None else dict(in_force.counts)
    launches = {option.name: option.launch_time for option in context.declared.types}
    return scaling.Facts(
        now=now,
        rules=scaling.scaling_rules(spec.scaling),
        demand=snapshot.demand or _NOT_MEASURED,
        problem=context.problem,
        declared=context.declared,
        in_force=in_force,
        expected=None if load is None or load.expected_qps is None else QPS(load.expected_qps),
        pause=scaling.Pause(spec.pause),
        keeps_over_budget=spec.budget is not None and spec.budget.when_too_low == "Keep",
        changes=changes,
        ready=_counted(snapshot, lambda pod: pod.ready),
        bound=bound,
        waiting=since_asked(waiting_times(snapshot), changes, bound, now),
        served_since=served_since(snapshot.pods, counts, launches, now + CLOCKS_DIFFER),
    )


def _counted(snapshot: ServiceSnapshot, counts: Callable[[PodFact], bool]) -> Mapping[str, int]:
    live = (pod for pod in snapshot.pods if pod.instance_type is not None and not pod.terminating)
    return Counter(str(pod.instance_type) for pod in live if counts(pod))


def waiting_times(snapshot: ServiceSnapshot) -> Mapping[str, Seconds]:
    """Seconds for which the scheduler has found no place for the instance of each type that has waited longest.

    A pod's time at a gate does not count: nobody has sought a place for it.
    """
    found: defaultdict[str, Seconds] = defaultdict(lambda: Seconds(0.0))
    for pod in snapshot.pods:
        waits = pod.node is None and pod.waiting is not None and not (pod.gated or pod.terminating)
        since = _since(pod)
        if waits and pod.instance_type is not None and since is not None and not pod.other_model:
            found[pod.instance_type] = max(found[pod.instance_type], Seconds(snapshot.now.timestamp() - since))
    return dict(found)


def _since(pod: PodFact) -> float | None:
    """When a place was first sought; the creation, if nothing says so [Unix seconds]. None: not known."""
    if pod.refused_since is not None:
        return pod.refused_since
    return datetime.fromisoformat(pod.created).timestamp() if pod.created else None


def asking(context: PlanningContext, planner: Planner, facts: scaling.Facts) -> scaling.Ask:
    """The planner, as the policy asks it. The counts in force may be too few until it answers."""
    first = facts.in_force is None
    held = None if facts.in_force is None else in_order(facts.in_force.counts, context.problem)
    untried = first and not context.runs and has_judge(context.problem)

    def ask(work: PlannerJob) -> scaling.Answer:
        quick = untried and work.kind == "Decision"
        needed = first or (held is not None and not can_wait(work, held))
        question = PlanQuestion(work.problem, context.declared, needed, True, work.counts, quick, work.kind)
        answer = planner(question)
        if isinstance(answer, PlanPending) and _is_short(context, facts):
            answer = planner(replace(question, short=True))
        if isinstance(answer, PlanPending):
            return scaling.Pending()
        if isinstance(answer, PlannerTimedOut):
            return scaling.Unanswered(f"planner {answer.planner} was stopped after {answer.after:g} s")
        return answer

    return ask


def _is_short(context: PlanningContext, facts: scaling.Facts) -> bool:
    """Whether a plan that follows the load holds too little of it, and more may be added."""
    record, spec = context.recorded, context.service.spec
    may = spec.scaling is not None and spec.mode == "Apply" and facts.pause.adds
    return may and record is not None and facts.in_force is not None and is_short(facts, QPS(float(record.qps)))


def _without_plan(context: PlanningContext, decided: Decision) -> PlanDecision:
    """No plan is in force, and none is made now."""
    if decided.pending:
        return pending(context, None)
    if decided.held is not None:
        none = unplanned(Reason.NOT_PLANNED, decided.words, context.recorded, context.service, context.offers)
        computed = Finding("True", Reason.PLAN_COMPUTED, "no plan is feasible")
        return replace(none, planned=computed, feasible=_out_of_reach(decided))
    reason = Reason.PLANNER_FAILED if decided.reason is ScalingReason.PLANNER_FAILED else Reason.LOAD_UNKNOWN
    if decided.reason is ScalingReason.PAUSED:
        reason = Reason.NOT_PLANNED
    return unplanned(reason, decided.words, context.recorded, context.service, context.offers)


def _record(context: PlanningContext, decided: Decision) -> PlanRecord:
    """Of what is in force from now on: the planner's plan, or as much of it as limits allow."""
    plan, counts = decided.plan, decided.counts or ()
    if plan is not None and {n: c for n, c in plan.counts if c} == {n: c for n, c in counts if c}:
        return record_of(context, replace(plan, provisional=False))  # no tried plan for the same load follows
    return handmade_of(context, counts, decided.words, plan, _least_held(decided))


def _least_held(decided: Decision) -> float:
    """Queries/s that counts hold at least which no planner tried: more than what held so much, or enough for a load."""
    if decided.action is Action.SCALE_UP:
        return decided.measured.capacity or 0.0
    return decided.load or 0.0 if decided.action is Action.SCALE_DOWN else 0.0


def _kept(context: PlanningContext, in_force: PlanRecord) -> PlanRecord:
    """What is in force, recorded anew where what is declared has changed."""
    if in_force.inputs == context.digest:
        return in_force
    known = {option.name for option in context.declared.types}
    counts = tuple((name, n) for name, n in in_force.counts if name in known)
    if len(counts) < len(in_force.counts):
        return in_force
    kept = handmade_of(context, counts, in_force.verdict, None, float(in_force.qps))
    return with_load(replace(kept, raw={**kept.raw, "planner": in_force.raw["planner"]}), in_force.load)


def _held(
    context: PlanningContext, in_force: PlanRecord | None, advice: Advice | None, decided: Decision, since: float | None
) -> PlanDecision:
    """What is in force; it is not followed while it has a type that can no longer be used: what runs stays."""
    if advice is not None:
        return held_advice(context, advice, decided.words)
    assert in_force is not None  # noqa: S101  the policy holds only what is in force
    record = with_mix(_kept(context, in_force), context.measured_mix, since)
    made = recorded_as(context, record)
    usable = record.nonzero.keys() <= made.offers.keys()
    return made if usable else replace(made, state=PlanState.UNFOLLOWED)


def _steady(finding: Finding, context: PlanningContext, snapshot: ServiceSnapshot, kind: ConditionType) -> Finding:
    """The finding with its stored message if only digits can differ: same spec, same reason."""
    raw = snapshot.service or {}
    new = read_status(raw).get("observedGeneration") != raw["metadata"].get("generation")
    if new or finding.reason in (Reason.PLAN_COMPUTED, Reason.PLAN_FEASIBLE):
        return finding
    return finding.as_stored(context.stored[kind])


def _feasible(context: PlanningContext, decided: Decision, made: PlanDecision) -> Finding:
    """Whether what the load needs is within reach; until a planner answers, what was said before."""
    stored = context.stored[ConditionType.FEASIBLE]
    if decided.pending and stored is not None and stored.reason != Reason.NOT_PLANNED:
        return stored
    if decided.held is None and not any(limit.reason is ScalingReason.BUDGET_CUT for limit in decided.limits):
        return made.feasible
    return _out_of_reach(decided)


def _out_of_reach(decided: Decision) -> Finding:
    limits = [limit.reason for limit in decided.limits]
    if any(limit in _BY_BUDGET for limit in limits):
        return Finding("False", Reason.BUDGET_TOO_LOW, decided.words)
    slow = ScalingReason.BEYOND_REACH in limits
    return Finding("False", Reason.NO_TYPE_MEETS_SLO if slow else Reason.CAPACITY_TOO_LOW, decided.words)


def _is_still_short(context: PlanningContext, decided: Decision) -> bool:
    """Whether a load that was beyond reach may be so still: it is not known, or swings about what can be held."""
    stored = context.stored[ConditionType.FEASIBLE]
    if stored is None or stored.status != "False":
        return False
    if decided.changes or decided.held is not None or decided.reason is ScalingReason.PLANNER_FAILED:
        return False
    if decided.reason is ScalingReason.METRICS_NOT_FRESH:
        return True
    scaling_spec, seen = context.service.spec.scaling, decided.measured
    if scaling_spec is None or seen.highest is None or seen.capacity is None:
        return False
    return seen.highest > scaling.scaling_rules(scaling_spec).trigger * seen.capacity


def _following(
    context: PlanningContext,
    snapshot: ServiceSnapshot,
    facts: scaling.Facts,
    decided: Decision,
    ignored: tuple[str, ...],
) -> Following:
    """ignored: decisions in the status that do not count."""
    demand = snapshot.demand or _NOT_MEASURED
    fresh = demand.freshness is Freshness.FRESH and demand.latest is not None
    active = _active(context, demand, decided)
    late = _late(context, snapshot, facts) if active.reason is Reason.SCALING and not decided.changes else ()
    stays = _stays(facts) if active.reason is Reason.SCALING and not decided.changes else ()
    said = (active.message, *late, *stays, *_left_out(context, demand), *ignored[:1])
    return Following(
        replace(active, message="; ".join(said)) if len(said) > 1 else active,
        _limited(snapshot, facts, decided),
        load=demand.latest.qps if fresh and demand.latest is not None else None,
        capacity=decided.measured.capacity,
        dead_band=decided.dead_band,
        stays=context.problem.objective == "MinCost" and _lacks_samples(decided),
        growing=decided.growing,
        pending=decided.pending,
        turns_in=None if decided.pending else turns_in(facts),
        holders={} if facts.in_force is None else dict(facts.in_force.counts),
    )


def _lacks_samples(decided: Decision) -> bool:
    """Whether nothing changes before there are more samples. Without a highest load nothing shrinks or is replaced."""
    uncovered = decided.reason is ScalingReason.WINDOW_NOT_COVERED and decided.measured.highest is None
    return uncovered or decided.reason is ScalingReason.METRICS_NOT_FRESH


def _late(context: PlanningContext, snapshot: ServiceSnapshot, facts: scaling.Facts) -> tuple[str, ...]:
    """Until when queries that are late do not count.

    What is said stays till then: whether they are late moves with each sample.
    """
    stored, late = stored_finding(snapshot.service or {}, ConditionType.SCALING_ACTIVE), misses_slo(facts)
    if context.problem.objective != "MinCost" or not (late or (stored is not None and _LATE in stored.message)):
        return ()
    until = late_until(facts)
    if until is None:
        return ()
    end = "all that is planned has served for a while" if math.isinf(until) else timestamp(until)
    message = f"{_LATE} until {end}: they may have come before all that is planned served"
    return (message,) if late or (stored is not None and message in stored.message) else ()


def _stays(facts: scaling.Facts) -> tuple[str, ...]:
    """Until when what late queries asked for stays, whatever the load is."""
    until = stays_until(facts)
    return () if until is None else (f"late queries brought instances: none goes before {timestamp(until)}",)


def _left_out(context: PlanningContext, demand: Demand) -> tuple[str, ...]:
    """Why the mix as measured does not count, though it is another one."""
    if moved_mix(context.problem.mix, demand) is None:
        return ()
    return ("the measured mix of batch sizes does not count: no instance type serves it within the SLO",)


def _active(context: PlanningContext, demand: Demand, decided: Decision) -> Finding:
    spec = context.service.spec
    if spec.mode == "Advise":
        return Finding("False", Reason.ADVISING, "spec.mode is Advise: nothing is changed")
    if spec.pause == "All":
        return Finding("False", Reason.PAUSED, "spec.pause is All: no instance is added or removed for the load")
    if demand.freshness is not Freshness.FRESH:
        return Finding("False", Reason.WAITING_FOR_METRICS, f"the load is {demand.freshness}: nothing shrinks")
    if decided.counts is None:
        return Finding("Unknown", Reason.NOT_PLANNED, decided.words if decided.reason in _NOTHING else "")
    if spec.pause != "None":
        what = "added" if spec.pause == "ScaleUp" else "removed"
        return Finding("True", Reason.PAUSED, f"spec.pause is {spec.pause}: no instance is {what} for the load")
    return Finding("True", Reason.SCALING, "the number of instances follows the measured load")


def _limited(snapshot: ServiceSnapshot, facts: scaling.Facts, decided: Decision) -> Finding | None:
    """What keeps the instances from what the load asks for. None: a planner is asked.

    Where nobody can tell, what was found before stays: neither metrics that go nor a planner that fails end a limit.
    """
    if decided.pending:
        return None
    for limit in decided.limits:
        if limit.reason in _LIMITS:
            return Finding("True", _LIMITS[limit.reason], limit.words)
    if _is_judged(facts, decided):
        return Finding("False", Reason.NOT_LIMITED, "the instances are as the load asks for")
    stored = stored_finding(snapshot.service or {}, ConditionType.SCALING_LIMITED)
    if stored is not None or decided.counts is None:
        return stored or Finding("Unknown", Reason.NOT_PLANNED, "there is no plan to judge")
    return Finding("Unknown", Reason.WAITING_FOR_METRICS, _NOT_JUDGED)


def _is_judged(facts: scaling.Facts, decided: Decision) -> bool:
    """Whether the decision stands on a load that is known, and on an answer of the planner."""
    demand, rules = facts.demand, facts.rules
    covered = over(lowest, demand, rules.up.window) is not None and over(highest, demand, rules.down.window) is not None
    return covered and decided.counts is not None and decided.reason is not ScalingReason.PLANNER_FAILED
