"""`hetserve plan`: what to run, from the manifests that kubectl takes, without a cluster."""

from __future__ import annotations

import dataclasses
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

import click

from hetserve.cli import values
from hetserve.units import MicroDollarsPerHour, Seconds

if TYPE_CHECKING:
    from hetserve.api.inference_service import InferenceService
    from hetserve.api.manifests import Manifests
    from hetserve.cli.result import Result
    from hetserve.planning import PlanSettings

EXIT_INFEASIBLE = 3
EXIT_BAD_INPUT = 2
_PLANNERS = ("kairos", "ilp")
_FORMATS = ("table", "json", "yaml")


@dataclass(frozen=True, slots=True)
class Overrides:
    """What the command line says instead of the file; None: the file's word, or the default, stands."""

    planner: str | None = None
    budget: MicroDollarsPerHour | None = None
    slo: Seconds | None = None
    base: str | None = None
    saturation_threshold: float | None = None
    launch_weight: float | None = None

    def settings(self) -> PlanSettings:
        from hetserve.planning import PlanSettings  # noqa: PLC0415

        given = {"saturation_threshold": self.saturation_threshold, "launch_weight": self.launch_weight}
        return PlanSettings(base=self.base, **{name: value for name, value in given.items() if value is not None})


@click.command()
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option("-o", "--output", type=click.Choice(_FORMATS), default="table", help="Form; default: table.")
@click.option("--planner", type=click.Choice(_PLANNERS), help="Default: kairos for MaxThroughput, ilp for MinCost.")
@click.option("--budget", metavar="$/H", callback=values.money, help="Instead of the file's, for example 2.5.")
@click.option("--slo", metavar="DURATION", callback=values.duration, help="Instead of the file's, for example 350ms.")
@click.option("--base", metavar="TYPE", help="Kairos's base; default: the most q/s per dollar.")
@click.option("--service", metavar="NAME", help="Only this service (NAME or NAMESPACE/NAME).")
@click.option(
    "--saturation-threshold",
    metavar="SHARE",
    callback=values.threshold,
    help="MinCost plans for load / threshold; default: 0.8; 1 fills every instance.",
)
@click.option(
    "--launch-weight",
    metavar="NUMBER",
    callback=values.weight,
    help="HetSev's lambda: how much a second of launching an instance weighs; default: 1/3600.",
)
def plan(files: tuple[str, ...], output: str, service: str | None, **overrides: Any) -> None:
    """Decide which instance types to run, and how many of each, for every InferenceService in FILE...

    FILE is a manifest as kubectl apply takes it (InferenceService, InstanceType and ModelProfile, in one or
    several files), a folder of them, or - for standard input. No cluster is needed: of each type there may be
    as many as maxInstances allows.

    \b
    Exit code: 0 every plan is feasible, 3 some service cannot be planned as asked, 2 bad input.

    \b
    Examples:
      hetserve plan manifests/samples/rm2.yaml
      hetserve plan manifests/samples/rm2.yaml --budget 5 --slo 400ms -o json
      hetserve plan types.yaml profiles/ service.yaml --planner ilp
      cat *.yaml | hetserve plan - --service resnet50
    """
    from hetserve.cli.result import render  # noqa: PLC0415

    manifests = _read(files)
    results = [_decide(one, manifests, Overrides(**overrides)) for one in _chosen(manifests, service, files)]
    text = render(results, output)
    for note in manifests.notes:
        click.echo(f"note: {note}", err=True)
    if text:
        click.echo(text, nl=not text.endswith("\n"))
    refused = [result for result in results if not result.feasible]
    for result in refused:
        click.echo(f"error: {result.service}: {result.reason}: {result.message}", err=True)
    sys.exit(EXIT_INFEASIBLE if refused else 0)


def _read(files: tuple[str, ...]) -> Manifests:
    from hetserve.api.manifests import ManifestError, read_manifests  # noqa: PLC0415

    try:
        return read_manifests(files)
    except ManifestError as error:
        for line in error.errors:
            click.echo(f"error: {line}", err=True)
        sys.exit(EXIT_BAD_INPUT)


def _chosen(manifests: Manifests, name: str | None, files: tuple[str, ...]) -> list[InferenceService]:
    from hetserve.planning.offers import namespace_of  # noqa: PLC0415

    named = [(f"{namespace_of(one)}/{one.metadata.name}", one) for one in manifests.services]
    if not named:
        _refuse(f"no InferenceService in {', '.join(files)}")
    chosen = [one for full, one in named if name is None or name in (full, one.metadata.name)]
    if not chosen:
        _refuse(f"no InferenceService {name} in the input; there are: {', '.join(full for full, _ in named)}")
    return chosen


def _decide(service: InferenceService, manifests: Manifests, overrides: Overrides) -> Result:
    from hetserve.cli.result import Result  # noqa: PLC0415
    from hetserve.planning import Unplannable, build_problem  # noqa: PLC0415
    from hetserve.planning import plan as decide  # noqa: PLC0415

    problem = build_problem(service, manifests.types, manifests.profiles, settings=overrides.settings())
    if isinstance(problem, Unplannable):
        return Result.of_unplannable(service, problem)
    known = [option.name for option in problem.types]
    if overrides.base is not None and overrides.base not in known:
        _refuse(f"--base {overrides.base}: no such type for {service.metadata.name}; there are: {', '.join(known)}")
    if overrides.budget is not None:
        problem = dataclasses.replace(problem, budget=overrides.budget)
    if overrides.slo is not None:
        problem = dataclasses.replace(problem, slo=dataclasses.replace(problem.slo, latency=overrides.slo))
    return Result(service, problem, decide(problem, overrides.planner))


def _refuse(message: str) -> NoReturn:
    click.echo(f"error: {message}", err=True)
    sys.exit(EXIT_BAD_INPUT)
