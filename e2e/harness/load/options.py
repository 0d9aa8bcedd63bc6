"""What `make demo-load` is asked for: the trace, how fast it is played, and where the picture goes."""

from __future__ import annotations

import argparse
import math
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NoReturn

from harness.components import ROOT
from hetserve.base.files import InputError
from hetserve.demand.trace import LoadTrace, read_trace

SHORTEST, LONGEST = 10.0, 86_400.0
"""Seconds of a play."""
MOST_QPS: Final = 5000.0
"""What the load twin plays in real time on one core."""
DAY: Final = 86_400
DESCRIPTION: Final = (
    "Plays a load trace on the demo's control plane, with real Prometheus and simulated nodes, and the service rm2-day "
    "of manifests/load/ follows it. Exit code: 0 the play is over, 130 it was interrupted, 1 it failed, 2 bad input."
)


@dataclass(frozen=True, slots=True)
class Wanted:
    """A play. peak: queries/s. speed: seconds of the trace in a second. out: the picture; its JSON lies beside it."""

    trace: LoadTrace
    trace_file: Path
    peak: float
    speed: float
    out: Path

    @property
    def seconds(self) -> float:
        """Of the play."""
        return self.trace.span / self.speed

    def hour(self, at: float) -> float:
        """Hours since the first midnight of the trace, at a second of the play."""
        return (self.trace.start % DAY + at * self.speed) / 3600

    def clock(self, at: float) -> str:
        """Time of day at a second of the play, as 09:36; of the second day and later with the day before it."""
        days, minutes = divmod(int(self.hour(at) * 60 + 1e-6), DAY // 60)
        text = f"{minutes // 60:02d}:{minutes % 60:02d}"
        return f"day {days + 1} {text}" if days else text


def add_options(parser: argparse.ArgumentParser) -> None:
    pace = parser.add_mutually_exclusive_group()
    pace.add_argument("--seconds", type=float, default=300.0, metavar="S", help="of the whole play (default: 300)")
    pace.add_argument("--speed", type=float, metavar="X", help="seconds of the trace in a second")
    parser.add_argument(
        "--load",
        type=Path,
        default=ROOT / "manifests" / "load" / "two-peaks.csv",
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


def wanted(given: argparse.Namespace, refuse: Callable[[str], NoReturn]) -> Wanted:
    """What the parsed options ask for. refuse: called with what is wrong, its value, and what would be right."""
    try:
        trace = read_trace(given.load, bad_samples="refused")
    except InputError as error:
        refuse(f"--load: {error}")
    if trace.span <= 0:
        refuse(f"--load {given.load}: one line is no course of a load; give two times at least")
    peak = max(rate or 0.0 for rate in trace.rates)
    if peak > MOST_QPS:
        refuse(f"--load {given.load}: qps {peak:g}: the twin keeps up with {MOST_QPS:g} queries/s; scale it down")
    seconds = given.seconds if given.speed is None else trace.span / (given.speed or math.nan)
    if not SHORTEST <= seconds <= LONGEST:
        speeds = f"--speed {trace.span / LONGEST:.4g} to {trace.span / SHORTEST:.4g}"
        refuse(f"the play would take {seconds:.4g} s; choose one of {SHORTEST:g} to {LONGEST:g} s ({speeds})")
    return Wanted(trace, given.load, peak, trace.span / seconds, given.out)


def _drawing(text: str) -> Path:
    path = Path(text)
    if path.suffix.lower() not in (".svg", ".png"):
        raise argparse.ArgumentTypeError(f"{text}: must end in .svg or .png")
    if not os.access(path.parent, os.W_OK):
        raise argparse.ArgumentTypeError(f"{text}: the folder {path.parent} is not there, or cannot be written")
    return path
