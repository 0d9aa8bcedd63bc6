"""`hetserve plan`'s document; keys are part of the interface."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hetserve.api.inference_service import InferenceService
from hetserve.base.units import format_money
from hetserve.cli.capacity import tenancy
from hetserve.cli.capacity.plan import frontier
from hetserve.cli.capacity.plan.flow import flow_document
from hetserve.planning import Counts, Plan, Problem, RankedConfiguration, Unplannable
from hetserve.planning.plan import EvaluatedConfiguration

if TYPE_CHECKING:
    from hetserve.planning.flow.frontier import FrontierPoint


@dataclass(frozen=True, slots=True)
class ServicePlan:
    """A service's plan.

    problem: None if unplannable. seed: of the simulation; None: nothing was simulated. frontier: None if not asked for.
    """

    declared: InferenceService
    problem: Problem | None
    plan: Plan | Unplannable
    seed: int | None = None
    frontier: tuple[FrontierPoint, ...] | None = None

    @classmethod
    def of_unplannable(cls, declared: InferenceService, why: Unplannable) -> ServicePlan:
        return cls(declared, None, why)

    @property
    def service(self) -> str:
        return self.declared.metadata.name

    @property
    def objective(self) -> str:
        return self.declared.spec.objective if self.problem is None else self.problem.objective

    @property
    def feasible(self) -> bool:
        return isinstance(self.plan, Plan) and self.plan.feasible

    @property
    def reason(self) -> str:
        return str(self.plan.reason)

    @property
    def message(self) -> str:
        return self.plan.message


def document(result: ServicePlan) -> dict[str, Any]:
    """`-o json` for one service; cost and rate of an infeasible plan are null."""
    head = {
        "service": result.service,
        "model": result.declared.spec.model.name,
        "objective": result.objective,
        "feasible": result.feasible,
        "reason": result.reason,
        "message": result.message,
    }
    plan = result.plan
    figure = "boundQPS" if result.objective == "MaxThroughput" else "capacityQPS"
    if isinstance(plan, Unplannable):
        nothing: dict[str, Any] = {"sharing": None, "runnerUp": None, "ranking": [], "refusals": []}
        verdict = f"not planned: {result.message}"
        head |= {"planner": None, "counts": {}, "cost": None, figure: None, "maxSlowdown": None, "types": {}}
        return {**head, **nothing, "verdict": verdict, "nextStep": None}
    return {
        **head,
        "planner": plan.planner,
        "counts": dict(plan.counts),
        "cost": format_money(plan.cost) if plan.feasible else None,
        **(_rate(plan, plan.qps) or {figure: None}),
        **({} if plan.scaled_qps is None else {"scaledQPS": round(plan.scaled_qps, 6)}),
        **_evaluated(plan),
        **(flow_document(plan) if plan.tried is not None else {}),
        **({} if result.seed is None else {"seed": result.seed}),
        **({"maxSlowdown": None, "types": {}} if result.problem is None else tenancy.document(result.problem)),
        "sharing": tenancy.comparison_document(plan.sharing),
        "runnerUp": _runner_up(plan),
        "ranking": [_candidate(plan, entry) for entry in plan.ranking],
        "refusals": [{"subject": refusal.subject, "reason": refusal.reason} for refusal in plan.refusals],
        "verdict": plan.verdict,
        "nextStep": _next_step(plan),
        **({} if result.frontier is None else {"frontier": frontier.document(result.frontier)}),
    }


def _runner_up(plan: Plan) -> dict[str, Any] | None:
    if plan.runner_up is None:
        return None
    return {**_candidate(plan, plan.runner_up), "why": plan.why_not_runner_up}


def _next_step(plan: Plan) -> dict[str, Any] | None:
    """proven false: extra is an upper and gainQPS a lower limit."""
    step = plan.next_step
    if step is None:
        return None
    return {
        "extra": format_money(step.extra),
        "gainQPS": round(step.gain, 6),
        "counts": dict(step.counts),
        "cost": format_money(step.cost),
        "proven": step.proven,
    }


def _candidate(plan: Plan, entry: RankedConfiguration) -> dict[str, Any]:
    counts: Counts = entry.counts
    return {"counts": dict(counts), "cost": format_money(entry.cost), **_rate(plan, entry.qps)}


def _evaluated(plan: Plan) -> dict[str, Any]:
    if not plan.evaluated:
        return {}
    entries = [
        {**_candidate(plan, one.candidate), "simulatedQPS": round(one.held, 6), **_broken(one)}
        for one in plan.evaluated
    ]
    held = next(one.held for one in plan.evaluated if one.candidate.counts == plan.counts)
    return {"simulatedQPS": round(held, 6), "evaluated": entries}


def _broken(one: EvaluatedConfiguration) -> dict[str, float]:
    """The rate at which it breaks the SLO, of what held nothing."""
    return {} if one.held or one.below is None else {"breaksAtQPS": round(one.below, 6)}


def _rate(plan: Plan, qps: float | None) -> dict[str, float]:
    if qps is None:
        return {}
    return {"boundQPS" if plan.bound_qps is not None else "capacityQPS": round(qps, 6)}
