"""Builds a service's status: the plan in force, instances, and all conditions."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from hetserve.api import names
from hetserve.api.conditions import ConditionType, Reason
from hetserve.base.timestamps import timestamp
from hetserve.base.units import format_money
from hetserve.demand.observed import Demand
from hetserve.planning.formatting import qps_text
from hetserve.planning.offers import Offer
from hetserve.planning.tenancy import Tenancy
from hetserve.reconcile.cluster.neighbours import CrowdedGpu
from hetserve.reconcile.cluster.observed import PodFact, ScalerFact
from hetserve.reconcile.deployments.diff import NextWrite
from hetserve.reconcile.plans.plan_decision import NOT_PLANNED, Finding, PlanDecision, read_status
from hetserve.reconcile.rollout import TypeState
from hetserve.reconcile.snapshot import Json, RawObject
from hetserve.reconcile.status.scaling_status import (
    capacity_status,
    decisions_status,
    demand_status,
    few,
    scaling_findings,
)
from hetserve.reconcile.status.serving import LASTING, Serving
from hetserve.sanitize import sanitize
from hetserve.transition.next_counts import Stage
from hetserve.transition.staging import Instances, hourly_cost

_MAX_MESSAGE = 4096
_MAX_DOING = 1024
_RATE = re.compile(r"[0-9.e+-]+(?= q/s)")
PAGE: Final = "docs/how-to-measure-sharing.md"
_CARRIED = "the instances that are ready carry the load"
_MOST_STEPS = 10_000
_SAID = ("dispatch", "lastDecisions", "advice", "reason")
_OWNED = ("observedGeneration", "conditions", "plan", "instances", "transition", *_SAID)
"""Without `demand`, whose digits alone cause no write, and `readyInstances`, which changes with `instances` alone.

