"""Decides which plan is in force for a service that follows its measured load: the policy of `hetserve.scaling`.

The recorded plan carries the load that it was made for beside the digest of what is declared, so that no digit of the
load makes another plan. What the policy reads besides is in the world: samples, pods, and the recorded decisions.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Final

from hetserve import scaling
from hetserve.api.conditions import ConditionType, Reason
from hetserve.base.units import QPS, MicroDollarsPerHour, Seconds, format_money
from hetserve.demand.observed import Demand, Freshness
from hetserve.planning.plan import Counts, Plan
from hetserve.planning.work import Work
from hetserve.reconcile.cluster.observed import PodFact
from hetserve.reconcile.plans.bookings import recorded_gpus
from hetserve.reconcile.plans.case import Case, is_right, record_of, recorded_as, unbooked, unplanned
from hetserve.reconcile.plans.plan_decision import Finding, Following, PlanDecision, read_status
from hetserve.reconcile.plans.plan_record import Json, PlanRecord, handmade_record, summary, with_load
from hetserve.reconcile.plans.planner import Planner, PlannerTimedOut, PlanPending, PlanQuestion
from hetserve.reconcile.world import RawObject, World
from hetserve.scaling import Action, Decision, ScalingReason
from hetserve.scaling.later import turns_in
from hetserve.scaling.record.record import DecisionRecord, decided_on_record

_NOT_MEASURED: Final = Demand(Freshness.MISSING, "spec.metrics is not set")
_PART: Final = re.compile(r"(\d+)x(.+)")
_MOST_WORDS: Final = 1024
_TOLD: Final = 2048
_LIMITS: Final = {
    ScalingReason.STEP_POLICY: Reason.STEP_POLICY_LIMITS,
    ScalingReason.AT_MINIMUM: Reason.MIN_INSTANCES_REACHED,
    ScalingReason.AT_MAXIMUM: Reason.MAX_INSTANCES_REACHED,
    ScalingReason.BEYOND_REACH: Reason.LOAD_BEYOND_REACH,
    ScalingReason.BEYOND_BUDGET: Reason.BUDGET_LIMITS,
    ScalingReason.BUDGET_CUT: Reason.BUDGET_LIMITS,
    ScalingReason.TYPE_SCARCE: Reason.TYPE_SCARCE,
}
_BY_BUDGET: Final = (ScalingReason.BEYOND_BUDGET, ScalingReason.BUDGET_CUT)
_NOTHING: Final = (ScalingReason.LOAD_UNKNOWN, ScalingReason.PLANNER_FAILED, ScalingReason.PAUSED)


def choose_scaled(case: Case, world: World, planner: Planner) -> PlanDecision:
    """The decision of the policy, as a plan in force. Calls the planner as `decide` of `hetserve.scaling` asks."""
    in_force = _in_force(case)
    if not case.books_compute and any(offer.shares for offer in case.offers.usable):
        return unbooked(case, in_force)
    facts = facts_of(case, world, in_force)
    decided, on_record = _decided(case, facts, planner)
    following = _following(case, world, facts, decided)
    if decided.counts is None:
        none = _without_plan(case, decided)
        planned = _steady(none.planned, case, world, ConditionType.PLANNED)
        feasible = _steady(none.feasible, case, world, ConditionType.FEASIBLE)
        return replace(none, planned=planned, feasible=feasible, following=following)
    if decided.changes:
        record = _record(case, decided)
        made = recorded_as(case, with_load(record, decided.load))
        following = replace(following, entry=_entry(case, world, decided, record), decided=on_record)
    else:
        assert in_force is not None  # noqa: S101  the policy holds only what is in force
        made = _held(case, _kept(case, in_force))
    planned, feasible = _planned(decided, made), _feasible(case, decided, made)
    if not made.fresh:
        if _is_still_short(case, decided):
            feasible = case.stored[ConditionType.FEASIBLE] or feasible
            # It ends as soon as it is not true. Advice has no words of its own to keep.
            limited = following.limited if case.service.spec.mode == "Advise" else None
            following = replace(following, quiet=None, limited=limited)
        planned = _steady(planned, case, world, ConditionType.PLANNED)
        feasible = _steady(feasible, case, world, ConditionType.FEASIBLE)
    return replace(made, planned=planned, feasible=feasible, following=following)


def _decided(case: Case, facts: scaling.Facts, planner: Planner) -> tuple[Decision, DecisionRecord | None]:
    """The policy's decision, and its record; advice, which is given anew at each look, has none."""
    ask = asking(case, planner, first=facts.in_force is None)
    if case.service.spec.mode == "Advise":
        return scaling.decide(facts, ask), None
    meta = case.service.metadata
    return decided_on_record(meta.name, meta.namespace or "default", facts, ask)


