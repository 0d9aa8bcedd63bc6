"""Decides which plan is in force: the recorded one, or a new one.

The recorded plan carries a digest of its declared inputs (spec, types, prices, profiles; not the cluster). While the
inputs are the same, another plan replaces it only if it no longer fits into the cluster, or if the other is better by
the switching gain: every bound pod changes the cluster, and two services that compete for a GPU must settle. A planner
with a judge is asked what the recorded counts hold, and after a change of inputs too. A measurement of what instances
share is such a change; the new record keeps a larger booking while the counts stay (see `bookings`).

A planner may answer later, or be stopped. Until it answers, the recorded plan of the same inputs is followed, and what
the status says of planning stays.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from hetserve.api.conditions import ConditionType, Reason
from hetserve.api.inference_service import InferenceService
from hetserve.base.units import MicroDollarsPerHour, format_money, parse_money
from hetserve.planning.caps import without_slack_caps
from hetserve.planning.inputs import ClusterFacts, build_problem
from hetserve.planning.offers import Offer, Offers, Unplannable, namespace_of, resolve_offers
from hetserve.planning.plan import Plan, Trial
from hetserve.planning.problem import Problem
from hetserve.planning.registry import has_judge
from hetserve.planning.tenancy import SharingRule, Tenancy
from hetserve.planning.work import Done
from hetserve.reconcile.bookings import as_recorded, booked_types, is_booked_right, recorded_gpus, undeclared_types
from hetserve.reconcile.launch_times import observed_launch_times
from hetserve.reconcile.observed import read_service
from hetserve.reconcile.plan_record import PlanRecord, kept_record, plan_record, read_record, summary
from hetserve.reconcile.planner import Planner, PlannerTimedOut, PlanPending, PlanQuestion, fits
from hetserve.reconcile.switching import SWITCH_GAIN, cost_of, is_allowed, is_better, nonzero
from hetserve.reconcile.validity import stored_problem
from hetserve.reconcile.world import World


@dataclass(frozen=True, slots=True)
class Finding:
    """Status, reason and message of one condition."""

    status: str
    reason: str
    message: str


NOT_PLANNED: Final = Finding("Unknown", Reason.NOT_PLANNED, "")
_ABSENT_BEFORE: Final = (
    "gpu_compute=0",
    "gpu=None",
    "most_total=None",
    "least_total=0",
    "max_slowdown=None",
    "unshared=()",
)
"""Fields that problems have got, the last of each value first, as they are without bookings and bounds on a total."""
_NOT_BOOKED: Final = (
    "the extender that leads does not say that it books compute, so no plan with shared GPUs is made; what runs stays"
)
_STAYS: Final = (
    "; what runs stays: it books less of its GPUs than is planned now, and instances that book more find no place there"
)
_ANSWERED: Final = (Reason.PLAN_COMPUTED, Reason.PLANNER_TIMED_OUT, Reason.PLANNER_FAILED)


@dataclass(frozen=True, slots=True)
class PlanDecision:
    """The decision for one service: conditions, and the plan in force.

    record: the plan in force. fresh: it is not recorded yet. ideal: no plan for an empty cluster is better. follow:
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

    @property
    def shrinks(self) -> bool:
        """Whether the budget is obeyed even where no plan fits it, or none is known."""
        budget = None if self.service is None else self.service.spec.budget
        return budget is not None and budget.when_too_low == "Shrink"


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
    sharing = SharingRule(world.settings.max_slowdown, undeclared_types(world, recorded), booked_types(recorded))
    offers = resolve_offers(service, world.types, world.profiles, sharing)
    if isinstance(offers, Unplannable):
        return _unplannable(offers, recorded, service)
    declared = build_problem(service, world.types, world.profiles, None, world.settings, sharing=sharing)
    place = (namespace_of(service), service.metadata.name)
    asked = place, service.spec.model.name, offers.usable, world.pods, world.foreign_pods
    facts = _timed(world, world.capacity.facts(*asked, declaring=world.declaring), service)
    problem = build_problem(service, world.types, world.profiles, facts, world.settings, sharing=sharing)
    if isinstance(declared, Unplannable) or isinstance(problem, Unplannable):
        reason = declared if isinstance(declared, Unplannable) else problem
        assert isinstance(reason, Unplannable)  # noqa: S101
        return _unplannable(reason, recorded, service, offers)
    stored = {kind: _stored(world.service, kind) for kind in (ConditionType.PLANNED, ConditionType.FEASIBLE)}
    problem, runs = without_slack_caps(problem, declared), bool(world.deployments or world.pods)
    bound = Counter(pod.instance_type for pod in world.pods if pod.node is not None and not pod.terminating)
    stays = any(has.running < bound[name] for name, has in facts.types.items())
    case = _Case(service, offers, declared, problem, recorded, stored, runs, world.books_compute, stays)
    try:
        return _choose(case, planner)
    except Exception as error:
        return _unplanned(Reason.PLANNER_FAILED, f"{type(error).__name__}: {error}", recorded, service, offers)