`capacity` is not among them: it waits for the last answer, and then causes one write.
"""


@dataclass(frozen=True, slots=True)
class StatusInputs:
    """Observations for a status, beside the decision.

    foreign_pods: stranger pods. failures: types whose pods cannot be created, and why. crowded: GPUs on which nothing
    bounds the slow-down of instances. stage: the step towards the plan. demand: as of ServiceSnapshot, as scalers.
    carried: queries/s that the ready instances hold; None: not known. serving: of its queries.
    """

    states: tuple[TypeState, ...] = ()
    holdings: Mapping[str, Instances] | None = None
    pods: tuple[PodFact, ...] = ()
    work: NextWrite = NextWrite()
    foreign_pods: tuple[PodFact, ...] = ()
    failures: tuple[tuple[str, str], ...] = ()
    crowded: tuple[CrowdedGpu, ...] = ()
    stage: Stage | None = None
    demand: Demand | None = None
    carried: float | None = None
    scalers: tuple[ScalerFact, ...] = ()
    serving: Serving = Serving()


def build_status(raw: RawObject, decision: PlanDecision, seen: StatusInputs, now: datetime) -> Json:
    """Whole status of a raw service; unchanged conditions keep their transition times."""
    generation = int(raw["metadata"].get("generation") or 0)
    stored = read_status(raw)
    before = {str(c.get("type")): c for c in stored.get("conditions") or () if isinstance(c, Mapping)}
    findings: dict[ConditionType, Finding] = {
        **_health(decision, seen, before.get(ConditionType.READY.value)),
        ConditionType.PLANNED: decision.planned,
        ConditionType.FEASIBLE: decision.feasible,
        ConditionType.WITHIN_BUDGET: _within_budget(decision, seen),
        ConditionType.PROFILE_READY: decision.profiles,
        ConditionType.CAPACITY_AVAILABLE: _capacity(decision, seen),
        ConditionType.PROGRESSING: _progressing(decision, seen),
        ConditionType.PODS_OWNED: _pods_owned(seen),
        ConditionType.SHARING_KEPT: sharing_kept(seen.crowded),
        ConditionType.SHARING_UNMEASURED: sharing_unmeasured(decision),
        **({} if seen.serving.finding is None else {ConditionType.SERVING: seen.serving.finding}),
        **scaling_findings(decision, seen.demand, before, seen.scalers, generation),
    }
    stamp = timestamp(now)
    return {
        "observedGeneration": generation,
        "conditions": [condition(t, f, before.get(t.value), generation, stamp) for t, f in findings.items()],
        "plan": None if decision.record is None else decision.record.raw,
        "instances": [
            {"instanceType": s.instance_type, "desired": s.desired, "bound": s.bound, "ready": s.ready}
            for s in seen.states
        ],
        "transition": _transition(raw, decision, seen),
        "dispatch": seen.serving.dispatch,
        "capacity": capacity_status(stored.get("capacity"), decision),
        "demand": demand_status(stored.get("demand"), seen.demand),
        "lastDecisions": decisions_status(stored.get("lastDecisions"), decision),
        "advice": decision.advice,
        "reason": str(findings[ConditionType.READY].reason),
        "readyInstances": "{}/{}".format(*_ready_of(seen)),
    }


def _transition(raw: RawObject, decision: PlanDecision, seen: StatusInputs) -> Json | None:
    """The step under way. Steps are instances that start or end; their number grows only while the plan stays."""
    stage = seen.stage
    if stage is None or not stage.under_way:
        return None
    stored = read_status(raw)
    before = (
        stored.get("transition") if decision.record is not None and stored.get("plan") == decision.record.raw else None
    )
    known = before.get("of") if isinstance(before, Mapping) else None
    left = max(1, min(stage.left, _MOST_STEPS))
    of = max(left, known) if isinstance(known, int) and known <= _MOST_STEPS else left
    return {"step": of - left + 1, "of": of, "doing": stage.doing[:_MAX_DOING]}


def status_changed(raw: RawObject, status: Json, *, answered: bool = True) -> bool:
    """Whether writing this status would change what is stored. answered: no planner has yet to answer."""
    stored = read_status(raw)
    owned = (*_OWNED, "capacity") if answered else _OWNED
    return any(stored.get(key) != status[key] for key in owned)


def condition(
    kind: ConditionType, finding: Finding, before: Mapping[str, Any] | None, generation: int, stamp: str
) -> Json:
    """A condition, which keeps the time of one with the same status. before: as stored. stamp: the time of now."""
    kept = before is not None and before.get("status") == finding.status and before.get("lastTransitionTime")
    message = sanitize(finding.message)
    return {
        "type": kind.value,
        "status": finding.status,
        "reason": str(finding.reason),
        "message": message if len(message) <= _MAX_MESSAGE else message[: _MAX_MESSAGE - 3] + "...",
        "observedGeneration": generation,
        "lastTransitionTime": before["lastTransitionTime"] if kept and before is not None else stamp,
    }


def _health(
    decision: PlanDecision, seen: StatusInputs, before: Mapping[str, Any] | None
) -> dict[ConditionType, Finding]:
    """Ready, Reconciling and Stalled: exactly one is True, and the others repeat its reason and message.

    Exception: while the service is reconciling, Ready says what is ready. With a load to follow, Ready is whether that
    is carried, whatever of the plan is ready; where the load is not known, whether all of the plan is. With
    spec.dispatch it must also be Serving. before: Ready as stored.
    """
    lacks, carried = _lacks(decision, seen, before), _is_carried(decision, seen)
    unserved = seen.serving.lacking
    stalled = _stalled(decision, seen, lacks) or (unserved if unserved and unserved.reason in LASTING else None)
    if stalled is not None:
        holds, why = ConditionType.STALLED, stalled
    elif unserved is not None and (carried or (carried is None and _all_ready(decision, seen))):
        holds, why, lacks = ConditionType.RECONCILING, unserved, unserved
    elif carried is not False and _all_ready(decision, seen):
        all_of = f"all {_ready_of(seen)[1]} instances are ready"
        holds, why = ConditionType.READY, Finding("True", Reason.ALL_INSTANCES_READY, all_of + _unpromised(seen))
    elif carried:
        holds, why = ConditionType.READY, Finding("True", Reason.LOAD_CARRIED, _CARRIED + _unpromised(seen))
    else:
        holds, why = ConditionType.RECONCILING, _awaited(decision, seen, lacks)
    kinds = (ConditionType.READY, ConditionType.RECONCILING, ConditionType.STALLED)
    findings = {kind: Finding(str(kind is holds), why.reason, why.message) for kind in kinds}
    if holds is ConditionType.RECONCILING:
        findings[ConditionType.READY] = lacks
    return findings


def _lacks(decision: PlanDecision, seen: StatusInputs, before: Mapping[str, Any] | None) -> Finding:
    """What keeps a service from being Ready while nothing has ended its way there. before: Ready as stored."""
    ready, desired = _ready_of(seen)
    count = f"{ready} of {desired} instances are ready"
    following = decision.following
    if following is None or _is_carried(decision, seen) is not False:
        return Finding("False", Reason.INSTANCES_NOT_READY, count)
    message = f"{count} and hold {qps_text(seen.carried or 0.0)}, the load is {qps_text(following.load or 0.0)}"
    service = decision.service
    if following.withheld and service is not None:
        message = f"{message}; spec.pause is {service.spec.pause}: no instance is added"
    elif following.growing:
        message = f"{message}; a plan for it is being worked out"
    told = "" if before is None else str(before.get("message") or "")
    same = _RATE.sub("", told) == _RATE.sub("", message)
    return Finding("False", Reason.LOAD_NOT_CARRIED, told if same else message)


def _ready_of(seen: StatusInputs) -> tuple[int, int]:
    """(instances that are ready, those desired); of a type with more than desired, the desired count."""
    return sum(min(state.ready, state.desired) for state in seen.states), sum(state.desired for state in seen.states)


def _all_ready(decision: PlanDecision, seen: StatusInputs) -> bool:
    ready = all(state.ready == state.desired for state in seen.states)
    return ready and (decision.advises or (decision.is_followed and _rolled_out(seen)))


def _is_carried(decision: PlanDecision, seen: StatusInputs) -> bool | None:
    """Whether what is ready holds the load that the service follows; None: it follows none, or that is not known."""
    following = decision.following
    if following is None or following.load is None or seen.carried is None:
        return None
    return following.load <= seen.carried


def _unpromised(seen: StatusInputs) -> str:
    return "; the SLO is not promised, see SharingKept" if seen.crowded else ""


def _stalled(decision: PlanDecision, seen: StatusInputs, lacks: Finding) -> Finding | None:
    """The first cause that lasts until something declared changes; None if there is none. lacks: as of `_lacks`."""
    for finding in (decision.planned, decision.feasible):
        if finding.status == "False":
            return finding
    progressing = _progressing(decision, seen)
    if progressing.reason in (Reason.TEMPLATE_INVALID, Reason.WRITE_REFUSED):
        return progressing
    if decision.advises and not any(state.desired or state.ready for state in seen.states):
        return Finding("False", Reason.ADVISING, "spec.mode is Advise, and nothing runs; status.advice says what would")
    withheld = decision.following is not None and decision.following.withheld
    short = lacks.reason == Reason.LOAD_NOT_CARRIED and _all_ready(decision, seen)
    return lacks if withheld and short else None


def _awaited(decision: PlanDecision, seen: StatusInputs, lacks: Finding) -> Finding:
    """What a reconciling service waits for. lacks: as of `_lacks`."""
    capacity, progressing = _capacity(decision, seen), _progressing(decision, seen)
    if capacity.status == "False":
        return capacity
    if progressing.status == "True":
        return progressing
    return Finding("True", lacks.reason, lacks.message) if capacity.status == "True" else capacity


def _rolled_out(seen: StatusInputs) -> bool:
    return not seen.work.pending and not seen.work.refusals and all(state.rolled for state in seen.states)


def _progressing(decision: PlanDecision, seen: StatusInputs) -> Finding:
    if seen.work.template_refusal is not None:
        return Finding("False", Reason.TEMPLATE_INVALID, seen.work.template_refusal)
    if seen.work.refusals:
        return Finding("False", Reason.WRITE_REFUSED, "; ".join(seen.work.refusals))
    if decision.advises:
        return Finding("False", Reason.ADVISING, "spec.mode is Advise: nothing is rolled out")
    if not decision.is_followed:
        stays = "what the budget holds of what runs stays" if decision.shrinks else "what runs stays"
        return Finding("False", Reason.NOT_PLANNED, f"no feasible plan to roll out; {stays}")
    if _rolled_out(seen):
        return Finding("False", Reason.ROLLED_OUT, "every Deployment is as planned")
    behind = [s.instance_type for s in seen.states if not s.rolled] or ["the Deployments"]
    doing = f"; {seen.stage.doing}" if seen.stage is not None and seen.stage.under_way else ""
    return Finding("True", Reason.ROLLING_OUT, f"being brought to the plan: {', '.join(behind)}{doing}")


def _within_budget(decision: PlanDecision, seen: StatusInputs) -> Finding:
    if decision.service is None:
        return Finding("Unknown", Reason.NOT_PLANNED, "the budget cannot be read")
    holdings = seen.holdings or {}
    cost, budget = hourly_cost(holdings), decision.budget
    if cost is None:
        lost = sorted(name for name, h in holdings.items() if h.price is None and h.live + h.terminating)
        return Finding("Unknown", Reason.NOT_PLANNED, f"the price of {', '.join(lost)} is not known")
    if budget is None:
        return Finding("True", Reason.NO_BUDGET, f"what runs costs {format_money(cost)} $/h; no budget is set")
    numbers = f"what runs costs {format_money(cost)} $/h, the budget is {format_money(budget)} $/h"
    if cost <= budget:
        return Finding("True", Reason.WITHIN_BUDGET, numbers)
    return Finding("False", Reason.OVER_BUDGET, f"{numbers}: {format_money(cost - budget)} $/h too much")


def _capacity(decision: PlanDecision, seen: StatusInputs) -> Finding:
    if decision.record is None:
        return NOT_PLANNED
    waiting = [p for p in seen.pods if p.node is None and not p.terminating]
    refused = [p for p in waiting if p.waiting is not None]
    desired = sum(state.desired for state in seen.states)
    bound = sum(min(state.bound, state.desired) for state in seen.states)
    if seen.failures:
        failures = "; ".join(f"{kind}: {message}" for kind, message in seen.failures)
        return Finding("False", Reason.INSTANCES_REFUSED, failures)
    if refused:
        oldest = min(refused, key=lambda p: (p.created, p.name))
        return Finding("False", Reason.WAITING_FOR_CAPACITY, f"{oldest.instance_type}: {oldest.waiting}")
    if not waiting and bound == desired:
        return Finding("True", Reason.ALL_INSTANCES_PLACED, f"all {desired} instances are on nodes")
    return Finding("Unknown", Reason.INSTANCES_PENDING, f"{bound} of {desired} instances are on nodes")


def _pods_owned(seen: StatusInputs) -> Finding:
    if not seen.foreign_pods:
        return Finding("True", Reason.ONLY_OWN_PODS, "every pod with this service's label belongs to it")
    shown = [p.name if p.owner is None else f"{p.name} (of {p.owner.kind} {p.owner.name})" for p in seen.foreign_pods]
    message = f"not of this service, though with its label {names.LABEL_SERVICE}: {few(shown, ', ')}; "
    return Finding("False", Reason.STRANGER_PODS, f"{message}they are not counted")


def sharing_kept(crowded: Sequence[CrowdedGpu]) -> Finding:
    """SharingKept. crowded: GPUs on which nothing bounds the slow-down of the service's instances."""
    if not crowded:
        return Finding("True", Reason.WITHIN_BOOKINGS, "no instance shares a GPU with more than the bookings allow")
    undeclared = any(gpu.undeclared for gpu in crowded)
    return Finding(
        "False",
        Reason.UNDECLARED_NEIGHBOUR if undeclared else Reason.OVER_BOOKED,
        f"instances are not promised their SLO on {few([str(gpu) for gpu in crowded], '; ')}",
    )