def _in_force(case: Case) -> PlanRecord | None:
    """The recorded plan, unless somebody edited it."""
    recorded = case.recorded
    edited = recorded is not None and recorded.inputs == case.digest and not is_right(recorded, case)
    return None if edited else recorded


def facts_of(case: Case, world: World, in_force: PlanRecord | None) -> scaling.Facts:
    """What the policy decides by."""
    spec, load = case.service.spec, case.service.spec.load
    assert spec.scaling is not None  # noqa: S101  the caller has checked
    return scaling.Facts(
        now=world.now.timestamp(),
        rules=scaling.scaling_rules(spec.scaling),
        demand=world.demand or _NOT_MEASURED,
        problem=case.problem,
        declared=case.declared,
        in_force=None if in_force is None else scaling.InForce(in_force.counts, in_force.load),
        expected=None if load is None or load.expected_qps is None else QPS(load.expected_qps),
        pause=scaling.Pause(spec.pause),
        keeps_over_budget=spec.budget is not None and spec.budget.when_too_low == "Keep",
        changes=tuple(recorded_changes(world.service or {})),
        ready=_counted(world, lambda pod: pod.ready),
        bound=_counted(world, lambda pod: pod.node is not None),
        waiting=_waiting(world),
    )


def recorded_changes(raw: RawObject) -> Iterator[scaling.Change]:
    """The decisions in a service's status, as far as they can be read."""
    for entry in read_status(raw).get("lastDecisions") or ():
        change = _change(entry) if isinstance(entry, Mapping) else None
        if change is not None:
            yield change


