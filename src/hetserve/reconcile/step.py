"""One step of reconciliation: from a snapshot to the next request, or to Settled.

Order: record the plan, change Deployments (each fenced before), write the resulting status.
"""

from __future__ import annotations

from hetserve.api.conditions import Reason
from hetserve.reconcile.decision import NOT_PLANNED, Finding, PlanDecision, decide, read_status
from hetserve.reconcile.deployments.build import deployment_name, desired_deployment
from hetserve.reconcile.deployments.diff import NextWrite, Target, next_cut, next_write
from hetserve.reconcile.deployments.ownership import is_deleting
from hetserve.reconcile.deployments.template import TemplateError
from hetserve.reconcile.fence import fence_first
from hetserve.reconcile.interest import NO_INTEREST, WAITS, interest_of
from hetserve.reconcile.neighbours import CrowdedGpu, crowded_gpus
from hetserve.reconcile.plan_record import read_record
from hetserve.reconcile.planner import Planner
from hetserve.reconcile.progress import creation_failures, holdings, type_states
from hetserve.reconcile.staging import Instances, exceeds, staged_counts
from hetserve.reconcile.status import Seen, build_status, status_changed
from hetserve.reconcile.world import RawObject, Render, Request, Settled, World, WriteStatus


def step(world: World, planner: Planner) -> Request | Settled:
    """Next request for the service of a world; planner: as in `decide`.

    A deleted service gets no writes: the garbage collector removes its Deployments. Nor does one that has no plan to
    follow while the planner works.
    """
    raw = world.service
    if raw is None or is_deleting(raw):
        return Settled(interest=NO_INTEREST)
    uid = str(raw["metadata"]["uid"])
    decision = decide(world, planner)
    if decision.waits:
        return Settled(interest=WAITS)
    held = holdings(world, decision, uid)
    targets, template = _targets(decision, held)
    work = NextWrite()
    if decision.follow and not decision.fresh:
        over = exceeds(held, decision.budget)
        work = NextWrite(template_refusal=template)
        if template is None:
            work = next_write(world, targets, uid, over_budget=over)
        template = work.template_refusal
        work = fence_first(world, _cut_first(world, decision, held, work, uid), uid)
        if work.request is not None:
            return work.request
    if decision.fresh:
        work = NextWrite(pending=True)
    states = type_states(world, decision, targets, uid)
    failures, crowded = creation_failures(world, uid), _crowded(world)
    seen = Seen(states, held, world.pods, work, template, world.foreign_pods, failures, crowded)
    status = build_status(raw, decision, seen, world.now)
    if status_changed(raw, status):
        why = "record the plan before it is followed" if decision.fresh else "say what is"
        return _write(raw, status, why, intent=decision.fresh)
    return Settled(work.wake_after, interest_of(decision, world))


def failure_status(raw: RawObject, world: World, error: str) -> WriteStatus | None:
    """Status of a service whose reconciliation failed through a bug; None if the status says so already."""
    finding = Finding("False", Reason.PLANNER_FAILED, error)
    decision = PlanDecision(finding, NOT_PLANNED, NOT_PLANNED, read_record(raw))
    states = type_states(world, decision, (), str(raw["metadata"]["uid"]))
    seen = Seen(states, None, world.pods, foreign_pods=world.foreign_pods, crowded=_crowded(world))
    status = build_status(raw, decision, seen, world.now)
    return _write(raw, status, "say what failed") if status_changed(raw, status) else None


def _crowded(world: World) -> tuple[CrowdedGpu, ...]:
    assert world.service is not None  # noqa: S101  the caller has checked
    meta = world.service["metadata"]
    return crowded_gpus(world.capacity, (str(meta.get("namespace") or "default"), str(meta["name"])), world.pods)


def _cut_first(
    world: World, decision: PlanDecision, held: dict[str, Instances], work: NextWrite, uid: str
) -> NextWrite:
    """If the budget is exceeded and an unproven template blocks the work: cut replicas first."""
    blocked = work.template_refusal is not None or work.refusals or isinstance(work.request, Render)
    if not blocked or not exceeds(held, decision.budget) or decision.service is None:
        return work
    service = decision.service.metadata.name
    staged = staged_counts(decision.counts, held, decision.budget)
    cut = next_cut(world, {deployment_name(service, name): n for name, n in staged.items()}, uid)
    return NextWrite(
        cut.request or work.request,
        work.template_refusal,
        tuple(dict.fromkeys((*work.refusals, *cut.refusals))),
        min((w for w in (work.wake_after, cut.wake_after) if w is not None), default=None),
        work.pending or cut.pending,
    )


def _targets(decision: PlanDecision, held: dict[str, Instances]) -> tuple[tuple[Target, ...], str | None]:
    if not decision.follow or decision.service is None:
        return (), None
    staged = staged_counts(decision.counts, held, decision.budget)
    try:
        return tuple(
            Target(name, desired_deployment(decision.service, decision.offers[name]), staged[name], final)
            for name, final in sorted(decision.counts.items())
        ), None
    except TemplateError as error:
        return (), str(error)


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
