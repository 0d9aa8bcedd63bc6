"""Decides which plan is in force: the recorded one, or a new one.

The recorded plan carries a digest of its declared inputs (spec, types, prices, profiles; not the cluster). While the
inputs are the same, another plan replaces it only if it no longer fits into the cluster, or if the other is better by
SWITCH_GAIN: every bound pod changes the cluster, and two services that compete for a GPU must settle. "Better" compares
evaluated rates if the planner evaluated both, as a higher bound may hold less.

A planner may answer later, or be stopped. Until it answers, the recorded plan of the same inputs is followed, and what
the status says of planning stays.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal, InvalidOperation
from typing import Any, Final

from hetserve.api.conditions import ConditionType, Reason
from hetserve.api.inference_service import InferenceService
from hetserve.base.units import MicroDollarsPerHour, parse_money
from hetserve.planning.caps import without_slack_caps
from hetserve.planning.inputs import build_problem
from hetserve.planning.offers import Offer, Offers, Unplannable, namespace_of, resolve_offers
from hetserve.planning.plan import Counts, Plan
from hetserve.planning.problem import Problem
from hetserve.reconcile.observed import read_service
from hetserve.reconcile.plan_record import PlanRecord, plan_record, read_record
from hetserve.reconcile.planner import Planner, PlannerTimedOut, PlanPending, PlanQuestion, fits
from hetserve.reconcile.validity import stored_problem
from hetserve.reconcile.world import World

SWITCH_GAIN: Final = Decimal("0.05")
"""Relative gain that justifies replacing a running plan."""


@dataclass(frozen=True, slots=True)
class Finding:
    """Status, reason and message of one condition."""

    status: str
    reason: str
    message: str


NOT_PLANNED: Final = Finding("Unknown", Reason.NOT_PLANNED, "")
_ANSWERED: Final = (Reason.PLAN_COMPUTED, Reason.PLANNER_TIMED_OUT, Reason.PLANNER_FAILED)


@dataclass(frozen=True, slots=True)
class PlanDecision:
    """The decision for one service: conditions, and the plan in force.

    record: the plan in force. fresh: it is not recorded yet. ideal: it is the plan for an empty cluster. follow:
    whether Deployments are brought to it; False if the inputs cannot be planned, so that what runs stays. waits: no
    plan to follow until the planner answers, so nothing to do or to say.
    """

    planned: Finding
    feasible: Finding
    profiles: Finding
    record: PlanRecord | None = None
    fresh: bool = False
    ideal: bool = False
    follow: bool = False
    waits: bool = False
    service: InferenceService | None = None
    offers: Mapping[str, Offer] = field(default_factory=dict)

    @property
    def counts(self) -> dict[str, int]:
        return {} if self.record is None else {name: n for name, n in self.record.counts if n > 0}

    @property
    def budget(self) -> MicroDollarsPerHour | None:
        budget = None if self.service is None else self.service.spec.budget
        return None if budget is None else parse_money(budget.hourly)


def decide(world: World, planner: Planner) -> PlanDecision:
    """Decision for the service in a world; calls the planner only if its answer can matter."""
    assert world.service is not None  # noqa: S101  the caller has checked
    recorded = read_record(world.service)
    service = read_service(world.service)
    if isinstance(service, str):
        return _unplanned(Reason.SPEC_INVALID, service, recorded)
    problem_text = stored_problem(service, world)
    if problem_text is not None:
        return _unplanned(Reason.SPEC_INVALID, problem_text, recorded, service)
    offers = resolve_offers(service, world.types, world.profiles)
    if isinstance(offers, Unplannable):
        return _unplannable(offers, recorded, service)
    declared = build_problem(service, world.types, world.profiles, None, world.settings)
    place = (namespace_of(service), service.metadata.name)
    facts = world.capacity.facts(place, service.spec.model.name, offers.usable, world.pods, world.foreign_pods)
    problem = build_problem(service, world.types, world.profiles, facts, world.settings)
    if isinstance(declared, Unplannable) or isinstance(problem, Unplannable):
        reason = declared if isinstance(declared, Unplannable) else problem
        assert isinstance(reason, Unplannable)  # noqa: S101
        return _unplannable(reason, recorded, service, offers)
    stored = {kind: _stored(world.service, kind) for kind in (ConditionType.PLANNED, ConditionType.FEASIBLE)}
    problem = without_slack_caps(problem, declared)
    try:
        return _choose(_Case(service, offers, declared, problem, recorded, stored), planner)
    except Exception as error:
        return _unplanned(Reason.PLANNER_FAILED, f"{type(error).__name__}: {error}", recorded, service, offers)


def inputs_digest(declared: Problem) -> str:
    """Digest of a problem without facts of the cluster."""
    return hashlib.sha256(repr(declared).encode()).hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class _Case:
    """A service that can be planned. declared: problem without facts of the cluster; problem: with them.

    stored: what the status says of planning.
    """

    service: InferenceService
    offers: Offers
    declared: Problem
    problem: Problem
    recorded: PlanRecord | None
    stored: Mapping[ConditionType, Finding | None]


def _choose(case: _Case, planner: Planner) -> PlanDecision:
    recorded, digest = case.recorded, inputs_digest(case.declared)
    if recorded is not None and recorded.inputs == digest and not _is_priced_right(recorded, case.declared):
        recorded = None  # same inputs, other price: somebody edited the record
    standing = recorded if recorded is not None and recorded.inputs == digest else None
    followed = standing if standing is not None and fits(standing.counts, case.problem) else None
    if followed is not None:
        ideal = planner(PlanQuestion(case.declared, case.declared, needed=False, exact=True))
        if isinstance(ideal, PlanPending):
            return _pending(case, standing)
        if isinstance(ideal, Plan) and _is_ideal(followed, ideal):
            return _planned(case.service, case.offers, followed, ideal=True)
    answer = planner(PlanQuestion(case.problem, case.declared, needed=followed is None))
    if isinstance(answer, PlanPending):
        return _pending(case, standing)
    if isinstance(answer, PlannerTimedOut):
        stopped = f"planner {answer.planner} was stopped after {answer.after:g} s"
        return _unanswered(case, Reason.PLANNER_TIMED_OUT, stopped, recorded, followed)
    if answer.reason == Reason.PLANNER_FAILED:
        return _unanswered(case, Reason.PLANNER_FAILED, answer.message, recorded, followed)
    return _judged(case, answer, recorded, standing, followed)


def _judged(
    case: _Case, answer: Plan, recorded: PlanRecord | None, standing: PlanRecord | None, followed: PlanRecord | None
) -> PlanDecision:
    """The new plan or the recorded one. standing: recorded for the same inputs; followed: it fits the cluster too."""
    if followed is not None and not (answer.feasible and _better(answer, followed, case.problem)):
        return _planned(case.service, case.offers, followed)
    if not answer.feasible:
        return _infeasible(case.service, case.offers, answer, recorded, follow=standing is not None)
    record = plan_record(answer, inputs_digest(case.declared))
    fresh = case.recorded is None or record.raw != case.recorded.raw
    return _planned(case.service, case.offers, record, fresh=fresh)


def _pending(case: _Case, standing: PlanRecord | None) -> PlanDecision:
    """The planner has not answered yet: a recorded plan of the same inputs is followed, and planning is not news."""
    if standing is None:
        return PlanDecision(NOT_PLANNED, NOT_PLANNED, NOT_PLANNED, case.recorded, waits=True, service=case.service)
    decision = _planned(case.service, case.offers, standing)
    planned, feasible = case.stored[ConditionType.PLANNED], case.stored[ConditionType.FEASIBLE]
    if planned is None or feasible is None or planned.reason not in _ANSWERED:
        return decision
    return replace(decision, planned=planned, feasible=feasible)


def _unanswered(
    case: _Case, reason: Reason, words: str, recorded: PlanRecord | None, followed: PlanRecord | None
) -> PlanDecision:
    """The planner was stopped or failed: the recorded plan stays, and the status says why there is no other."""
    if followed is None:
        return _unplanned(reason, f"{words}; what runs stays", recorded, case.service, case.offers)
    finding = Finding("True", reason, f"{followed.described}; the check for a better plan: {words}")
    return replace(_planned(case.service, case.offers, followed), planned=finding)


def _is_priced_right(record: PlanRecord, declared: Problem) -> bool:
    """Whether the recorded cost equals the cost at declared prices and is within the budget."""
    prices = {option.name: option.price for option in declared.types}
    if any(name not in prices for name, _ in record.counts):
        return False
    cost = sum(prices[name] * n for name, n in record.counts)
    return cost == record.cost and (declared.budget is None or cost <= declared.budget)


def _is_ideal(record: PlanRecord, ideal: Plan) -> bool:
    """Whether the record is the plan for an empty cluster."""
    return ideal.feasible and record.nonzero == _nonzero(ideal.counts)


def _better(plan: Plan, record: PlanRecord, problem: Problem) -> bool:
    if problem.objective == "MinCost":
        prices = {option.name: option.price for option in problem.types}
        cost = sum(prices[name] * n for name, n in record.counts if n > 0)
        return plan.cost < cost * (1 - SWITCH_GAIN)
    rates = _evaluated_rates(plan, record)
    try:
        new, standing = rates or (Decimal(plan.qps or 0), Decimal(record.qps))
    except InvalidOperation:
        return True
    return new > standing * (1 + SWITCH_GAIN)


def _evaluated_rates(plan: Plan, record: PlanRecord) -> tuple[Decimal, Decimal] | None:
    """Rates [queries/s] that the new and the recorded counts held when the planner evaluated both; else None.

    Evaluations of earlier problems are not recorded, as they used other queries.
    """
    held = {frozenset(_nonzero(one.candidate.counts).items()): one.held for one in plan.evaluated}
    new, standing = (held.get(frozenset(counts.items())) for counts in (_nonzero(plan.counts), record.nonzero))
    return None if new is None or standing is None else (Decimal(new), Decimal(standing))


def _nonzero(counts: Counts) -> dict[str, int]:
    return {name: n for name, n in counts if n > 0}


def _planned(
    service: InferenceService, offers: Offers, record: PlanRecord, *, fresh: bool = False, ideal: bool = False
) -> PlanDecision:
    return PlanDecision(
        Finding("True", Reason.PLAN_COMPUTED, record.described),
        Finding("True", Reason.PLAN_FEASIBLE, record.verdict),
        Finding("True", Reason.PROFILES_FOUND, _profiled(offers)),
        record,
        fresh=fresh,
        ideal=ideal,
        follow=True,
        service=service,
        offers=_by_name(offers),
    )


def _infeasible(
    service: InferenceService, offers: Offers, plan: Plan, recorded: PlanRecord | None, *, follow: bool
) -> PlanDecision:
    return PlanDecision(
        Finding("True", Reason.PLAN_COMPUTED, f"planned by {plan.planner}; no plan is feasible"),
        Finding("False", plan.reason, plan.message),
        Finding("True", Reason.PROFILES_FOUND, _profiled(offers)),
        recorded,
        follow=follow,
        service=service,
        offers=_by_name(offers),
    )


def _unplannable(
    why: Unplannable, recorded: PlanRecord | None, service: InferenceService, offers: Offers | None = None
) -> PlanDecision:
    decision = _unplanned(why.reason, why.message, recorded, service, offers)
    if ConditionType.PROFILE_READY not in why.conditions:
        return decision
    profiles = Finding("False", why.reason, why.message)
    return PlanDecision(decision.planned, decision.feasible, profiles, recorded, service=service)


def _unplanned(
    reason: Reason,
    message: str,
    recorded: PlanRecord | None,
    service: InferenceService | None = None,
    offers: Offers | None = None,
) -> PlanDecision:
    by_name = {} if offers is None else _by_name(offers)
    planned = Finding("False", reason, message)
    return PlanDecision(planned, NOT_PLANNED, NOT_PLANNED, recorded, service=service, offers=by_name)


def _profiled(offers: Offers) -> str:
    return "profiles of this model on " + ", ".join(offer.name for offer in offers.usable)


def _by_name(offers: Offers) -> dict[str, Offer]:
    return {offer.name: offer for offer in offers.usable}


def _stored(raw: Mapping[str, Any], kind: ConditionType) -> Finding | None:
    """A condition in the status of a raw service."""
    conditions = read_status(raw).get("conditions") or ()
    found = next((c for c in conditions if isinstance(c, Mapping) and c.get("type") == kind.value), None)
    return None if found is None else Finding(*(str(found.get(key) or "") for key in ("status", "reason", "message")))


def read_status(raw: Mapping[str, Any]) -> Mapping[str, Any]:
    """Status of a raw object; empty if there is none."""
    status = raw.get("status")
    return status if isinstance(status, Mapping) else {}
