"""`hetserve autoscale`: how a service would follow a load, in virtual time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from hetserve.base.csv_rows import CsvError
from hetserve.base.files import UnreadableError
from hetserve.base.units import QPS
from hetserve.cli import values
from hetserve.cli.capacity.inputs import Overrides, choose, problem_of, read
from hetserve.cli.capacity.not_planned import NotPlannedError, answered, answers, each, finish, planned
from hetserve.cli.capacity.simulation_options import batches, batches_option, max_slowdown_option, percentile_option
from hetserve.cli.output.documents import FORMATS
from hetserve.cli.output.messages import note, refuse
from hetserve.cli.output.plots import draw_or_refuse, plot_option

if TYPE_CHECKING:
    from hetserve.api.inference_service import InferenceService
    from hetserve.api.manifests import Manifests
    from hetserve.api.service.scaling import ScalingSpec
    from hetserve.cli.capacity.autoscale.result import Followed
    from hetserve.demand import BatchMix
    from hetserve.demand.trace import LoadTrace
    from hetserve.planning.problem import Problem
    from hetserve.scaling.replay.arrivals import Arrived

Changes = tuple[tuple[float, "BatchMix"], ...]
_ANY_LOAD = QPS(1.0)
"""The trace says the load: a problem that is built needs some."""


def slower(ctx: click.Context, param: click.Parameter, value: tuple[str, ...]) -> Mapping[str, float]:
    """Option callback: ``1.2`` or ``g4dn.xlarge=1.3``, each type once."""
    from hetserve.profiles.latency_factors import latency_factors  # noqa: PLC0415

    try:
        return latency_factors(value)
    except ValueError as error:
        raise click.BadParameter(str(error), ctx, param) from None


def mix_changes(ctx: click.Context, param: click.Parameter, value: tuple[str, ...]) -> Changes:
    """Option callback: ``43200=normal:165,16``, each once, by their seconds."""
    found: dict[float, BatchMix] = {}
    for text in value:
        second, _, mix = text.partition("=")
        at = values.number(lambda n: n > 0, "SECOND=MIX, for example 43200=normal:165,16")(ctx, param, second)
        if at in found:
            raise click.BadParameter(f"second {at:g} is there twice", ctx, param)
        if (made := batches(ctx, param, mix)) is not None:
            found[at] = made
    return tuple(sorted(found.items(), key=lambda one: one[0]))


@dataclass(frozen=True, slots=True)
class _Played:
    """What is played. changes: batch sizes from a second of the trace on. factors: real service times / declared."""

    load: LoadTrace
    changes: Changes
    seed: int
    factors: Mapping[str, float]


@click.command()
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option(
    "--load", "trace", metavar="TRACE.csv", required=True, help="Load over time: columns time_s (rising) and qps."
)
@click.option("--service", metavar="NAME", help="Only this service (NAME or NAMESPACE/NAME).")
@click.option("--budget", metavar="$/H", callback=values.money, help="Overrides the file's.")
@click.option("--slo", metavar="DURATION", callback=values.duration, help="Overrides the file's.")
@percentile_option
@batches_option
@max_slowdown_option
@click.option(
    "--mix-change",
    "changes",
    metavar="SECOND=MIX",
    multiple=True,
    callback=mix_changes,
    help="From this second of the trace on, queries have these batch sizes, which are measured; MIX as of --batches. "
    "Repeatable.",
)
@click.option(
    "--latency-factor",
    "factors",
    metavar="[TYPE=]FACTOR",
    multiple=True,
    callback=slower,
    help="How many times as long queries really take as profiles say; decisions see it in late queries only. "
    "Repeatable.",
)
@click.option(
    "--seed", type=click.IntRange(0, 2**32), default=11, show_default=True, help="Of arrivals, sizes, service times."
)
@click.option("-o", "--output", type=click.Choice(FORMATS), default="table", help="Default: table.")
@plot_option
def autoscale(  # noqa: PLR0917
    files: tuple[str, ...],
    trace: str,
    service: str | None,
    changes: Changes,
    factors: Mapping[str, float],
    seed: int,
    output: str,
    plot: str | None,
    **options: Any,
) -> None:
    """Follow a load trace in virtual time, for every MinCost InferenceService in FILE..., as the operator would.

    The same core decides at each sample of the rates over spec.metrics.window (absent: 1m, a sample each 15 s), under
    the rules of spec.scaling (absent: their defaults) and spec.pause. What spec.mode Advise would advise is carried
    out, by the steps of an operator: old instances go as soon as what serves carries the plan, or first where budget or
    maxInstances leave no room for both. Instances serve after their type's launch time, and are paid from their launch
    until they go, which takes no time. Queries arrive as a Poisson process of the trace's rates, and each goes through
    the dispatch policy to an instance that serves then. Clients give up queries that wait for 15 s, which are late. How
    many are late is measured too: where profiles are wrong (--latency-factor), it asks for more instances. Types that
    share GPUs serve with every time multiplied by the greatest slow-down (--max-slowdown). There is no cluster: only
    maxInstances of the types and of spec.scaling, and the budget, bound the instances.

    A rate of the trace lasts until the next. Cells that are empty, nan, inf or negative are bad samples: nothing is
    measured there, and queries arrive as before. With --mix-change the mix of the last 10 minutes is measured too, and
    counts as in an operator; else all queries are of the declared mix.

    \b
    Keys of -o json and yaml: service, namespace, model, sloSeconds, percentile, seed, seconds (of the trace), queries,
      lateShare (share of queries later than the SLO, or never served), holds, dollars (of the whole trace),
      instanceHours {type: hours}, changes (of the plan, without the first), questions (that planners worked out),
      decisions [time (seconds of the trace), action, reason, from, to, load, hourlyCost, message; also holds, for
      other reasons than that the load is carried].
    \b
    Exit code: 0 the SLO's percentile holds over the trace, 3 it does not, 2 bad input.

    \b
    Examples:
      hetserve autoscale manifests/samples/hetsev.yaml --service resnet50 --load day.csv
      hetserve autoscale manifests/samples/hetsev.yaml --load day.csv --plot day.svg -o json
    """
    load, overrides, manifests = _read_trace(trace), Overrides(**options), read(files)
    _check_types(factors, manifests)
    chosen = choose(manifests, service, files)
    following = [one for one in chosen if one.spec.objective == "MinCost"] or chosen
    found = each(following, lambda one: _follow(one, manifests, overrides, _Played(load, changes, seed, factors)))
    results = answered(found)
    if plot is not None and results:
        draw_or_refuse(lambda: _draw(results, plot), plot)
    from hetserve.cli.capacity.autoscale.result import document, table  # noqa: PLC0415

    click.echo(answers(found, output, document, table), nl=False)
    finish(found, holds=all(result.holds for result in results))


def _read_trace(path: str) -> LoadTrace:
    """Exits with all errors of the file."""
    from hetserve.demand.trace import read_trace  # noqa: PLC0415

    try:
        return read_trace(Path(path), bad_samples="allowed")
    except CsvError as error:
        refuse(*error.errors)
    except UnreadableError as error:
        refuse(f"--load {error}")


def _follow(service: InferenceService, manifests: Manifests, overrides: Overrides, played: _Played) -> Followed:
    from hetserve.api.conditions import Reason  # noqa: PLC0415
    from hetserve.api.service.scaling import ScalingSpec  # noqa: PLC0415
    from hetserve.cli.capacity.autoscale.result import Followed  # noqa: PLC0415
    from hetserve.cli.output.progress import steps  # noqa: PLC0415
    from hetserve.scaling.facts import Pause  # noqa: PLC0415
    from hetserve.scaling.plans.answers import Answers  # noqa: PLC0415
    from hetserve.scaling.replay.arrivals import arrivals_of, drawn_sizes  # noqa: PLC0415
    from hetserve.scaling.replay.following import Playing, Setting, follow  # noqa: PLC0415
    from hetserve.scaling.rules import scaling_rules  # noqa: PLC0415

    spec = service.spec
    if spec.objective != "MinCost":
        raise NotPlannedError(
            Reason.SPEC_INVALID,
            f"objective {spec.objective}: it uses its budget whatever the load; a load is followed under MinCost",
        )
    built = planned(problem_of(service, manifests, replace(overrides, load=_ANY_LOAD)))
    _note_idle(played.factors, built)
    try:
        arrived = arrivals_of(played.load, played.seed)
    except ValueError as error:
        refuse(f"--load: {error}")
    scaling = spec.scaling or ScalingSpec()
    arrived = _as_measured(arrived, service, scaling)
    if played.changes:
        mixes = [(arrived.begin, built.mix), *played.changes]
        arrived = replace(arrived, sizes=drawn_sizes(arrived.times, mixes, played.seed + 1))
    expected = None if spec.load is None or spec.load.expected_qps is None else QPS(spec.load.expected_qps)
    setting = Setting(replace(built, load=None), scaling_rules(scaling), expected, Pause(spec.pause))
    name = service.metadata.name
    with steps(name, int(arrived.end - arrived.begin)) as shown:
        answerer = Answers(worked_out=lambda work: shown.busy(f"planned for {work.problem.load or 0:.1f} q/s"))
        playing = Playing(played.seed + 1, played.factors)
        course = follow(setting, arrived, answerer, shown.reached, playing)
    assert course.served is not None  # noqa: S101  they were played
    return Followed(service, setting, course, course.served, played.seed, answerer.questions)


def _check_types(factors: Mapping[str, float], manifests: Manifests) -> None:
    """Exits if a factor is of a type that no file declares."""
    from hetserve.profiles.latency_factors import EVERY_TYPE  # noqa: PLC0415

    types = sorted(one.metadata.name for one in manifests.types)
    unknown = sorted(factors.keys() - {EVERY_TYPE, *types})
    if unknown:
        refuse(f"--latency-factor: no instance type {unknown[0]}; there are: {', '.join(types)}")


def _note_idle(factors: Mapping[str, float], problem: Problem) -> None:
    """Says which factors are of types on which the service cannot run."""
    from hetserve.profiles.latency_factors import EVERY_TYPE  # noqa: PLC0415

    for name in sorted(factors.keys() - {EVERY_TYPE, *(option.name for option in problem.types)}):
        note(f"{problem.service}: --latency-factor of {name} has no effect: no instance of that type may serve it")


def _as_measured(arrived: Arrived, service: InferenceService, scaling: ScalingSpec) -> Arrived:
    """Arrivals whose rates are taken over the windows of the service, as its operator takes them."""
    from hetserve.api.service.demand_source import MetricsSpec  # noqa: PLC0415
    from hetserve.demand.queries import wanted_by  # noqa: PLC0415

    source = service.spec.metrics or MetricsSpec(source="Hetserve")
    asked = wanted_by(service, service.metadata.namespace or "default", source, scaling)
    return replace(arrived, window=asked.window, step=asked.step, stale_after=asked.stale_after, kept=asked.span)


def _draw(results: list[Followed], path: str) -> None:
    from hetserve.cli.capacity.autoscale.plot import draw  # noqa: PLC0415

    draw(results, path)
