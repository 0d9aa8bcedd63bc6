"""`hetserve autoscale`: how a service would follow a load, in virtual time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from hetserve.cli import values
from hetserve.cli.capacity.effort import (
    batches,
    batches_option,
    budget_option,
    files_argument,
    max_slowdown_option,
    output_option,
    percentile_option,
    service_option,
    slo_option,
)
from hetserve.cli.output.plots import plot_option

if TYPE_CHECKING:
    from hetserve.demand import BatchMix

Changes = tuple[tuple[float, "BatchMix"], ...]


def _factors(texts: tuple[str, ...]) -> Mapping[str, float]:
    from hetserve.profiles.latency_factors import latency_factors  # noqa: PLC0415

    return latency_factors(texts)


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


@click.command()
@files_argument
@click.option(
    "--load", "trace", metavar="TRACE.csv", required=True, help="Load over time: columns time_s (rising) and qps."
)
@service_option
@budget_option
@slo_option
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
    callback=values.parsed(_factors),
    help="How many times as long queries really take as profiles say; decisions see it in late queries only. "
    "Repeatable.",
)
@click.option(
    "--seed", type=click.IntRange(0, 2**32), default=11, show_default=True, help="Of arrivals, sizes, service times."
)
@output_option
@plot_option
def autoscale(**options: Any) -> None:
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
    from hetserve.cli.capacity.autoscale.result import run  # noqa: PLC0415

    run(**options)
