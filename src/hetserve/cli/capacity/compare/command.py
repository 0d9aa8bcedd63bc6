"""`hetserve compare`: simulates the configurations of several planners under several dispatch policies."""

from __future__ import annotations

from typing import Any, Final

import click

from hetserve.cli.capacity.effort import effort_options, manifests_options, names_of
from hetserve.registry.dispatch_policies import DISPATCH_POLICIES
from hetserve.registry.planners import OBJECTIVES, compared_for

DEFAULT_PLANNERS: Final = {objective: compared_for(objective) for objective in OBJECTIVES}
DEFAULT_POLICIES: Final = DISPATCH_POLICIES.names_of(lambda member: member.compared)


@click.command()
@manifests_options
@click.option(
    "--planners",
    metavar="A,B",
    help=f"Default: {','.join(DEFAULT_PLANNERS['MaxThroughput'])}; MinCost: {','.join(DEFAULT_PLANNERS['MinCost'])}.",
)
@click.option(
    "--policies",
    metavar="X,Y",
    callback=names_of(DISPATCH_POLICIES.names),
    help=f"Of {', '.join(DISPATCH_POLICIES.names)}; default: {','.join(DEFAULT_POLICIES)}.",
)
@effort_options(queries=20_000, seeds="3")
def compare(**options: Any) -> None:
    """Compare planners and dispatch policies for every InferenceService in FILE...

    Each planner's configuration is simulated under each policy. The answer is the highest load at which the SLO
    holds, for each pair.

    \b
    Exit code: 0 some planner has a feasible plan, 3 none has one, 2 bad input.

    \b
    Examples:
      hetserve compare manifests/samples/rm2.yaml
      hetserve compare manifests/samples/rm2.yaml --plot out.png --queries 100000
      hetserve compare manifests/samples/rm2.yaml --planners kairos,homogeneous --policies hetserve,fcfs -o json
    """
    from hetserve.cli.capacity.compare.result import run  # noqa: PLC0415

    run(**options)
