"""One step of reconciliation: from a snapshot to the next request, or to Settled.

Order: record the plan, change Deployments (each fenced before), then the address, write the resulting status.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import Final

from hetserve.api.conditions import Reason
from hetserve.reconcile.cluster.neighbours import crowded_gpus
from hetserve.reconcile.deployments.address import address_wakes, next_address
from hetserve.reconcile.deployments.build import deployment_name, desired_deployment, owner_reference
from hetserve.reconcile.deployments.diff import NextWrite, Target, fence_first, next_cut, next_write
from hetserve.reconcile.deployments.ownership import is_deleting, type_of
from hetserve.reconcile.deployments.template import TemplateError
from hetserve.reconcile.plans.decision import decide
from hetserve.reconcile.plans.plan_decision import NOT_PLANNED, Finding, PlanDecision, PlanState, read_status
from hetserve.reconcile.plans.plan_record import read_record
from hetserve.reconcile.plans.planner import Planner
from hetserve.reconcile.rollout import (
    ServiceRate,
    TypeState,
    creation_failures,
    holdings,
    in_the_way,
    limits_of,
    surged,
    type_states,
)
from hetserve.reconcile.snapshot import (
    Interest,
    Json,
    RawObject,
    Render,
    Request,
    ServiceSnapshot,
    Settled,
    WriteDecisions,
    WriteStatus,
)
from hetserve.reconcile.status.build import StatusInputs, build_status, status_changed
from hetserve.reconcile.status.serving import serving
from hetserve.transition.budget_cut import within_limits
from hetserve.transition.next_counts import Stage, next_counts
from hetserve.transition.staging import Counts, Holdings, Limits, costs, exceeds


def step(snapshot: ServiceSnapshot, planner: Planner) -> Request | Settled:
    """Next request for the service of a snapshot; planner: as in `decide`.

    A deleted service gets no writes: the garbage collector removes its Deployments. Nor does one that has no plan to
    follow while the planner works, but for a budget that is exceeded: that is obeyed whatever the planner does.
    """
    raw = snapshot.service
    if raw is None or is_deleting(raw):
        return Settled(interest=NO_INTEREST)
    decision = decide(snapshot, planner)
    held = holdings(snapshot, decision)
    spent = costs(held, decision.counts)
    move = _moved(snapshot, decision, held)
    work = fence_first(snapshot, move.work)
    if work.request is not None:
        return work.request
    address = next_address(snapshot, decision.service)
    if address is not None:
        return address
    if decision.state is PlanState.AWAITED:
        return Settled(_wakes(snapshot, decision, work), WAITS, spent)
    states = type_states(snapshot, decision, move.targets)
    failures, carried = creation_failures(snapshot), _carried(snapshot, decision, held)
    seen = replace(_seen(snapshot, decision, states), holdings=held, work=work, failures=failures, stage=move.stage)
    seen = replace(seen, demand=snapshot.demand, carried=carried)
    status = build_status(raw, decision, seen, snapshot.now)
    answered = decision.following is None or not decision.following.pending
    if status_changed(raw, status, answered=answered):
        why = "record the plan before it is followed" if decision.is_new else "say what is"
        return replace(_write(raw, status, why, intent=decision.is_new), decided=_decided(raw, decision), costs=spent)
    return Settled(_wakes(snapshot, decision, work), interest_of(decision, snapshot), spent)


def _wakes(snapshot: ServiceSnapshot, decision: PlanDecision, work: NextWrite) -> float | None:
    """Seconds until a held repair may be made, or time alone may make another decision."""
    turns_in = None if decision.following is None else decision.following.turns_in
    waits = (work.wake_after, turns_in, address_wakes(snapshot, decision.service))
    return min((wait for wait in waits if wait is not None), default=None)


def failure_status(raw: RawObject, snapshot: ServiceSnapshot, error: str) -> WriteStatus | None:
    """Status of a service whose reconciliation failed through a bug; None if the status says so already."""
    finding = Finding("False", Reason.PLANNER_FAILED, error)
    decision = PlanDecision(finding, NOT_PLANNED, NOT_PLANNED, read_record(raw))
    seen = _seen(snapshot, decision, type_states(snapshot, decision, ()))
    status = build_status(raw, decision, seen, snapshot.now)
    return _write(raw, status, "say what failed") if status_changed(raw, status) else None


def _decided(raw: RawObject, decision: PlanDecision) -> WriteDecisions | None:
    """What is recorded of a change of the plan that was decided by what is measured."""
    record = None if decision.explained is None else decision.explained.record
    if record is None or not decision.is_new or decision.service is None:
        return None
    first = not read_status(raw).get("lastDecisions")
    return WriteDecisions(record, owner_reference(decision.service), first)


def _seen(snapshot: ServiceSnapshot, decision: PlanDecision, states: tuple[TypeState, ...]) -> StatusInputs:
    """What is observed whatever is decided."""
    assert snapshot.service is not None  # noqa: S101  the caller has checked
    place = str(snapshot.service["metadata"].get("namespace") or "default"), snapshot.name
    crowded, strangers = crowded_gpus(snapshot.capacity, place, snapshot.pods), snapshot.foreign_pods
    seen = StatusInputs(states, pods=snapshot.pods, foreign_pods=strangers, crowded=crowded, scalers=snapshot.scalers)
    return replace(seen, serving=serving(snapshot, decision, states))


def _carried(snapshot: ServiceSnapshot, decision: PlanDecision, held: Holdings) -> float | None:
    """Queries/s that the ready instances hold: of what those in force hold, the share by their rates.

    In force are those of before where this decision changes the plan: its capacity is of them.
    """
    following = decision.following
    if following is None or following.capacity is None or following.load is None:
        return None
    holders = {name: n for name, n in following.holders.items() if n}
    if not following.capacity or not holders:
        return 0.0
    rate = ServiceRate(snapshot, decision, held)
    whole = rate(holders)
    if whole <= 0 or not holders.keys() <= held.keys():
        return None
    return following.capacity * rate({name: one.ready for name, one in held.items()}) / whole


@dataclass(frozen=True, slots=True)
class _Work:
    """What is done about the Deployments. stage: the step of a change of plan; None without a plan to follow."""

    work: NextWrite = NextWrite()
    targets: tuple[Target, ...] = ()
    stage: Stage | None = None


def _moved(snapshot: ServiceSnapshot, decision: PlanDecision, held: Holdings) -> _Work:
    """Towards the plan that is followed; else within the budget, unless the user wants what runs kept."""
    if not decision.is_followed:
        return _Work(_cut(snapshot, decision, held) if decision.shrinks else NextWrite())
    manifests = _manifests(decision, memory_limit=snapshot.mps_memory_limit)
    if isinstance(manifests, str):
        cut = NextWrite() if decision.is_new else _cut(snapshot, decision, held)
        return _Work(replace(cut, template_refusal=manifests))
    limits, rate = limits_of(snapshot, decision), ServiceRate(snapshot, decision, held)
    stage = next_counts(decision.counts, held, limits, rate, in_the_way(snapshot, decision, held, manifests))
    manifests = surged(snapshot, decision, (held, limits), manifests, stage.counts)
    targets = tuple(Target(t, manifests[t], stage.counts[t], n) for t, n in sorted(decision.counts.items()))
    if decision.is_new:
        return _Work(NextWrite(pending=True), targets, stage)
    kept = {t: n for t, n in stage.counts.items() if n > 0 and t not in decision.counts}
    over = exceeds(held, decision.ceiling)
    work = next_write(snapshot, targets, _by_deployment(decision, kept), over_budget=over)
    return _Work(_cut_first(snapshot, decision, held, work), targets, stage)


def _manifests(decision: PlanDecision, *, memory_limit: bool) -> dict[str, Json] | str:
    """Deployments of the plan by type, without replicas; or why the template cannot be used."""
    assert decision.service is not None  # noqa: S101  a plan that is followed was made for a service that can be read
    try:
        return {
            name: desired_deployment(decision.service, decision.offers[name], memory_limit=memory_limit)
            for name in decision.counts
        }
    except TemplateError as error:
        return str(error)


def _cut(snapshot: ServiceSnapshot, decision: PlanDecision, held: Holdings) -> NextWrite:
    """What brings the service within its budget, whatever else is known of it."""
    if not exceeds(held, decision.ceiling):
        return NextWrite()
    limits, rate = Limits(decision.ceiling), ServiceRate(snapshot, decision, held)
    counts = within_limits(decision.counts if decision.is_followed else {}, held, limits, rate)
    return next_cut(snapshot, _by_deployment(decision, counts))


def _cut_first(snapshot: ServiceSnapshot, decision: PlanDecision, held: Holdings, work: NextWrite) -> NextWrite:
    """If the budget is exceeded and an unproven template blocks the work: cut replicas first."""
    blocked = work.template_refusal is not None or work.refusals or isinstance(work.request, Render)
    cut = _cut(snapshot, decision, held) if blocked else NextWrite()
    return NextWrite(
        cut.request or work.request,
        work.template_refusal,
        tuple(dict.fromkeys((*work.refusals, *cut.refusals))),
        min((w for w in (work.wake_after, cut.wake_after) if w is not None), default=None),
        work.pending or cut.pending,
    )


def _by_deployment(decision: PlanDecision, counts: Counts) -> dict[str, int]:
    assert decision.service is not None  # noqa: S101  the caller has a budget or a plan of it
    return {deployment_name(decision.service.metadata.name, name): n for name, n in counts.items()}


def _write(raw: RawObject, status: dict[str, object], why: str, *, intent: bool = False) -> WriteStatus:
    meta = raw["metadata"]
    return WriteStatus(
        str(meta.get("namespace") or "default"),
        str(meta["name"]),
        str(meta["uid"]),
        str(meta.get("resourceVersion") or ""),
        status,
        dict(read_status(raw)),
        why,
        intent,
    )


NO_INTEREST: Final = Interest(frozenset(), frozenset())
WAITS: Final = Interest(frozenset())
"""Of a service that waits for its plan: room is counted when the plan is there."""


def interest_of(decision: PlanDecision, snapshot: ServiceSnapshot) -> Interest:
    """Interest of a service after a decision.

    Room counts for nothing while the recorded plan is the ideal one, or carries the load that it follows, or stays for
    want of samples, and its instances are all on nodes: it fits then, whatever the rest of the cluster holds. A service
    that cannot be planned reads all types, since its message names them.
    """
    following = decision.following
    stays = following is not None and (following.dead_band is not None or following.stays)
    content = (decision.ideal or stays) and _all_bound(decision, snapshot)
    room = frozenset() if content else frozenset(decision.offers)
    growing = following is not None and following.growing
    if decision.planned.status != "True":
        return Interest(room, growing=growing)
    held = (
        {pod.instance_type for pod in snapshot.pods} | set(map(type_of, snapshot.deployments)) | decision.counts.keys()
    )
    dead_band = None if following is None else following.dead_band
    return Interest(room, frozenset(filter(None, held)), dead_band, growing)


def _all_bound(decision: PlanDecision, snapshot: ServiceSnapshot) -> bool:
    bound = Counter(pod.instance_type for pod in snapshot.pods if pod.node is not None and not pod.terminating)
    return all(bound[name] >= count for name, count in decision.counts.items())
