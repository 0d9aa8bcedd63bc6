"""`hetserve search`: searches the best configuration by simulation."""

from __future__ import annotations

from importlib import import_module
from typing import Any, Final

import click

from hetserve.cli.capacity.effort import effort_options, manifests_options, names_of, policy_option
from hetserve.registry.planners import SEARCH_METHODS

GUIDED: Final = "kairos-plus"
_METHODS: Final = (GUIDED, *SEARCH_METHODS.names)


@click.command()
@manifests_options
@click.option(
    "--method",
    "methods",
    metavar="A,B",
    default=GUIDED,
    show_default=True,
    callback=names_of(_METHODS),
    help=f"One or several of {', '.join(_METHODS)}.",
)
@policy_option
@click.option(
    "--evaluations",
    type=click.IntRange(1, 100_000),
    default=40,
    show_default=True,
    help="Most configurations to evaluate.",
)
@click.option("--search-seed", type=click.IntRange(0, 2**32), default=0, show_default=True, help="Seed of the method.")
@click.option("--no-pruning", is_flag=True, help="Also evaluate configurations that are contained in an evaluated one.")
@effort_options(queries=20_000, seeds="3")
def search(methods: tuple[str, ...], **options: Any) -> None:
    """Search the configurations within the budget of every InferenceService in FILE... by simulating them.

    kairos-plus follows the upper bound and stops when no other bound exceeds the best result. The other methods
    are those of the paper's comparison. All methods share simulated results.

    \b
    Exit code: 0 some configuration holds the SLO at some load, 3 no evaluated one does, 2 bad input.

    \b
    Examples:
      hetserve search manifests/samples/rm2.yaml
      hetserve search manifests/samples/rm2.yaml --method kairos-plus,genetic --evaluations 20 --plot out.png
      hetserve search manifests/samples/rm2.yaml --method random --search-seed 7 --policy kairos -o json
    """
    for needed in {member.needs for member in SEARCH_METHODS if member.name in methods and member.needs}:
        import_module(needed)
    from hetserve.cli.capacity.search.result import run  # noqa: PLC0415

    run(methods, **options)
