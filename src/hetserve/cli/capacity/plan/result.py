"""What `hetserve plan` does and its document; keys are part of the interface."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

import click

from hetserve.api.inference_service import InferenceService
from hetserve.api.manifests import Manifests, read_manifests
from hetserve.base.units import format_money
from hetserve.cli.capacity import tenancy
from hetserve.cli.capacity.effort import SimulationEffort
from hetserve.cli.capacity.plan.flow import candidate, flow_document, rate
from hetserve.cli.capacity.services import NotPlannedError, Overrides, choose, exit_code, problem_of
from hetserve.cli.output import streams
from hetserve.cli.output.plots import draw_or_refuse
from hetserve.cli.output.progress import Steps, steps
from hetserve.cli.output.streams import dump, refuse
from hetserve.planning import Plan, Problem, Unplannable
from hetserve.planning import plan as decide
from hetserve.planning.plan import EvaluatedConfiguration
from hetserve.registry.planners import PLANNERS, evaluating, made_for

if TYPE_CHECKING:
    from hetserve.planning.flow.frontier import FrontierPoint

_QUERIES, _MOST, _SEEDS = 10_000, 50_000, 3
"""Full simulation of a configuration: least and most queries per run, seeds."""


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


def run(files: tuple[str, ...], service: str | None, output: str, plot: str | None, **options: Any) -> NoReturn:
    """The command, with its options."""
    policy, seed, beside = options.pop("policy"), options.pop("seed"), options.pop("frontier")
    asked, manifests = Overrides(**options), read_manifests(files)
    results = [_decide(one, manifests, asked, policy, seed) for one in choose(manifests, service, files)]
    if beside:
        results = [_beside(result, seed) for result in results]
    if plot is not None and any(result.feasible for result in results):
        draw_or_refuse(lambda: _draw(results, plot, frontier=beside), plot)
    _answer(results, output, manifests.notes)


def _answer(results: list[ServicePlan], output: str, notes: Sequence[str]) -> NoReturn:
    """Writes plans to stdout, the rest to stderr, and exits."""
    text = _text(results, output)
    for note in notes:
        streams.note(note)
    if text:
        click.echo(text, nl=False)
    refused = [result for result in results if not result.feasible]
    for result in refused:
        streams.error(f"{result.service}: {result.reason}: {result.message}")
    sys.exit(exit_code([result.reason for result in refused], infeasible=bool(refused)))


def _text(results: list[ServicePlan], output: str) -> str:
    """A table shows feasible plans only."""
    if output == "table":
        from hetserve.cli.capacity.plan.table import table  # noqa: PLC0415

        return table([result for result in results if result.feasible])
    return dump([document(result) for result in results], output)


def _draw(results: list[ServicePlan], path: str, *, frontier: bool) -> None:
    from hetserve.cli.capacity.plan.plot import draw, draw_frontiers  # noqa: PLC0415

    (draw_frontiers if frontier else draw)(results, path)


def _beside(result: ServicePlan, seed: int | None) -> ServicePlan:
    """With its frontier, if it is feasible; says on a terminal how far it is."""
    from hetserve.planning.flow.frontier import POINTS, frontier  # noqa: PLC0415

    problem, plan = result.problem, result.plan
    if problem is None or not isinstance(plan, Plan) or not plan.feasible:
        return result
    with steps(f"{problem.service}: frontier", POINTS) as shown:
        return dataclasses.replace(result, frontier=frontier(problem, plan, seed, done=shown.done))


def _decide(
    service: InferenceService, manifests: Manifests, overrides: Overrides, policy: str | None, seed: int | None
) -> ServicePlan:
    problem = problem_of(service, manifests, overrides)
    if isinstance(problem, Unplannable):
        return ServicePlan(service, None, problem)
    planner = problem.planned_by
    tries = PLANNERS[planner].tries
    _note_unused(problem, overrides)
    if policy is not None and not tries:
        made = _evaluated(problem, policy, _seed(planner, seed))
    else:
        if policy is not None:
            problem = dataclasses.replace(problem, policy=policy)
        with steps(service.metadata.name) if tries else nullcontext(Steps()) as shown:
            shown.busy("trying")
            made = decide(problem, seed=seed)
    return ServicePlan(service, problem, made, _seed(planner, seed) if made.evaluated else None)


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
    from hetserve.cli.capacity.serving import evaluator  # noqa: PLC0415

    planner = problem.planned_by
    if planner not in evaluating():
        others = ", ".join(name for name in PLANNERS.names if name in evaluating() or PLANNERS[name].tries)
        refuse(f"--policy {policy}: planner {planner} evaluates nothing; choose --planner from {others}")
    effort = _long_enough(problem, SimulationEffort(_QUERIES, tuple(range(seed, seed + _SEEDS)), jobs=4))
    with steps(problem.service) as shown:
        return decide(problem, planner, evaluator(problem, policy, effort, shown))


def _long_enough(problem: Problem, effort: SimulationEffort) -> SimulationEffort:
    """Raises the queries per run until overload shows; exits beyond _MOST."""
    from hetserve.cli.capacity.serving import long_enough  # noqa: PLC0415

    highest = max((entry.qps for entry in decide(problem, "kairos").ranking), default=0.0)
    try:
        return long_enough(problem, highest, effort, _MOST)
    except NotPlannedError as why:
        refuse(f"{problem.service}: {why}")


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
        **(rate(plan, plan.qps) or {figure: None}),
        **({} if plan.scaled_qps is None else {"scaledQPS": round(plan.scaled_qps, 6)}),
        **_tried(plan),
        **(flow_document(plan) if plan.tried is not None else {}),
        **({} if result.seed is None else {"seed": result.seed}),
        **({"maxSlowdown": None, "types": {}} if result.problem is None else tenancy.document(result.problem)),
        "sharing": tenancy.comparison_document(plan.sharing),
        "runnerUp": _runner_up(plan),
        "ranking": [candidate(plan, entry) for entry in plan.ranking],
        "refusals": [{"subject": refusal.subject, "reason": refusal.reason} for refusal in plan.refusals],
        "verdict": plan.verdict,
        "nextStep": _next_step(plan),
        **({} if result.frontier is None else {"frontier": _frontier(result.frontier)}),
    }


def _runner_up(plan: Plan) -> dict[str, Any] | None:
    if plan.runner_up is None:
        return None
    return {**candidate(plan, plan.runner_up), "why": plan.why_not_runner_up}


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