def _timed(world: World, facts: ClusterFacts, service: InferenceService) -> ClusterFacts:
    """With the launch times that this service's instances took. Only MinCost weighs them; the digest has none."""
    times = observed_launch_times(world.pods) if service.spec.objective == "MinCost" else {}
    if not times:
        return facts
    types = {name: replace(one, launch_time=times.get(name)) for name, one in facts.types.items()}
    return replace(facts, types=types)


def inputs_digest(declared: Problem) -> str:
    """Digest of a problem without facts of the cluster.

    Where no compute is booked and no total is bound it is that of versions before: their plans are followed after an
    upgrade. How an instance has its GPU is left out: prices, demands and the record say it, and its reasons are only
    words.
    """
    types, unshared = (tuple(replace(one, gpu=None) for one in each) for each in (declared.types, declared.unshared))
    text = repr(replace(declared, types=types, unshared=unshared))
    for absent in _ABSENT_BEFORE:
        text = text.replace(f", {absent})", ")")
    return hashlib.sha256(text.encode()).hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class _Case:
    """A service that can be planned. declared: problem without facts of the cluster; problem: with them.

    stored: what the status says of planning. runs: whether it has any Deployment or pod. books_compute: as of World.
    stays: instances run of which those that book as planned now would find no place.
    """

    service: InferenceService
    offers: Offers
    declared: Problem
    problem: Problem
    recorded: PlanRecord | None
    stored: Mapping[ConditionType, Finding | None]
    runs: bool
    books_compute: bool
    stays: bool = False

    @property
    def digest(self) -> str:
        return inputs_digest(self.declared)


@dataclass(frozen=True, slots=True)
class _InForce:
    """The recorded plan, unless somebody edited it.

    standing: it is of the same inputs; followed: and fits the cluster. rival: what a new plan has to beat: the followed
    one, or one of other inputs whose counts these allow and a judge can try.
    """

    recorded: PlanRecord | None
    standing: PlanRecord | None
    followed: PlanRecord | None
    rival: PlanRecord | None


def _choose(case: _Case, planner: Planner) -> PlanDecision:
    force = _in_force(case)
    if not case.books_compute and any(offer.shares for offer in case.offers.usable):
        return _unbooked(case, force)
    trial = None if force.rival is None else _checked(case, force, force.rival, planner)
    if isinstance(trial, PlanDecision):
        return trial
    untried = has_judge(case.problem) and case.recorded is None and not case.runs
    answer = planner(PlanQuestion(case.problem, case.declared, needed=force.followed is None, untried=untried))
    if isinstance(answer, PlanPending):
        return _pending(case, force.standing)
    if not isinstance(answer, Plan) or answer.reason == Reason.PLANNER_FAILED:
        return _unanswered(case, answer, force)
    return _judged(case, answer, force, trial)


def _in_force(case: _Case) -> _InForce:
    recorded, same = case.recorded, case.recorded is not None and case.recorded.inputs == case.digest
    if recorded is not None and same and not _is_right(recorded, case):
        return _InForce(None, None, None, None)  # same inputs, other price or booking: somebody edited the record
    fitting = recorded if recorded is not None and fits(recorded.counts, case.problem) else None
    if same:
        return _InForce(recorded, recorded, fitting, fitting)
    judged = fitting is not None and has_judge(case.problem) and is_allowed(fitting, case.problem)
    return _InForce(recorded, None, None, fitting if judged else None)


def _checked(case: _Case, force: _InForce, rival: PlanRecord, planner: Planner) -> PlanDecision | Trial | None:
    """The decision if the plan for an empty cluster gives no reason to leave the rival; else what the rival holds."""
    needed = force.followed is None
    ideal = planner(PlanQuestion(case.declared, case.declared, needed, exact=True))
    best = ideal if isinstance(ideal, Plan) and ideal.feasible else None
    if best is not None and rival.nonzero == nonzero(best.counts):
        return _ideal(case, rival, best)
    counts = tuple((option.name, rival.nonzero.get(option.name, 0)) for option in case.declared.types)
    question = PlanQuestion(case.declared, case.declared, needed, exact=True, counts=counts)
    asks = has_judge(case.declared) and not isinstance(ideal, PlanPending)
    trial = planner(question) if asks else None
    if isinstance(ideal, PlanPending) or isinstance(trial, PlanPending):
        return _pending(case, force.standing)
    if isinstance(trial, Trial):
        stays = best is not None and not is_better(best, rival, case.declared, trial)
        return _kept(case, rival, trial, best) if stays else trial
    return None if trial is None or force.followed is None else _unanswered(case, trial, force)


def _judged(case: _Case, answer: Plan, force: _InForce, trial: Trial | None) -> PlanDecision:
    """The new plan or the one in force. trial: what the latter does, if a judge has tried it."""
    rival = force.followed if trial is None else force.rival
    if not answer.feasible:
        if force.followed is not None and (trial is None or trial.holds is not False):
            return _kept(case, force.followed, trial)
        if case.stays and force.standing is None:
            answer = replace(answer, message=answer.message + _STAYS)
        return _infeasible(case.service, case.offers, answer, force.recorded, follow=force.standing is not None)
    if rival is not None and not is_better(answer, rival, case.problem, trial):
        return _kept(case, rival, trial)
    return _recorded(case, _record_of(case, answer))


