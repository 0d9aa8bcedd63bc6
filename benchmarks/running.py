"""Runs the parts of a benchmark by name: each is measured, kept and shown."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol, cast

from benchmarks.reporting import Json, Kept, ReportPart


class Part(ReportPart, Protocol):
    """A module that measures one thing and describes it."""

    def measure(self, scale: Any, /) -> Json:
        """Plain data for text and plots. scale: how much is measured; whether it is quick, where that is all."""
        ...


def part(kept: Kept, name: str) -> Part:
    """The module of a part."""
    return cast("Part", import_module(f"benchmarks.{kept.package}.{name}"))


def names_parser(description: str | None, names: Sequence[str], what: str = "part") -> argparse.ArgumentParser:
    """A parser of `[NAME...] [--report]`; what: a part's name for users, such as "figure"."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("names", nargs="*", metavar=what.upper(), help=", ".join(names))
    parser.add_argument("--report", action="store_true", help="write the report from kept measurements only")
    return parser


def chosen(
    parser: argparse.ArgumentParser, options: argparse.Namespace, names: Sequence[str], what: str = "part"
) -> Sequence[str]:
    """What is to be measured: the names given, or all; exits with an error if one is unknown."""
    unknown = sorted(set(options.names) - set(names))
    if unknown:
        parser.error(f"unknown {what} {', '.join(unknown)}; there are: {', '.join(names)}")
    return () if options.report else options.names or names


def measure(kept: Kept, name: str, scale: Any, save: Callable[[Json, float], None] | None) -> None:
    """Measures a part, hands data and seconds to `save` (None: only printed), and prints its description."""
    module = part(kept, name)
    print(f"{name}: {module.TITLE} ...", flush=True)
    start = time.perf_counter()
    data = module.measure(scale)
    seconds = time.perf_counter() - start
    if save is not None:
        save(data, seconds)
    print(module.describe(data))
    print(f"{name}: {seconds:.0f} s\n", flush=True)


def run(
    description: str | None,
    kept: Kept,
    names: Sequence[str],
    save: Callable[[str, Json, float], None],
    write: Callable[[], Path],
) -> None:
    """A command whose parts are measured whole, then kept and written to the page, or quickly, then only printed."""
    parser = names_parser(description, names)
    parser.add_argument("--quick", action="store_true", help="less, printed only: to see that it works")
    options = parser.parse_args()
    for name in chosen(parser, options, names):
        measure(kept, name, options.quick, None if options.quick else partial(save, name))
    if not options.quick:
        print(f"wrote {write()}")
