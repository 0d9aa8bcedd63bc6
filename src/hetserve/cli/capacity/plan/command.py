"""`hetserve plan`: plans services from manifests."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, NoReturn

import click

from hetserve.cli.capacity.effort import Effort
from hetserve.cli.capacity.inputs import Overrides, choose, problem_of, read
from hetserve.cli.capacity.not_planned import NotPlannedError, exit_code
from hetserve.cli.capacity.plan.options import plan_options
from hetserve.cli.output import messages
from hetserve.cli.output.messages import refuse
from hetserve.cli.output.plots import draw_or_refuse
from hetserve.registry.planners import PLANNERS, evaluating, made_for

if TYPE_CHECKING:
    from hetserve.api.inference_service import InferenceService
    from hetserve.api.manifests import Manifests
    from hetserve.cli.capacity.plan.result import ServicePlan
    from hetserve.planning import Plan, Problem

_QUERIES, _MOST, _SEEDS = 10_000, 50_000, 3
"""Full simulation of a configuration: least and most queries per run, seeds."""


@click.command()
@plan_options
def plan(files: tuple[str, ...], service: str | None, output: str, plot: str | None, **options: Any) -> None:
    """Decide which instance types to run, and how many of each, for every InferenceService in FILE...

    FILE is a manifest for kubectl apply (InferenceService, InstanceType and ModelProfile, in one or several
    files), a folder of manifests, or - for standard input. No cluster is needed: each type is available up to
    its maxInstances.

    \b
    Keys of -o json and yaml: service, model, objective, feasible, reason, message, planner,
      counts {type: instances}, cost ($/h, as text), boundQPS (capacityQPS for the least cost),
      scaledQPS (homogeneous: if the whole budget were spent),
      simulatedQPS, evaluated and seed (planners that simulate), runnerUp {counts, cost, boundQPS, why},
      maxSlowdown (that service times allow for; null: no GPU is shared),
      types {type on a GPU: {tenancy, gpuMemoryMiB, gpuCompute (percent), why}},
      sharing {planner, exclusive, shared {counts, cost, qps}} or null,
      ranking [the ten best], refusals [subject, reason], verdict,
      nextStep {extra ($/h more), gainQPS, counts, cost, proven} or null.
    \b
    Only of planner flow: tried (in simulation), heldQPS (proved), ceilingQPS or floorCost (no mix holds more, or
      costs less), flow [type, first, last (batches), qps], cheaper {counts, cost, simulatedQPS, breaksAtQPS},
      prices {perInstanceQPS {type: q/s}, perDollarQPS, bestType, perQPS ($/h), binding {first, last, queries,
      price, type}}.
    With --frontier: frontier [budget, ceilingQPS, planners {name: {counts, cost, boundQPS, simulatedQPS}}].
    Several services: a list under items.

    \b
    Exit code: 0 every plan is feasible, 3 some service has no feasible plan, 2 bad input.

    \b
    Examples:
      hetserve plan manifests/samples/rm2.yaml
      hetserve plan manifests/samples/rm2.yaml --budget 5 --slo 400ms -o json
      hetserve plan manifests/samples/rm2.yaml --planner kairos-plus --policy hetserve
      hetserve plan manifests/samples/rm2.yaml --load 100
      hetserve plan manifests/samples/hetsev.yaml --max-slowdown 1.4
      hetserve plan manifests/samples/rm2.yaml --min-instances g4dn.xlarge=2 --seed 7
      hetserve plan manifests/samples/hetsev.yaml --plot plans.png
      hetserve plan manifests/samples/rm2.yaml --frontier --plot frontier.png
      hetserve plan types.yaml profiles/ service.yaml --planner ilp
      cat *.yaml | hetserve plan - --service resnet50
    """
    policy, seed, frontier = options.pop("policy"), options.pop("seed"), options.pop("frontier")
    asked, manifests = Overrides(**options), read(files)
    results = [_decide(one, manifests, asked, policy, seed) for one in choose(manifests, service, files)]
    if frontier:
        results = [_beside(result, seed) for result in results]
    if plot is not None and any(result.feasible for result in results):
        draw_or_refuse(lambda: _draw(results, plot, frontier=frontier), plot)
    _answer(results, output, manifests.notes)


def _answer(results: list[ServicePlan], output: str, notes: Sequence[str]) -> NoReturn:
    """Writes plans to stdout, the rest to stderr, and exits."""
    text = _text(results, output)
    for note in notes:
        messages.note(note)
    if text:
        click.echo(text, nl=False)
    refused = [result for result in results if not result.feasible]
    for result in refused:
        messages.error(f"{result.service}: {result.reason}: {result.message}")
    sys.exit(exit_code([result.reason for result in refused], infeasible=bool(refused)))


def _text(results: list[ServicePlan], output: str) -> str:
    """A table shows feasible plans only."""
    if output == "table":
        from hetserve.cli.capacity.plan.table import table  # noqa: PLC0415

        return table([result for result in results if result.feasible])
    from hetserve.cli.capacity.plan.result import document  # noqa: PLC0415
    from hetserve.cli.output.documents import dump  # noqa: PLC0415

    return dump([document(result) for result in results], output)


def _draw(results: list[ServicePlan], path: str, *, frontier: bool) -> None:
    if frontier:
        from hetserve.cli.capacity.plan.frontier_plot import draw  # noqa: PLC0415
    else:
        from hetserve.cli.capacity.plan.plot import draw  # noqa: PLC0415
    draw(results, path)


def _beside(result: ServicePlan, seed: int | None) -> ServicePlan:
    """With its frontier, if it is feasible."""
    from hetserve.cli.capacity.plan.frontier import compute  # noqa: PLC0415
    from hetserve.planning import Plan  # noqa: PLC0415

    if result.problem is None or not isinstance(result.plan, Plan) or not result.plan.feasible:
        return result
    return dataclasses.replace(result, frontier=compute(result.problem, result.plan, seed))


def _decide(
    service: InferenceService, manifests: Manifests, overrides: Overrides, policy: str | None, seed: int | None
) -> ServicePlan:
    from hetserve.cli.capacity.plan.result import ServicePlan  # noqa: PLC0415
    from hetserve.cli.output.progress import watched  # noqa: PLC0415
    from hetserve.planning import Unplannable  # noqa: PLC0415
    from hetserve.planning import plan as decide  # noqa: PLC0415

    problem = problem_of(service, manifests, overrides)
    if isinstance(problem, Unplannable):
        return ServicePlan.of_unplannable(service, problem)
    planner = problem.planned_by
    tries = PLANNERS[planner].tries
    _note_unused(problem, overrides)
    if policy is not None and not tries:
        made = _evaluated(problem, policy, _seed(planner, seed))
    else:
        if policy is not None:
            problem = dataclasses.replace(problem, policy=policy)
        with watched(service.metadata.name) if tries else nullcontext():
            made = decide(problem, seed=seed)
    return ServicePlan(service, problem, made, _seed(planner, seed) if made.evaluated else None)


def _note_unused(problem: Problem, overrides: Overrides) -> None:
    """Notes what was asked for and the planner does not use."""
    planner = problem.planned_by
    tries = PLANNERS[planner].tries
    if tries and overrides.base is not None:
        messages.note(f"--base: planner {planner} has no base; it is of kairos and kairos-plus")
    if tries and overrides.saturation_threshold is not None:
        messages.note(f"--saturation-threshold: planner {planner} tries its margins; it is of ilp and greedy")
    if problem.objective == "MinCost" and "MinCost" not in PLANNERS[planner].objectives:
        others = ", ".join(made_for("MinCost"))
        messages.note(
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
    from hetserve.cli.output.progress import steps  # noqa: PLC0415
    from hetserve.planning import plan as decide  # noqa: PLC0415

    planner = problem.planned_by
    if planner not in evaluating():
        others = ", ".join(name for name in PLANNERS.names if name in evaluating() or PLANNERS[name].tries)
        refuse(f"--policy {policy}: planner {planner} evaluates nothing; choose --planner from {others}")
    effort = _long_enough(problem, Effort(_QUERIES, tuple(range(seed, seed + _SEEDS)), jobs=4))
    with steps(problem.service) as shown:
        return decide(problem, planner, evaluator(problem, policy, effort, shown))


def _long_enough(problem: Problem, effort: Effort) -> Effort:
    """Raises the queries per run until overload shows; exits beyond _MOST."""
    from hetserve.cli.capacity.serving import long_enough  # noqa: PLC0415
    from hetserve.planning import plan as decide  # noqa: PLC0415

    highest = max((entry.qps for entry in decide(problem, "kairos").ranking), default=0.0)
    try:
        return long_enough(problem, highest, effort, _MOST)
    except NotPlannedError as why:
        refuse(f"{problem.service}: {why}")