def _record_of(case: _Case, plan: Plan) -> PlanRecord:
    return plan_record(plan, case.digest, recorded_gpus(plan.counts, case.offers.usable, case.recorded))


def _ideal(case: _Case, rival: PlanRecord, ideal: Plan) -> PlanDecision:
    """What is in force is the plan for an empty cluster. It is recorded anew if only that one was tried."""
    same = rival.inputs == case.digest and (rival.tried is not False or not ideal.tried)
    return _recorded(case, rival if same else _record_of(case, ideal), ideal=True)


def _kept(case: _Case, rival: PlanRecord, trial: Trial | None, ideal: Plan | None = None) -> PlanDecision:
    """What is in force stays, recorded anew if the trial says more of it. ideal: what is not better by enough."""
    record = rival
    tried = trial is not None and (trial.held, trial.holds) != (None, None)
    if trial is not None and (rival.inputs != case.digest or (tried and rival.tried is False)):
        cost = MicroDollarsPerHour(cost_of(rival, case.declared))
        gpus = recorded_gpus(rival.counts, case.offers.usable, case.recorded)
        record = kept_record(rival, trial, case.declared, case.digest, cost, gpus=gpus)
    decision = _recorded(case, record, ideal=ideal is not None)
    if ideal is None:
        return decision
    other = f"{summary(ideal.counts)} at {format_money(ideal.cost)} $/h is not better by {SWITCH_GAIN:.0%}"
    return replace(decision, planned=replace(decision.planned, message=f"{record.described}; {other}"))


def _recorded(case: _Case, record: PlanRecord, *, ideal: bool = False) -> PlanDecision:
    fresh = case.recorded is None or record.raw != case.recorded.raw
    return _planned(case.service, case.offers, record, fresh=fresh, ideal=ideal)


def _pending(case: _Case, standing: PlanRecord | None) -> PlanDecision:
    """The planner has not answered yet: a recorded plan of the same inputs is followed, and planning is not news."""
    if standing is None:
        return PlanDecision(NOT_PLANNED, NOT_PLANNED, NOT_PLANNED, case.recorded, waits=True, service=case.service)
    decision = _planned(case.service, case.offers, standing)
    planned, feasible = case.stored[ConditionType.PLANNED], case.stored[ConditionType.FEASIBLE]
    if planned is None or feasible is None or planned.reason not in _ANSWERED:
        return decision
    return replace(decision, planned=planned, feasible=feasible)


def _unbooked(case: _Case, force: _InForce) -> PlanDecision:
    """The extender books no compute: a recorded plan with bookings is followed, and none is made."""
    if force.standing is not None:
        return _pending(case, force.standing)
    return _unplanned(Reason.COMPUTE_NOT_BOOKED, _NOT_BOOKED, case.recorded, case.service, case.offers)


def _unanswered(case: _Case, answer: Done | PlannerTimedOut, force: _InForce) -> PlanDecision:
    """The planner was stopped or failed: the recorded plan stays, and the status says why there is no other."""
    if isinstance(answer, PlannerTimedOut):
        reason, words = Reason.PLANNER_TIMED_OUT, f"planner {answer.planner} was stopped after {answer.after:g} s"
    else:
        reason, words = Reason.PLANNER_FAILED, getattr(answer, "message", "no plan")
    if force.followed is None:
        return _unplanned(reason, f"{words}; what runs stays", force.recorded, case.service, case.offers)
    finding = Finding("True", reason, f"{force.followed.described}; the check for a better plan: {words}")
    return replace(_planned(case.service, case.offers, force.followed), planned=finding)


def _is_right(record: PlanRecord, case: _Case) -> bool:
    return _is_priced_right(record, case.declared) and is_booked_right(record, case.offers.usable)


def _is_priced_right(record: PlanRecord, declared: Problem) -> bool:
    """Whether the recorded cost equals the cost at declared prices and is within the budget."""
    prices = {option.name: option.price for option in declared.types}
    if any(name not in prices for name, _ in record.counts):
        return False
    cost = sum(prices[name] * n for name, n in record.counts)
    return cost == record.cost and (declared.budget is None or cost <= declared.budget)


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
        offers=as_recorded(_by_name(offers), record),
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
        offers=_by_name(offers) if recorded is None else as_recorded(_by_name(offers), recorded),
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
    found = "profiles of this model on " + ", ".join(offer.name for offer in offers.usable)
    alone = [f"{o.name} ({o.gpu.why})" for o in offers.usable if o.gpu is not None and _is_exclusive(o)]
    return f"{found}; a whole GPU for each instance on {', '.join(alone)}" if alone else found


def _is_exclusive(offer: Offer) -> bool:
    return offer.gpu is not None and offer.gpu.tenancy is Tenancy.EXCLUSIVE


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
