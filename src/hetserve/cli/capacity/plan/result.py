"""What `hetserve plan` does and its document; keys are part of the interface."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

from hetserve.api.inference_service import InferenceService
from hetserve.api.manifests import Manifests, read_manifests
from hetserve.base.units import format_money
from hetserve.cli.capacity.asked import sharing_document, tenancy_document
from hetserve.cli.capacity.effort import SimulationEffort, policy_of
from hetserve.cli.capacity.plan.flow import candidate, flow_document, rate
from hetserve.cli.capacity.services import NotPlanned, NotPlannedError, Overrides, choose, finish, problem_of
from hetserve.cli.output import streams
from hetserve.cli.output.progress import Steps, steps
from hetserve.cli.output.streams import refuse
from hetserve.planning import Plan, Problem, Unplannable
from hetserve.planning import plan as decide
from hetserve.planning.plan import EvaluatedConfiguration, NextStep
from hetserve.planning.tolerances import with_tolerances
from hetserve.registry.planners import PLANNERS, evaluating, made_for

if TYPE_CHECKING:
    from hetserve.cli.output.terminal import Block
    from hetserve.planning.flow.frontier import FrontierPoint

_QUERIES, _MOST, _SEEDS = 10_000, 50_000, 3
"""Full simulation of a configuration: least and most queries per run, seeds."""


@dataclass(frozen=True, slots=True)
class ServicePlan:
    """A service's plan. seed: of the simulation; None: nothing was simulated. frontier: None if not asked for."""

    declared: InferenceService
    problem: Problem
    plan: Plan
    seed: int | None = None
    frontier: tuple[FrontierPoint, ...] | None = None

    @property
    def service(self) -> str:
        return self.declared.metadata.name


def run(files: tuple[str, ...], service: str | None, output: str, plot: str | None, **options: Any) -> NoReturn:
    """The command, with its options."""
    policy, seed, beside = options.pop("policy"), options.pop("seed"), options.pop("frontier")
    asked, manifests = Overrides(**options), read_manifests(files)
    found = [_decide(one, manifests, asked, policy, seed) for one in choose(manifests, service, files)]
    if beside:
        found = [one if isinstance(one, NotPlanned) else _beside(one, seed) for one in found]
    for note in manifests.notes:
        streams.note(note)
    finish(found, output, plot, document, _block, _draw)


def _block(result: ServicePlan) -> Block:
    from hetserve.cli.capacity.plan.table import block  # noqa: PLC0415

    return block(result)


def _draw(results: Sequence[ServicePlan], path: str) -> None:
    from hetserve.cli.capacity.plan.plot import draw, draw_frontiers  # noqa: PLC0415

    (draw if results[0].frontier is None else draw_frontiers)(results, path)


def _beside(result: ServicePlan, seed: int | None) -> ServicePlan:
    """With its frontier; says on a terminal how far it is."""
    from hetserve.planning.flow.frontier import POINTS, frontier  # noqa: PLC0415

    with steps(f"{result.service}: frontier", POINTS) as shown:
        return dataclasses.replace(result, frontier=frontier(result.problem, result.plan, seed, done=shown.done))


def _decide(
    service: InferenceService, manifests: Manifests, overrides: Overrides, policy: str | None, seed: int | None
) -> ServicePlan | NotPlanned:
    """The feasible plan, or why there is none."""
    name, model, problem = service.metadata.name, service.spec.model.name, problem_of(service, manifests, overrides)
    if isinstance(problem, Unplannable):
        return NotPlanned(name, model, str(problem.reason), problem.message, _unplannable(service, problem))
    planner = problem.planned_by
    tries = PLANNERS[planner].tries
    _note_unused(problem, overrides)
    chosen = policy_of(service, problem, policy)
    if policy is not None and not tries:
        made = _evaluated(problem, policy, _seed(planner, seed))
    else:
        problem = dataclasses.replace(problem, policy=chosen)
        with steps(name) if tries else nullcontext(Steps()) as shown:
            shown.busy("trying")
            made = decide(problem, seed=seed)
    problem = with_tolerances(problem, dict(made.tolerances))
    result = ServicePlan(service, problem, made, _seed(planner, seed) if made.evaluated else None)
    return result if made.feasible else NotPlanned(name, model, str(made.reason), made.message, document(result))


def _note_unused(problem: Problem, overrides: Overrides) -> None:
    """Notes what was asked for and the planner does not use."""
    planner = problem.planned_by
    tries = PLANNERS[planner].tries
    if tries and overrides.base is not None:
        streams.note(f"--base: planner {planner} has no base; it is of kairos and kairos-plus")
    if tries and overrides.saturation_threshold is not None:
        streams.note(f"--saturation-threshold: planner {planner} tries its margins; it is of ilp and greedy")
    if problem.objective == "MinCost" and "MinCost" not in PLANNERS[planner].objectives:
        others = ", ".join(made_for("MinCost"))
        streams.note(
            f"--planner {planner} plans the most throughput and ignores the load; "
            f"for its least cost choose from {others}"
        )


def _seed(planner: str, given: int | None) -> int:
    """First seed of what the planner simulates."""
    if given is not None:
        return given
    if PLANNERS[planner].tries:
        from hetserve.planning.flow.search.judge import SEED as TRIALS  # noqa: PLC0415

        return TRIALS
    from hetserve.planning.kairos.plus import SEED  # noqa: PLC0415

    return SEED


