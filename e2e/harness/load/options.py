"""What `make demo-load` is asked for: the trace, how fast it is played, and where the picture goes."""

from __future__ import annotations

import argparse
import math
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from harness.components import ROOT
from hetserve.base.csv_rows import CsvError
from hetserve.base.files import UnreadableError
from hetserve.demand.trace import LoadTrace, read_trace

TRACE: Final = ROOT / "manifests" / "load" / "two-peaks.csv"
SECONDS: Final = 300.0
SHORTEST, LONGEST = 10.0, 86_400.0
"""Seconds of a play."""
MOST_QPS: Final = 5000.0
"""What the load twin plays in real time on one core."""
DAY: Final = 86_400
DRAWN: Final = (".svg", ".png")
DESCRIPTION: Final = (
    "Plays a load trace on the demo's control plane, which is started where none runs: real Prometheus, the operator, "
    "the extender and the load twin, on simulated nodes. The service rm2-day of manifests/load/ follows the load. "
    "Watch it live; at the end (or after Ctrl-C) there are a table, a picture and its figures as JSON. "
    "Exit code: 0 the play is over, 130 it was interrupted, 1 it failed, 2 bad input."
)


@dataclass(frozen=True, slots=True)
class Wanted:
    """A play. speed: seconds of the trace in a second. out: the picture; its figures lie beside it, as JSON."""

    trace: LoadTrace
    trace_file: Path
    speed: float
    out: Path

    @property
    def seconds(self) -> float:
        """Of the play."""
        return self.trace.span / self.speed

    @property
    def figures(self) -> Path:
        return self.out.with_suffix(".json")

    @property
    def peak(self) -> float:
        """Queries/s."""
        return max(rate or 0.0 for rate in self.trace.rates)

    def time(self, at: float) -> float:
        """Time of the trace [s] at a second of the play."""
        return self.trace.start + at * self.speed

    def hour(self, at: float) -> float:
        """Hours since the first midnight of the trace, at a second of the play."""
        return (self.time(at) - self.trace.start // DAY * DAY) / 3600

    def clock(self, at: float) -> str:
        """Time of day at a second of the play, as 09:36; of the second day and later with the day before it."""
        days, rest = divmod(int(self.time(at) - self.trace.start // DAY * DAY), DAY)
        text = f"{rest // 3600:02d}:{rest % 3600 // 60:02d}"
        return f"day {days + 1} {text}" if days else text


def add_options(parser: argparse.ArgumentParser) -> None:
    pace = parser.add_mutually_exclusive_group()
    pace.add_argument("--seconds", type=_number, metavar="S", help=f"of the whole play (default: {SECONDS:g})")
    pace.add_argument("--speed", type=_number, metavar="X", help="seconds of the trace in a second")
    parser.add_argument(
        "--load",
        type=Path,
        default=TRACE,
        metavar="TRACE.csv",
        help="columns time_s (rising) and qps (default: manifests/load/two-peaks.csv, a day with two peaks)",
    )
    parser.add_argument(
        "--out",
        type=_drawing,
        default=Path("demo-load.svg"),
        metavar="FILE",
        help="the picture, .svg or .png; its figures go to FILE with the ending .json (default: demo-load.svg)",
    )


def wanted(given: argparse.Namespace) -> Wanted:
    """What the parsed options ask for. Raises ValueError: which is wrong, its value, and what would be right."""
    trace = _trace(given.load)
    speed = given.speed or trace.span / (given.seconds or SECONDS)
    found = Wanted(trace, given.load, speed, given.out)
    if not SHORTEST <= found.seconds <= LONGEST:
        how = f"--speed {given.speed:g}" if given.speed else f"--seconds {given.seconds:g}"
        raise ValueError(
            f"{how}: the play would take {found.seconds:.4g} s; choose one of {SHORTEST:g} to {LONGEST:g} s"
            f" (--speed {trace.span / LONGEST:.4g} to {trace.span / SHORTEST:.4g})"
        )
    return found


def _trace(path: Path) -> LoadTrace:
    try:
        trace = read_trace(path, bad_samples="refused")
    except CsvError as error:
        raise ValueError("--load: " + "\n".join(error.errors)) from None
    except UnreadableError as error:
        raise ValueError(f"--load {error}") from None
    if trace.span <= 0:
        raise ValueError(f"--load {path}: one line is no course of a load; give two times at least")
    peak = max(rate or 0.0 for rate in trace.rates)
    if peak > MOST_QPS:
        raise ValueError(f"--load {path}: qps {peak:g}: the twin keeps up with {MOST_QPS:g} queries/s; scale it down")
    return trace


def _number(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not 0 < number < math.inf:
        raise argparse.ArgumentTypeError(f"{text}: must be a number above 0")
    return number


def _drawing(text: str) -> Path:
    path = Path(text)
    if path.suffix.lower() not in DRAWN:
        raise argparse.ArgumentTypeError(f"{text}: must end in {' or '.join(DRAWN)}")
    if not path.parent.is_dir():
        raise argparse.ArgumentTypeError(f"{text}: there is no folder {path.parent}; make it first")
    if not _can_write(path, path.with_suffix(".json")):
        raise argparse.ArgumentTypeError(f"{text}: it or its .json cannot be written")
    return path


def _can_write(*paths: Path) -> bool:
    return all(os.access(path if path.exists() else path.parent, os.W_OK) and not path.is_dir() for path in paths)
