"""Options of `hetserve plan`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import click

from hetserve.cli import values
from hetserve.cli.capacity.simulation_options import (
    batches_option,
    max_slowdown_option,
    numbers,
    percentile_option,
    rate,
    upon,
)
from hetserve.cli.output.documents import FORMATS
from hetserve.cli.output.plots import plot_option
from hetserve.registry.dispatch_policies import DISPATCH_POLICIES, default_dispatch_policy
from hetserve.registry.planners import OBJECTIVES, PLANNERS, default_planner, evaluating


def _enumerated(names: Sequence[str]) -> str:
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


_DEFAULT: Final = {default_planner(objective): objective for objective in OBJECTIVES}
_DEFAULTS: Final = ", ".join(name if len(_DEFAULT) == 1 else f"{name} for {of}" for name, of in _DEFAULT.items())
_TRYING: Final = _enumerated(PLANNERS.names_of(lambda member: member.tries))
_SEEDED: Final = _enumerated(PLANNERS.names_of(lambda member: member.seeded))

_OPTIONS = (
    click.argument("files", nargs=-1, required=True, metavar="FILE..."),
    click.option("-o", "--output", type=click.Choice(FORMATS), default="table", help="Form; default: table."),
    click.option(
        "--planner",
        type=click.Choice(PLANNERS.names),
        help=f"Overrides spec.planner; default: {_DEFAULTS}, as in the operator.",
    ),
    click.option(
        "--policy",
        type=click.Choice(DISPATCH_POLICIES.names),
        help=f"{_TRYING}: try under this dispatch policy; default: {default_dispatch_policy()}. "
        f"{_enumerated(evaluating())}: evaluate by the full simulation under it "
        "instead of the quick one (slower: about a second per configuration).",
    ),
    click.option("--budget", metavar="$/H", callback=values.money, help="Overrides the file's; for example 2.5."),
    click.option(
        "--load",
        metavar="Q/S",
        callback=rate,
        help="Plan the least cost of this load (MinCost) instead.",
    ),
    click.option(
        "--slo", metavar="DURATION", callback=values.duration, help="Overrides the file's; for example 350ms."
    ),
    percentile_option,
    batches_option,
    click.option("--base", metavar="TYPE", help="Kairos's base; default: the most q/s per dollar."),
    max_slowdown_option,
    click.option(
        "--min-instances",
        metavar="TYPE=N,...",
        callback=numbers,
        help="Least number of instances, whatever the load; overrides the types' minInstances.",
    ),
    click.option("--service", metavar="NAME", help="Only this service (NAME or NAMESPACE/NAME)."),
    click.option(
        "--saturation-threshold",
        metavar="SHARE",
        callback=values.threshold,
        help="ilp and greedy plan for load / SHARE; default: 0.8; 1 uses the whole capacity.",
    ),
    click.option(
        "--launch-weight",
        metavar="NUMBER",
        callback=values.weight,
        help="HetSev's lambda: weight of each second that an instance takes to launch; default: 1/3600.",
    ),
    click.option(
        "--seed",
        type=click.IntRange(0, 2**32),
        help=f"Seed of the simulation by {_SEEDED}; with --policy the first of three seeds. Other "
        f"planners use no randomness. Default: 20231, with --policy 11; {_TRYING}: 20261.",
    ),
    click.option(
        "--frontier",
        is_flag=True,
        help="Also try what several budgets buy, beside HetSev's ILP, Kairos's pick and the best single type; --plot "
        "draws that instead.",
    ),
    plot_option,
)


def plan_options(command: Callable[..., Any]) -> Callable[..., Any]:
    return upon(command, _OPTIONS)
