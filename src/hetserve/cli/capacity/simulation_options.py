"""Options of simulating commands."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import click

from hetserve.base.files import UnreadableError
from hetserve.cli import values
from hetserve.registry.dispatch_policies import DISPATCH_POLICIES, default_dispatch_policy

if TYPE_CHECKING:
    from hetserve.demand import BatchMix

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


def counts(ctx: click.Context, param: click.Parameter, value: str | None) -> dict[str, int] | None:
    """Option callback: `g4dn.xlarge=1,r5n.large=13`, at least one instance."""
    found = numbers(ctx, param, value)
    if found is not None and not any(found.values()):
        raise click.BadParameter(f"{value!r} holds no instance", ctx, param)
    return found


def numbers(ctx: click.Context, param: click.Parameter, value: str | None) -> dict[str, int] | None:
    """As `counts`; all may be 0."""
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
    if value is None:
        return None
    from hetserve.demand import parse_batches  # noqa: PLC0415

    try:
        return parse_batches(value)
    except UnicodeDecodeError:
        raise click.BadParameter(f"{value}: cannot be read: it is not UTF-8 text", ctx, param) from None
    except (ValueError, UnreadableError) as error:
        raise click.BadParameter(str(error), ctx, param) from None


def names_of(known: tuple[str, ...]) -> values.Callback:
    """Option callback: comma-separated distinct known names."""

    def convert(ctx: click.Context, param: click.Parameter, value: str | None) -> tuple[str, ...] | None:
        if value is None:
            return None
        asked = tuple(dict.fromkeys(part.strip() for part in value.split(",")))
        for name in asked:
            if name not in known:
                raise click.BadParameter(f"{name!r} is none of {', '.join(known)}", ctx, param)
        return asked

    return convert


policy_option = click.option(
    "--policy",
    type=click.Choice(DISPATCH_POLICIES.names),
    default=default_dispatch_policy(),
    show_default=True,
    help="Dispatch policy.",
)
rate = values.number(lambda n: n > 0, "a number above 0 (queries/s), for example 120")
percentile = values.number(lambda n: 50 < n < 100, "above 50 and below 100, for example 99")
percentile_option = click.option(
    "--percentile", metavar="P", callback=percentile, help="Overrides the file's; for example 99."
)
batches_option = click.option(
    "--batches",
    "mix",
    metavar="MIX",
    callback=batches,
    help="Overrides the file's: mixture, normal:165,16, lognormal:5.1,0.2 or a CSV file with a column batch and, "
    "optionally, weight.",
)
max_slowdown_option = click.option(
    "--max-slowdown",
    metavar="FACTOR",
    callback=values.max_slowdown,
    help="Most that sharing a GPU may multiply a service time by, and what plans count with; default: 1.25, as of the "
    "chart (sharing.maxSlowdown).",
)


def manifests_options(command: Callable[..., Any]) -> Callable[..., Any]:
    return upon(
        command,
        (
            click.argument("files", nargs=-1, required=True, metavar="FILE..."),
            click.option("--service", metavar="NAME", help="Only this service (NAME or NAMESPACE/NAME)."),
            click.option("--budget", metavar="$/H", callback=values.money, help="Overrides the file's."),
            click.option("--slo", metavar="DURATION", callback=values.duration, help="Overrides the file's."),
            percentile_option,
            batches_option,
            click.option("--base", metavar="TYPE", help="Kairos's base; default: the most q/s per dollar."),
            max_slowdown_option,
        ),
    )


def upon(command: Callable[..., Any], options: Sequence[Decorator]) -> Callable[..., Any]:
    """Decorates a command with options, in this order."""
    for option in reversed(options):
        command = option(command)
    return command
