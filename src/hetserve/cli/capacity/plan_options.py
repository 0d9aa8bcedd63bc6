"""Options of `hetserve plan`: how to decide, and what is said instead of the files' word."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import click

from hetserve.cli import values
from hetserve.cli.capacity.inputs import FORMATS
from hetserve.cli.capacity.simulation_options import (
    batches_option,
    numbers,
    percentile_option,
    plot_option,
    upon,
)
from hetserve.registry.dispatch_policies import DISPATCH_POLICIES
from hetserve.registry.planners import OBJECTIVES, PLANNERS, default_planner, evaluating


def _enumerated(names: Sequence[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


_DEFAULTS: Final = ", ".join(f"{default_planner(objective)} for {objective}" for objective in OBJECTIVES)
_SEEDED: Final = _enumerated(PLANNERS.names_of(lambda member: member.seeded))

_OPTIONS = (
    click.argument("files", nargs=-1, required=True, metavar="FILE..."),
    click.option("-o", "--output", type=click.Choice(FORMATS), default="table", help="Form; default: table."),
    click.option(
        "--planner",
        type=click.Choice(PLANNERS.names),
        help=f"Default: {_DEFAULTS}, as in the operator.",
    ),
    click.option(
        "--policy",
        type=click.Choice(DISPATCH_POLICIES.names),
        help=f"{_enumerated(evaluating())}: evaluate by the full simulation under this dispatch policy "
        "(slower: about a second per configuration) instead of the quick one.",
    ),
    click.option("--budget", metavar="$/H", callback=values.money, help="Instead of the file's, for example 2.5."),
    click.option(
        "--slo", metavar="DURATION", callback=values.duration, help="Instead of the file's, for example 350ms."
    ),
    percentile_option,
    batches_option,
    click.option("--base", metavar="TYPE", help="Kairos's base; default: the most q/s per dollar."),
    click.option(
        "--min-instances",
        metavar="TYPE=N,...",
        callback=numbers,
        help="Hold at least so many, whatever the load; instead of the types' minInstances.",
    ),
    click.option("--service", metavar="NAME", help="Only this service (NAME or NAMESPACE/NAME)."),
    click.option(
        "--saturation-threshold",
        metavar="SHARE",
        callback=values.threshold,
        help="MinCost plans for load / threshold; default: 0.8; 1 fills every instance.",
    ),
    click.option(
        "--launch-weight",
        metavar="NUMBER",
        callback=values.weight,
        help="HetSev's lambda: how much a second of launching an instance weighs; default: 1/3600.",
    ),
    click.option(
        "--seed",
        type=click.IntRange(0, 2**32),
        help=f"Of the simulation of {_SEEDED}, and of every planner's with --policy (the first of "
        "three); the other planners draw nothing. Default: 20231; with --policy: 11.",
    ),
    plot_option,
)
"""In the order of the help."""


def plan_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The files, and every option of the command."""
    return upon(command, _OPTIONS)
