"""`hetserve plan`: plans services from manifests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import click

from hetserve.cli import values
from hetserve.cli.capacity.effort import (
    base_option,
    batches_option,
    budget_option,
    files_argument,
    max_slowdown_option,
    numbers,
    output_option,
    percentile_option,
    rate,
    service_option,
    slo_option,
)
from hetserve.cli.output.plots import plot_option
from hetserve.registry.dispatch_policies import DISPATCH_POLICIES, default_dispatch_policy
from hetserve.registry.planners import OBJECTIVES, PLANNERS, default_planner, evaluating


def _enumerated(names: Sequence[str]) -> str:
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


_DEFAULT: Final = {default_planner(objective): objective for objective in OBJECTIVES}
_DEFAULTS: Final = ", ".join(name if len(_DEFAULT) == 1 else f"{name} for {of}" for name, of in _DEFAULT.items())
_TRYING: Final = _enumerated(PLANNERS.names_of(lambda member: member.tries))
_SEEDED: Final = _enumerated(PLANNERS.names_of(lambda member: member.seeded))


@click.command()
@files_argument
@output_option
@click.option(
    "--planner",
    type=click.Choice(PLANNERS.names),
    help=f"Overrides spec.planner; default: {_DEFAULTS}, as in the operator.",
)
@click.option(
    "--policy",
    type=click.Choice(DISPATCH_POLICIES.names),
    help=f"{_TRYING}: try under this dispatch policy; default: {default_dispatch_policy()}. "
    f"{_enumerated(evaluating())}: evaluate by the full simulation under it "
    "instead of the quick one (slower: about a second per configuration).",
)
@budget_option
@click.option(
    "--load",
    metavar="Q/S",
    callback=rate,
    help="Plan the least cost of this load (MinCost) instead.",
)
@slo_option
@percentile_option
@batches_option
@base_option
@max_slowdown_option
@click.option(
    "--min-instances",
    metavar="TYPE=N,...",
    callback=numbers,
    help="Least number of instances, whatever the load; overrides the types' minInstances.",
)
@service_option
@click.option(
    "--saturation-threshold",
    metavar="SHARE",
    callback=values.threshold,
    help="ilp and greedy plan for load / SHARE; default: 0.8; 1 uses the whole capacity.",
)
@click.option(
    "--launch-weight",
    metavar="NUMBER",
    callback=values.weight,
    help="HetSev's lambda: weight of each second that an instance takes to launch; default: 1/3600.",
)
@click.option(
    "--seed",
    type=click.IntRange(0, 2**32),
    help=f"Seed of the simulation by {_SEEDED}; with --policy the first of three seeds. Other "
    f"planners use no randomness. Default: 20231, with --policy 11; {_TRYING}: 20261.",
)
@click.option(
    "--frontier",
    is_flag=True,
    help="Also try what several budgets buy, beside HetSev's ILP, Kairos's pick and the best single type; --plot "
    "draws that instead.",
)
@plot_option
def plan(**options: Any) -> None:
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
    from hetserve.cli.capacity.plan.result import run  # noqa: PLC0415

    run(**options)
