"""Options of `hetserve plan`: how to decide, and what is said instead of the files' word."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from hetserve.cli import values
from hetserve.cli.capacity.simulation_options import POLICIES, batches_option, numbers, percentile_option, upon
from hetserve.cli.output.documents import FORMATS
from hetserve.cli.output.plots import plot_option

_PLANNERS = ("robust", "kairos", "kairos-plus", "ilp", "greedy", "homogeneous", "exhaustive")


_OPTIONS = (
    click.argument("files", nargs=-1, required=True, metavar="FILE..."),
    click.option("-o", "--output", type=click.Choice(FORMATS), default="table", help="Form; default: table."),
    click.option(
        "--planner",
        type=click.Choice(_PLANNERS),
        help="Default: robust for MaxThroughput, ilp for MinCost, as in the operator.",
    ),
    click.option(
        "--policy",
        type=click.Choice(POLICIES),
        help="robust, kairos-plus and exhaustive: evaluate by the full simulation under this dispatch policy "
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
        help="Of the simulation of robust and kairos-plus, and of every planner's with --policy (the first of "
        "three); the other planners draw nothing. Default: 20231; with --policy: 11.",
    ),
    plot_option,
)
"""In the order of the help."""


def plan_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The files, and every option of the command."""
    return upon(command, _OPTIONS)
