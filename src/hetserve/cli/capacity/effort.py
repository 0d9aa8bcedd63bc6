"""Options of simulating commands: how much is simulated, and how its queries come."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

import click

from hetserve.base.units import number_or_nan
from hetserve.cli import values
from hetserve.cli.capacity.services import Overrides
from hetserve.cli.output.plots import plot_option
from hetserve.cli.output.streams import FORMATS, note, refuse
from hetserve.registry.choices import DRAWN_ARRIVALS, Arrivals
from hetserve.registry.dispatch_policies import DISPATCH_POLICIES, default_dispatch_policy
from hetserve.registry.joining_policies import JOINING_POLICIES

if TYPE_CHECKING:
    from hetserve.api.inference_service import InferenceService
    from hetserve.demand import BatchMix
    from hetserve.planning import Problem
    from hetserve.simulation.arrivals import Traced
    from hetserve.simulation.workload import Recording


def _counts(text: str) -> dict[str, int]:
    found = _numbers(text)
    if not any(found.values()):
        raise ValueError(f"{text!r} holds no instance")
    return found


def _numbers(text: str) -> dict[str, int]:
    found: dict[str, int] = {}
    for part in text.split(","):
        name, _, number = part.strip().partition("=")
        if not name or not number.isascii() or not number.isdigit() or len(number) > 6:
            raise ValueError(f"{part.strip()!r} is not TYPE=NUMBER; write for example g4dn.xlarge=1,r5n.large=13")
        if name in found:
            raise ValueError(f"{name} is there twice")
        found[name] = int(number)
    return found


def _batches(text: str) -> BatchMix:
    from hetserve.demand import parse_batches  # noqa: PLC0415

    return parse_batches(text)


def names_of(known: tuple[str, ...]) -> values.Callback:
    """Option callback: comma-separated distinct known names."""

    def names(text: str) -> tuple[str, ...]:
        asked = tuple(dict.fromkeys(part.strip() for part in text.split(",")))
        for name in asked:
            if name not in known:
                raise ValueError(f"{name!r} is none of {', '.join(known)}")
        return asked

    return values.parsed(names)


counts, numbers = values.parsed(_counts), values.parsed(_numbers)
"""Option callbacks: `g4dn.xlarge=1,r5n.large=13`; of numbers all may be 0."""
batches = values.parsed(_batches)
policy_option = click.option(
    "--policy",
    type=click.Choice(DISPATCH_POLICIES.names),
    help=f"Dispatch policy; overrides spec.dispatch.policy. Default without either: {default_dispatch_policy()}.",
)


simulated_policy_option = click.option(
    "--policy",
    type=click.Choice((*DISPATCH_POLICIES.names, *JOINING_POLICIES.names)),
    help=f"Dispatch policy; overrides spec.dispatch.policy. Default without either: {default_dispatch_policy()}. "
    f"{', '.join(JOINING_POLICIES.names)}: join queries of a model with variants.",
)
noise_option = click.option(
    "--noise",
    metavar="SHARE",
    callback=values.number(lambda n: 0 <= n <= 10, "a share from 0 to 10, for example 0.02"),
    help="Standard deviation / mean of all service times; default: as profiled.",
)
deadline_option = click.option(
    "--deadline",
    metavar="DURATION",
    callback=values.duration,
    help="Time from which on an answer is worth nothing (hard deadline); default: spec.dispatch.deadline, else the "
    "SLO.",
)

joining_options = values.options(
    click.option(
        "--variant",
        metavar="NAME",
        multiple=True,
        callback=values.parsed(lambda names: tuple(dict.fromkeys(names)) or None),
        help="Only this variant may serve; repeatable. Default: all of the service.",
    ),
    deadline_option,
    click.option(
        "--drop/--no-drop",
        default=None,
        help="Whether queries that no variant can answer by then are dropped; default: as the policy does.",
    ),
    noise_option,
    click.option(
        "--margin",
        metavar="SHARE",
        callback=values.number(lambda n: 0 <= n <= 10, "a share from 0 to 10, for example 0.05"),
        help="Share by which the policy takes service times for longer than profiled; default: 0.",
    ),
    click.option(
        "--weights",
        metavar="FILE",
        help="Weights that hetserve train wrote; default: those of the package. Another fleet's leave it to fang.",
    ),
)


def _rates(text: str) -> tuple[float, float]:
    low, _, high = text.partition(",")
    found = number_or_nan(low), number_or_nan(high)
    if not 0 < found[0] <= found[1] < math.inf:
        raise ValueError(f"{text!r} is not LOW,HIGH: two loads above 0, the lower first, for example 185,250")
    return found


rates = values.parsed(_rates)
"""Option callback: `185,250`, queries/s."""


def policy_of(service: InferenceService, problem: Problem, given: str | None) -> str:
    """The dispatch policy that was given (--policy), else the problem's; notes where it overrides the service's own."""
    own = service.spec.dispatch
    if given is not None and own is not None and given != own.policy:
        note(f"{service.metadata.name}: --policy {given} counts, not spec.dispatch.policy {own.policy}")
    return given or problem.policy


rate = values.number(lambda n: n > 0, "a number above 0 (queries/s), for example 120")
files_argument = click.argument("files", nargs=-1, required=True, metavar="FILE...")
service_options = values.options(
    click.option("--service", metavar="NAME", help="Only this service (NAME or NAMESPACE/NAME)."),
    click.option("--budget", metavar="$/H", callback=values.money, help="Overrides the file's; for example 2.5."),
    click.option(
        "--slo", metavar="DURATION", callback=values.duration, help="Overrides the file's; for example 350ms."
    ),
    click.option(
        "--percentile",
        metavar="P",
        callback=values.number(lambda n: 50 < n < 100, "above 50 and below 100, for example 99"),
        help="Overrides the file's; for example 99.",
    ),
    click.option(
        "--batches",
        "mix",
        metavar="MIX",
        callback=batches,
        help="Overrides the file's: mixture, normal:165,16, lognormal:5.1,0.2 or a CSV file with a column batch and, "
        "optionally, weight.",
    ),
    click.option(
        "--max-slowdown",
        metavar="FACTOR",
        callback=values.max_slowdown,
        help="Most that sharing a GPU may multiply a service time by, and what plans count with; default: 1.75, as of "
        "the chart (sharing.maxSlowdown).",
    ),
)
manifests_options = values.options(
    files_argument,
    service_options,
    click.option("--base", metavar="TYPE", help="Kairos's base; default: the most q/s per dollar."),
)
output_options = values.options(
    click.option("-o", "--output", type=click.Choice(FORMATS), default="table", help="Default: table."), plot_option
)


@dataclass(frozen=True, slots=True)
class SimulationEffort:
    """How much to simulate.

    queries: per run. jobs: threads. asked: queries as given, if they were raised. arrivals: a recording's length
    overrides `queries`. warm_up: first queries, served but not counted.
    """

    queries: int
    seeds: tuple[int, ...]
    jobs: int
    asked: int | None = None
    arrivals: Arrivals | Recording | Traced = DRAWN_ARRIVALS[0]
    warm_up: int = 0

    @property
    def kind(self) -> Arrivals:
        return self.arrivals if isinstance(self.arrivals, Arrivals) else self.arrivals.kind

    @property
    def own_rate(self) -> float | None:
        """Queries/s of arrivals that have a rate of their own."""
        return None if isinstance(self.arrivals, Arrivals) else self.arrivals.rate(self.queries)

    @property
    def arrivals_name(self) -> str:
        return str(self.kind if self.kind is Arrivals.RECORDED else self.arrivals)

    @property
    def text(self) -> str:
        raised = "" if self.asked is None else f" ({self.asked} asked: overload takes longer to show)"
        arrivals = "" if self.arrivals == DRAWN_ARRIVALS[0] else f", {self.arrivals_name} arrivals"
        warm_up = f", the first {self.warm_up} of them not counted" if self.warm_up else ""
        seeds = f"seed{'s'[: len(self.seeds) > 1]} {', '.join(map(str, self.seeds))}"
        return f"{self.queries} queries per run{raised}{warm_up}{arrivals}, {seeds}"


def _arrivals(text: str) -> Arrivals | Recording | Traced:
    """A name of DRAWN_ARRIVALS, numbers of bursts or a ramp, or the recording in a file."""
    if text in DRAWN_ARRIVALS:
        return Arrivals(text)
    from hetserve.simulation.arrivals import FORMS, parse_arrivals  # noqa: PLC0415
    from hetserve.simulation.workload import read_recording  # noqa: PLC0415

    traced = parse_arrivals(text)
    if traced is not None:
        return traced
    path = Path(text)
    if not path.exists() or path.is_dir():
        raise ValueError(f"{text!r} is neither {' nor '.join((*DRAWN_ARRIVALS, *FORMS))} nor a file")
    return read_recording(path)


_OVERRIDES: Final = ("budget", "slo", "percentile", "mix", "base", "max_slowdown")


def effort_options(queries: int, seeds: str) -> values.Decorator:
    """`seeds`: the default number of seeds, in words."""
    return values.options(
        click.option(
            "--queries",
            type=click.IntRange(100, 100_000_000),
            default=queries,
            show_default=True,
            help="Queries per run; use 100000 or more for figures in a report.",
        ),
        click.option(
            "--arrivals",
            metavar="HOW",
            default=str(DRAWN_ARRIVALS[0]),
            show_default=True,
            callback=values.parsed(_arrivals),
            help="exponential (a Poisson process), integer-poisson (gaps of whole milliseconds, as in Kairos's "
            "artifact), bursty:BASE,VAR,CV2 (BASE queries/s at equal gaps beside VAR at gamma-distributed ones), "
            "ramp:Q1,Q2,TAU,CV2 (from Q1 to Q2 queries/s by TAU each second) or a CSV file with one line per query: a "
            "column time in seconds and, optionally, batch. The last three are stretched to each load; to a file "
            "--queries does not apply.",
        ),
        click.option(
            "--warm-up",
            type=click.IntRange(0, 100_000_000),
            default=0,
            show_default=True,
            help="Number of first queries of a run that are served but not counted.",
        ),
        click.option("--seed", type=click.IntRange(0, 2**32), default=11, show_default=True, help="First seed."),
        click.option(
            "--seeds",
            "runs",
            type=click.IntRange(1, 30),
            help=f"Number of seeds, counted up from SEED; default: {seeds}.",
        ),
        click.option(
            "--jobs",
            type=click.IntRange(1, 256),
            default=lambda: min(os.cpu_count() or 1, 4),
            help="Threads; they do not change the answer. Default: number of cores, at most 4.",
        ),
        output_options,
    )


def take(options: dict[str, Any], default_seeds: int) -> tuple[Overrides, SimulationEffort]:
    """Removes overrides and effort from a command's options; a recording gives its mix and its number of queries."""
    overrides = Overrides(**{name: options.pop(name) for name in _OVERRIDES if name in options})
    first, count = options.pop("seed"), options.pop("runs") or default_seeds
    effort = SimulationEffort(
        options.pop("queries"),
        tuple(range(first, first + count)),
        options.pop("jobs"),
        arrivals=options.pop("arrivals"),
        warm_up=options.pop("warm_up"),
    )
    if effort.kind is Arrivals.RECORDED:
        recording = cast("Recording", effort.arrivals)
        effort = replace(effort, queries=len(recording))
        if recording.mix is not None:
            if overrides.mix is not None:
                refuse("--batches and the column batch of --arrivals contradict each other; give one of them")
            overrides = replace(overrides, mix=recording.mix)
    if effort.warm_up >= effort.queries:
        refuse(f"--warm-up {effort.warm_up}: must be less than the {effort.queries} queries of a run")
    return overrides, effort