def _change(entry: Mapping[str, Any]) -> scaling.Change | None:
    try:
        at = datetime.strptime(str(entry["time"]), "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC).timestamp()
        action, reason = Action(str(entry["action"])), ScalingReason(str(entry["reason"]))
        before, after = (_counts(str(entry.get(key) or "none")) for key in ("from", "to"))
        load = None if entry.get("load") is None else QPS(float(entry["load"]))
    except (KeyError, ValueError):
        return None
    scarce = entry.get("instanceType")
    return scaling.Change(at, action, reason, before, after, load, None if scarce is None else str(scarce))


def _counts(text: str) -> Counts:
    """Counts from their summary. Raises ValueError for another text."""
    if text == "none":
        return ()
    parts = [_PART.fullmatch(part) for part in text.split("+")]
    if not all(parts):
        raise ValueError(f"{text!r} are no counts")
    return tuple((part[2], int(part[1])) for part in parts if part is not None)


def _counted(world: World, counts: Callable[[PodFact], bool]) -> Mapping[str, int]:
    live = (pod for pod in world.pods if pod.instance_type is not None and not pod.terminating)
    return Counter(str(pod.instance_type) for pod in live if counts(pod))


def _waiting(world: World) -> Mapping[str, Seconds]:
    """Seconds for which the scheduler has found no place for the oldest instance of each type."""
    found: defaultdict[str, Seconds] = defaultdict(lambda: Seconds(0.0))
    for pod in world.pods:
        waits = pod.node is None and pod.waiting is not None and not (pod.gated or pod.terminating)
        if waits and pod.instance_type is not None and pod.created and not _only_same_model(pod.waiting or ""):
            since = datetime.fromisoformat(pod.created).timestamp()
            found[pod.instance_type] = max(found[pod.instance_type], Seconds(world.now.timestamp() - since))
    return dict(found)


def _only_same_model(refusal: str) -> bool:
    """Whether an instance waits for a GPU without its model: the type has room, for others."""
    return "same model" in refusal and "free" not in refusal


def asking(case: Case, planner: Planner, *, first: bool) -> scaling.Ask:
    """The planner, as the policy asks it."""
    untried = first and not case.runs

    def ask(work: Work) -> scaling.Answer:
        quick = untried and work.kind == "Decision"
        question = PlanQuestion(work.problem, case.declared, first, True, work.counts, quick, work.kind)
        answer = planner(question)
        if isinstance(answer, PlanPending):
            return scaling.Pending()
        if isinstance(answer, PlannerTimedOut):
            return scaling.Unanswered(f"planner {answer.planner} was stopped after {answer.after:g} s")
        return answer

    return ask


def _without_plan(case: Case, decided: Decision) -> PlanDecision:
    """No plan is in force, and none is made now."""
    if decided.pending:
        waits = PlanDecision(*(Finding("Unknown", Reason.NOT_PLANNED, ""),) * 3, case.recorded, waits=True)
        return replace(waits, service=case.service)
    if decided.held is not None:
        none = unplanned(Reason.NOT_PLANNED, decided.words, case.recorded, case.service, case.offers)
        computed = Finding("True", Reason.PLAN_COMPUTED, "no plan is feasible")
        return replace(none, planned=computed, feasible=_out_of_reach(decided))
    reason = Reason.PLANNER_FAILED if decided.reason is ScalingReason.PLANNER_FAILED else Reason.LOAD_UNKNOWN
    if decided.reason is ScalingReason.PAUSED:
        reason = Reason.NOT_PLANNED
    return unplanned(reason, decided.words, case.recorded, case.service, case.offers)


def _record(case: Case, decided: Decision) -> PlanRecord:
    """Of what is in force from now on: the planner's plan, or as much of it as limits allow."""
    plan, counts = decided.plan, decided.counts or ()
    if plan is not None and {n: c for n, c in plan.counts if c} == {n: c for n, c in counts if c}:
        return record_of(case, plan)
    return _handmade(case, counts, decided.words, plan, _least_held(decided))


def _least_held(decided: Decision) -> float:
    """Queries/s that counts hold at least which no planner tried: more than what held so much, or enough for a load."""
    if decided.action is Action.SCALE_UP:
        return decided.measured.capacity or 0.0
    return decided.load or 0.0 if decided.action is Action.SCALE_DOWN else 0.0


def _handmade(case: Case, counts: Counts, words: str, plan: Plan | None, qps: float) -> PlanRecord:
    by = case.problem.planned_by if plan is None else plan.planner
    gpus = recorded_gpus(counts, case.offers.usable, case.recorded)
    return handmade_record(counts, _cost(case, counts), case.digest, gpus, qps=qps, planner=by, verdict=words)


def _kept(case: Case, in_force: PlanRecord) -> PlanRecord:
    """What is in force, recorded anew where what is declared has changed."""
    if in_force.inputs == case.digest:
        return in_force
    known = {option.name for option in case.declared.types}
    counts = tuple((name, n) for name, n in in_force.counts if name in known)
    if len(counts) < len(in_force.counts):
        return in_force
    kept = _handmade(case, counts, in_force.verdict, None, float(in_force.qps))
    return with_load(replace(kept, raw={**kept.raw, "planner": in_force.raw["planner"]}), in_force.load)


def _held(case: Case, record: PlanRecord) -> PlanDecision:
    """What is in force; it is not followed while it has a type that can no longer be used: what runs stays."""
    made = recorded_as(case, record)
    return replace(made, follow=made.follow and record.nonzero.keys() <= made.offers.keys())


def _cost(case: Case, counts: Counts) -> MicroDollarsPerHour:
    prices = {option.name: option.price for option in case.declared.types}
    return MicroDollarsPerHour(sum(prices[name] * n for name, n in counts if n > 0))


def _planned(decided: Decision, made: PlanDecision) -> Finding:
    if decided.reason is not ScalingReason.PLANNER_FAILED:
        return made.planned
    return Finding("True", Reason.PLANNER_FAILED, f"{made.planned.message}; {decided.words}")


def _steady(finding: Finding, case: Case, world: World, kind: ConditionType) -> Finding:
    """The finding in its stored words if only digits can differ: same spec, same reason."""
    stored, raw = case.stored[kind], world.service or {}
    if stored is None or (stored.status, stored.reason) != (finding.status, finding.reason):
        return finding
    if finding.reason in (Reason.PLAN_COMPUTED, Reason.PLAN_FEASIBLE):
        return finding
    same = read_status(raw).get("observedGeneration") == raw["metadata"].get("generation")
    return stored if same else finding


def _feasible(case: Case, decided: Decision, made: PlanDecision) -> Finding:
    """Whether what the load needs is within reach; until a planner answers, what was said before."""
    stored = case.stored[ConditionType.FEASIBLE]
    if decided.pending and stored is not None and stored.reason != Reason.NOT_PLANNED:
        return stored
    if decided.held is None and not any(limit.reason is ScalingReason.BUDGET_CUT for limit in decided.limits):
        return made.feasible
    return _out_of_reach(decided)


def _out_of_reach(decided: Decision) -> Finding:
    by_budget = any(limit.reason in _BY_BUDGET for limit in decided.limits)
    return Finding("False", Reason.BUDGET_TOO_LOW if by_budget else Reason.CAPACITY_TOO_LOW, decided.words)


def _is_still_short(case: Case, decided: Decision) -> bool:
    """Whether a load that was beyond reach may be so still: it is not known, or swings about what can be held."""
    stored = case.stored[ConditionType.FEASIBLE]
    if stored is None or stored.status != "False":
        return False
    if decided.changes or decided.held is not None or decided.reason is ScalingReason.PLANNER_FAILED:
        return False
    if decided.reason is ScalingReason.METRICS_NOT_FRESH:
        return True
    scaling_spec, seen = case.service.spec.scaling, decided.measured
    if scaling_spec is None or seen.highest is None or seen.capacity is None:
        return False
    return seen.highest > scaling.scaling_rules(scaling_spec).trigger * seen.capacity


def _following(case: Case, world: World, facts: scaling.Facts, decided: Decision) -> Following:
    demand = world.demand or _NOT_MEASURED
    fresh = demand.freshness is Freshness.FRESH and demand.latest is not None
    return Following(
        _active(case, demand, decided),
        None if decided.pending else _limited(decided),
        load=demand.latest.qps if fresh and demand.latest is not None else None,
        capacity=decided.measured.capacity,
        quiet=decided.quiet,
        growing=decided.growing,
        turns_in=None if decided.pending else turns_in(facts),
    )


def _active(case: Case, demand: Demand, decided: Decision) -> Finding:
    spec = case.service.spec
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


def _limited(decided: Decision) -> Finding:
    for limit in decided.limits:
        if limit.reason in _LIMITS:
            return Finding("True", _LIMITS[limit.reason], limit.words)
    return Finding("False", Reason.NOT_LIMITED, "the instances are as the load asks for")


def _entry(case: Case, world: World, decided: Decision, record: PlanRecord) -> Json:
    """Of status.lastDecisions."""
    before = "none" if case.recorded is None else summary(case.recorded.counts)
    load = {} if decided.load is None else {"load": f"{decided.load:.6g}"}
    scarce = {} if decided.scarce is None else {"instanceType": decided.scarce}
    return {
        "time": world.now.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "action": str(decided.action),
        "reason": str(decided.reason),
        "from": before[:_TOLD],
        "to": str(record.raw["summary"]),
        **load,
        "hourlyCost": format_money(record.cost),
        "message": decided.words[:_MOST_WORDS],
        **scarce,
    }
