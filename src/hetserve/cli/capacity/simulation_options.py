"""Options of simulating commands."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import click

from hetserve.cli import values
from hetserve.cli.output.documents import FORMATS
from hetserve.registry.dispatch_policies import DISPATCH_POLICIES, default_dispatch_policy

if TYPE_CHECKING:
    from hetserve.demand import BatchMix

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


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
    default=default_dispatch_policy(),
    show_default=True,
    help="Dispatch policy.",
)
rate = values.number(lambda n: n > 0, "a number above 0 (queries/s), for example 120")
percentile = values.number(lambda n: 50 < n < 100, "above 50 and below 100, for example 99")
files_argument = click.argument("files", nargs=-1, required=True, metavar="FILE...")
service_option = click.option("--service", metavar="NAME", help="Only this service (NAME or NAMESPACE/NAME).")
budget_option = click.option(
    "--budget", metavar="$/H", callback=values.money, help="Overrides the file's; for example 2.5."
)
slo_option = click.option(
    "--slo", metavar="DURATION", callback=values.duration, help="Overrides the file's; for example 350ms."
)
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


base_option = click.option("--base", metavar="TYPE", help="Kairos's base; default: the most q/s per dollar.")
output_option = click.option("-o", "--output", type=click.Choice(FORMATS), default="table", help="Default: table.")


def manifests_options(command: Callable[..., Any]) -> Callable[..., Any]:
    return upon(
        command,
        (
            files_argument,
            service_option,
            budget_option,
            slo_option,
            percentile_option,
            batches_option,
            base_option,
            max_slowdown_option,
        ),
    )


def upon(command: Callable[..., Any], options: Sequence[Decorator]) -> Callable[..., Any]:
    """Decorates a command with options, in this order."""
    for option in reversed(options):
        command = option(command)
    return command
