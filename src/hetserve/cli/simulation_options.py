"""Options that all commands which simulate have in common, checked where they enter."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import click

from hetserve.cli import values
from hetserve.cli.problems import FORMATS, Overrides, refuse

if TYPE_CHECKING:
    from hetserve.demand import BatchMix
    from hetserve.simulation.recording import Recording

POLICIES = ("hetserve", "kairos", "fcfs", "threshold", "clockwork_earliest", "clockwork_least_wait")
"""Spelled out, since importing them would cost `hetserve --help` the time; a test compares them."""

ARRIVALS = ("exponential", "integer-poisson")
"""Those that are drawn; spelled out for the same reason."""

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


@dataclass(frozen=True, slots=True)
class Effort:
    """How much is simulated: queries per run, seeds, and threads to do it with. asked: queries, where they were
    raised for overload to show. arrivals: one of ARRIVALS or a recording, which says how many queries there are.
    warm_up: first queries of a run that are served but do not count."""

    queries: int
    seeds: tuple[int, ...]
    jobs: int
    asked: int | None = None
    arrivals: str | Recording = ARRIVALS[0]
    warm_up: int = 0

    @property
    def recording(self) -> Recording | None:
        return None if isinstance(self.arrivals, str) else self.arrivals

    @property
    def arrivals_name(self) -> str:
        return self.arrivals if isinstance(self.arrivals, str) else "recorded"

    @property
    def text(self) -> str:
        raised = "" if self.asked is None else f" ({self.asked} asked: overload takes longer to show)"
        arrivals = "" if self.arrivals == ARRIVALS[0] else f", {self.arrivals_name} arrivals"
        warm_up = f", the first {self.warm_up} of them not counted" if self.warm_up else ""
        seeds = f"seed{'s'[: len(self.seeds) > 1]} {', '.join(map(str, self.seeds))}"
        return f"{self.queries} queries per run{raised}{warm_up}{arrivals}, {seeds}"


def counts(ctx: click.Context, param: click.Parameter, value: str | None) -> dict[str, int] | None:
    """`g4dn.xlarge=1,r5n.large=13` as a mapping that holds an instance."""
    found = numbers(ctx, param, value)
    if found is not None and not any(found.values()):
        raise click.BadParameter(f"{value!r} holds no instance", ctx, param)
    return found


def numbers(ctx: click.Context, param: click.Parameter, value: str | None) -> dict[str, int] | None:
    """The same, all of them 0 if one likes."""
    if value is None:
        return None
    found: dict[str, int] = {}
    for part in value.split(","):
        name, _, number = part.strip().partition("=")
        if not name or not number.isascii() or not number.isdigit() or len(number) > 6:
            raise click.BadParameter(
                f"{part.strip()!r} is not TYPE=NUMBER; write for example g4dn.xlarge=1,r5n.large=13", ctx, param
            )
        if name in found:
            raise click.BadParameter(f"{name} is there twice", ctx, param)
        found[name] = int(number)
    return found


def batches(ctx: click.Context, param: click.Parameter, value: str | None) -> BatchMix | None:
    """A mix of batch sizes by name or from a file."""
    if value is None:
        return None
    from hetserve.simulation.batches import parse_batches  # noqa: PLC0415

    try:
        return parse_batches(value)
    except UnicodeDecodeError:
        raise click.BadParameter(f"{value}: cannot be read: it is not UTF-8 text", ctx, param) from None
    except (ValueError, OSError) as error:
        text = str(error) if value in str(error) else f"{value}: {error}"
        raise click.BadParameter(text, ctx, param) from None


def arrivals(ctx: click.Context, param: click.Parameter, value: str) -> str | Recording:
    """How queries arrive, by name or as recorded in a file."""
    if value in ARRIVALS:
        return value
    from pathlib import Path  # noqa: PLC0415

    from hetserve.simulation.recording import read_recording  # noqa: PLC0415

    path = Path(value)
    if not path.is_file():
        raise click.BadParameter(f"{value!r} is neither {' nor '.join(ARRIVALS)} nor a file", ctx, param)
    try:
        return read_recording(path)
    except UnicodeDecodeError:
        raise click.BadParameter(f"{value}: cannot be read: it is not UTF-8 text", ctx, param) from None
    except (ValueError, OSError) as error:
        raise click.BadParameter(str(error), ctx, param) from None


def names_of(known: tuple[str, ...]) -> values.Callback:
    """Callback for a comma-separated list of known names, each once."""

    def convert(ctx: click.Context, param: click.Parameter, value: str | None) -> tuple[str, ...] | None:
        if value is None:
            return None
        asked = tuple(dict.fromkeys(part.strip() for part in value.split(",")))
        for name in asked:
            if name not in known:
                raise click.BadParameter(f"{name!r} is none of {', '.join(known)}", ctx, param)
        return asked

    return convert


def _picture(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    from hetserve.cli.profile_values import picture  # noqa: PLC0415

    return picture(ctx, param, value)


plot_option = click.option("--plot", metavar="FILE", callback=_picture, help="Draw the answer: .png or .svg.")
rate = values.number(lambda n: n > 0, "a number above 0 (queries/s), for example 120")
percentile = values.number(lambda n: 50 < n < 100, "above 50 and below 100, for example 99")
percentile_option = click.option(
    "--percentile", metavar="P", callback=percentile, help="Instead of the file's, e.g. 99."
)
batches_option = click.option(
    "--batches",
    "mix",
    metavar="MIX",
    callback=batches,
    help="Instead of the file's: mixture, normal:165,16, lognormal:5.1,0.2 or a CSV file with a column batch and, "
    "optionally, weight.",
)


def manifests_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """What the files say, and what is said instead."""
    for option in reversed(
        (
            click.argument("files", nargs=-1, required=True, metavar="FILE..."),
            click.option("--service", metavar="NAME", help="Only this service (NAME or NAMESPACE/NAME)."),
            click.option("--budget", metavar="$/H", callback=values.money, help="Instead of the file's."),
            click.option("--slo", metavar="DURATION", callback=values.duration, help="Instead of the file's."),
            percentile_option,
            batches_option,
            click.option("--base", metavar="TYPE", help="Kairos's base; default: the most q/s per dollar."),
        )
    ):
        command = option(command)
    return command


def effort_options(queries: int, seeds: str) -> Decorator:
    """How much is simulated; `seeds` is the default as the help states it."""

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        for option in reversed(
            (
                click.option(
                    "--queries",
                    type=click.IntRange(100, 100_000_000),
                    default=queries,
                    show_default=True,
                    help="Per run; figures for a report need 100000 or more.",
                ),
                click.option(
                    "--arrivals",
                    metavar="HOW",
                    default=ARRIVALS[0],
                    show_default=True,
                    callback=arrivals,
                    help="exponential (a Poisson process), integer-poisson (gaps of whole milliseconds, as in Kairos's "
                    "artifact) or a CSV file with a line per query: a column time in seconds and, optionally, batch; "
                    "it is stretched to each load, and --queries does not apply.",
                ),
                click.option(
                    "--warm-up",
                    type=click.IntRange(0, 100_000_000),
                    default=0,
                    show_default=True,
                    help="First queries of a run that are served but do not count.",
                ),
                click.option("--seed", type=click.IntRange(0, 2**32), default=11, show_default=True, help="The first."),
                click.option(
                    "--seeds",
                    "runs",
                    type=click.IntRange(1, 30),
                    help=f"How many, SEED and following; default: {seeds}.",
                ),
                click.option(
                    "--jobs",
                    type=click.IntRange(1, 256),
                    default=lambda: min(os.cpu_count() or 1, 4),
                    help="Threads; the answer does not depend on it. Default: the cores, at most 4.",
                ),
                click.option("-o", "--output", type=click.Choice(FORMATS), default="table", help="Default: table."),
                plot_option,
            )
        ):
            command = option(command)
        return command

    return decorate


def take(options: dict[str, Any], default_seeds: int) -> tuple[Overrides, Effort]:
    """Overrides and effort out of a command's options, which they are removed from."""
    overrides = Overrides(
        **{name: options.pop(name) for name in ("budget", "slo", "percentile", "mix", "base") if name in options}
    )
    first, count = options.pop("seed"), options.pop("runs") or default_seeds
    effort = Effort(
        options.pop("queries"),
        tuple(range(first, first + count)),
        options.pop("jobs"),
        arrivals=options.pop("arrivals"),
        warm_up=options.pop("warm_up"),
    )
    if effort.recording is not None:
        overrides, effort = _as_recorded(effort.recording, overrides, effort)
    if effort.warm_up >= effort.queries:
        refuse(f"--warm-up {effort.warm_up}: must be less than the {effort.queries} queries of a run")
    return overrides, effort


def _as_recorded(recording: Recording, overrides: Overrides, effort: Effort) -> tuple[Overrides, Effort]:
    """The batches that were recorded are the mix: two would contradict each other."""
    if recording.mix is not None:
        if overrides.mix is not None:
            refuse("--batches and the column batch of --arrivals contradict each other; give one of them")
        overrides = replace(overrides, mix=recording.mix)
    return overrides, replace(effort, queries=len(recording))
