"""`hetserve plan`'s document; keys are part of the interface."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hetserve.api.inference_service import InferenceService
from hetserve.base.units import format_money
from hetserve.planning import Counts, Plan, Problem, RankedConfiguration, Unplannable


@dataclass(frozen=True, slots=True)
class ServicePlan:
    """A service's plan.

    problem: None if unplannable. seed: of the simulation; None: nothing was simulated.
    """

    declared: InferenceService
    problem: Problem | None
    plan: Plan | Unplannable
    seed: int | None = None

    @classmethod
    def of_unplannable(cls, declared: InferenceService, why: Unplannable) -> ServicePlan:
        return cls(declared, None, why)

    @property
    def service(self) -> str:
        return self.declared.metadata.name

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
        "objective": result.declared.spec.objective,
        "feasible": result.feasible,
        "reason": result.reason,
        "message": result.message,
    }
    plan = result.plan
    figure = "boundQPS" if result.declared.spec.objective == "MaxThroughput" else "capacityQPS"
    if isinstance(plan, Unplannable):
        nothing: dict[str, Any] = {"runnerUp": None, "ranking": [], "refusals": []}
        verdict = f"not planned: {result.message}"
        head |= {"planner": None, "counts": {}, "cost": None, figure: None}
        return {**head, **nothing, "verdict": verdict, "nextStep": None}
    return {
        **head,
        "planner": plan.planner,
        "counts": dict(plan.counts),
        "cost": format_money(plan.cost) if plan.feasible else None,
        **(_rate(plan, plan.qps) or {figure: None}),
        **({} if plan.scaled_qps is None else {"scaledQPS": round(plan.scaled_qps, 6)}),
        **_evaluated(plan),
        **({} if result.seed is None else {"seed": result.seed}),
        "runnerUp": _runner_up(plan),
        "ranking": [_candidate(plan, entry) for entry in plan.ranking],
        "refusals": [{"subject": refusal.subject, "reason": refusal.reason} for refusal in plan.refusals],
        "verdict": plan.verdict,
        "nextStep": _next_step(plan),
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
    entries = [{**_candidate(plan, one.candidate), "simulatedQPS": round(one.held, 6)} for one in plan.evaluated]
    held = next(one.held for one in plan.evaluated if one.candidate.counts == plan.counts)
    return {"simulatedQPS": round(held, 6), "evaluated": entries}


def _rate(plan: Plan, qps: float | None) -> dict[str, float]:
    if qps is None:
        return {}
    return {"boundQPS" if plan.bound_qps is not None else "capacityQPS": round(qps, 6)}