def sharing_unmeasured(decision: PlanDecision) -> Finding:
    """SharingUnmeasured: what instances of the plan have for lack of a measurement."""
    if decision.record is None or decision.service is None or not decision.offers:
        return NOT_PLANNED
    planned = [offer for name, offer in sorted(decision.offers.items()) if name in decision.counts]
    cases = (
        (Tenancy.UNDECLARED, Reason.INSTANCES_UNDECLARED, ", so instances declare no compute and keep their templates"),
        (Tenancy.SHARED, Reason.BOOKINGS_KEPT, " any more, so instances keep their bookings and their templates"),
        (Tenancy.EXCLUSIVE, Reason.PLANNED_EXCLUSIVE, ", so each instance is planned with a whole GPU"),
    )
    for tenancy, reason, then in cases:
        unmeasured = _unmeasured(planned, tenancy)
        if unmeasured and (tenancy is not Tenancy.EXCLUSIVE or decision.service.spec.sharing == "Shared"):
            message = f"ModelProfile {unmeasured}: no computeShare{then} until it is measured ({PAGE})"
            return Finding("True", reason, message)
    return Finding("False", Reason.SHARING_MEASURED, "no instance waits for a measurement of what it shares")


def _unmeasured(offers: Sequence[Offer], tenancy: Tenancy) -> str:
    """Profiles without a share, of types whose instances have their GPUs so."""
    alike = [offer for offer in offers if offer.gpu is not None and offer.gpu.tenancy is tenancy]
    return few([offer.profile.metadata.name for offer in alike if offer.profile.spec.compute_share is None], ", ")