def _evaluated(problem: Problem, policy: str, seed: int) -> Plan:
    """Plans by the full simulation; exits if the planner does not simulate."""
    from hetserve.cli.capacity.serving import evaluator, long_enough  # noqa: PLC0415

    planner = problem.planned_by
    if planner not in evaluating():
        others = ", ".join(name for name in PLANNERS.names if name in evaluating() or PLANNERS[name].tries)
        refuse(f"--policy {policy}: planner {planner} evaluates nothing; choose --planner from {others}")
    effort = SimulationEffort(_QUERIES, tuple(range(seed, seed + _SEEDS)), jobs=4)
    highest = max((entry.qps for entry in decide(problem, "kairos").ranking), default=0.0)
    try:
        effort = long_enough(problem, highest, effort, _MOST)
    except NotPlannedError as why:
        refuse(f"{problem.service}: {why}")
    with steps(problem.service) as shown:
        return decide(problem, planner, evaluator(problem, policy, effort, shown))


def _head(service: InferenceService, objective: str, made: Plan | Unplannable, *, feasible: bool) -> dict[str, Any]:
    return {
        "service": service.metadata.name,
        "model": service.spec.model.name,
        "objective": objective,
        "feasible": feasible,
        "reason": str(made.reason),
        "message": made.message,
    }


def _unplannable(service: InferenceService, why: Unplannable) -> dict[str, Any]:
    """`-o json` for a service without a problem."""
    objective = service.spec.objective
    keys = ("planner", "counts", "cost", _rate_key(objective), "maxSlowdown", "types", "sharing", "runnerUp")
    nothing = dict.fromkeys(keys) | {"counts": {}, "types": {}, "ranking": [], "refusals": []}
    verdict = {"verdict": f"not planned: {why.message}", "nextStep": None}
    return {**_head(service, objective, why, feasible=False), **nothing, **verdict}


def _rate_key(objective: str) -> str:
    return "boundQPS" if objective == "MaxThroughput" else "capacityQPS"


def document(result: ServicePlan) -> dict[str, Any]:
    """`-o json` for one service; cost and rate of an infeasible plan are null."""
    plan, second, step = result.plan, result.plan.runner_up, result.plan.next_step
    return {
        **_head(result.declared, result.problem.objective, plan, feasible=plan.feasible),
        "planner": plan.planner,
        "counts": dict(plan.counts),
        "cost": format_money(plan.cost) if plan.feasible else None,
        **(rate(plan, plan.qps) or {_rate_key(result.problem.objective): None}),
        **({} if plan.scaled_qps is None else {"scaledQPS": round(plan.scaled_qps, 6)}),
        **_tried(plan),
        **(flow_document(plan) if plan.tried is not None else {}),
        **({} if result.seed is None else {"seed": result.seed}),
        **tenancy_document(result.problem),
        "sharing": sharing_document(plan.sharing),
        "runnerUp": None if second is None else {**candidate(plan, second), "why": plan.why_not_runner_up},
        "ranking": [candidate(plan, entry) for entry in plan.ranking],
        "refusals": [{"subject": refusal.subject, "reason": refusal.reason} for refusal in plan.refusals],
        "verdict": plan.verdict,
        "nextStep": None if step is None else _next_step(step),
        **({} if result.frontier is None else {"frontier": _frontier(result.frontier)}),
    }


def _next_step(step: NextStep) -> dict[str, Any]:
    """proven false: extra is an upper and gainQPS a lower limit."""
    return {
        "extra": format_money(step.extra),
        "gainQPS": round(step.gain, 6),
        "counts": dict(step.counts),
        "cost": format_money(step.cost),
        "proven": step.proven,
    }


def _tried(plan: Plan) -> dict[str, Any]:
    if not plan.evaluated:
        return {}
    entries = [
        {**candidate(plan, one.candidate), "simulatedQPS": round(one.held, 6), **_broken(one)} for one in plan.evaluated
    ]
    held = next(one.held for one in plan.evaluated if one.candidate.counts == plan.counts)
    return {"simulatedQPS": round(held, 6), "evaluated": entries}


def _broken(one: EvaluatedConfiguration) -> dict[str, float]:
    """The rate at which it breaks the SLO, of what held nothing."""
    return {} if one.held or one.below is None else {"breaksAtQPS": round(one.below, 6)}


def _frontier(points: Sequence[FrontierPoint]) -> list[dict[str, Any]]:
    """`frontier` of `-o json`."""
    return [
        {
            "budget": format_money(point.budget),
            "ceilingQPS": round(point.ceiling, 6),
            "planners": {name: None if one is None else _held(one) for name, one in point.planners},
        }
        for point in points
    ]


def _held(one: EvaluatedConfiguration) -> dict[str, Any]:
    """simulatedQPS: null if it was not tried."""
    tried = one.held > 0 or one.below is not None
    return {
        "counts": dict(one.candidate.counts),
        "cost": format_money(one.candidate.cost),
        "boundQPS": round(one.candidate.qps, 6),
        "simulatedQPS": round(one.held, 6) if tried else None,
    }
