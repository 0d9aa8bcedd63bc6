"""The paper's setting: six subnets of one supernet, instances, traces, and a policy's figures on them.

The paper's times on an RTX 2080Ti are not public as text. These are SYNTHETIC: lines fitted to times measured on an A40
and stretched, so that what the paper says of its real trace is met. The Azure Functions trace is not public either:
recorded arrivals of LLM requests, scaled to the rate, stand in for it.
"""

from __future__ import annotations

import csv
import os
from collections import defaultdict
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
from benchmarks.reporting import RESULTS
from numpy.typing import NDArray

from hetserve.base.units import Seconds
from hetserve.dispatch.joining import JoiningPolicy, Variant, make_joining_policy
from hetserve.profiles import LatencyProfile, Spread, TableProfile
from hetserve.serving.services import GpuInstance, Service
from hetserve.serving.session import Outcomes, Session
from hetserve.serving.variants import VariantSystem
from hetserve.simulation.arrivals import Bursty

Times = NDArray[np.float64]
WORKERS: Final = 8
SLO: Final = 0.036
BASE: Final = 1500.0
"""Even part of the bursty traces [queries/s]; the paper does not state it."""
SUBNETS: Final = (73.82, 76.69, 77.64, 78.25, 79.44, 80.16)
NAME, TYPE = "superserve", "gpu"
SECONDS: Final = 30.0


class Figures(NamedTuple):
    """attainment: share of the queries in time. accuracy: mean percent of those. joined: mean items of a batch."""

    attainment: float
    accuracy: float
    joined: float

    @property
    def worth(self) -> float:
        """Percent that a query gets, late ones nothing."""
        return self.attainment * self.accuracy if self.attainment else 0.0

    def __str__(self) -> str:
        return f"{self.attainment:.4f} / {self.accuracy:.2f}"


def data() -> Path:
    """Folder `superserve` below HETSERVE_DATA, else beside the repository."""
    folder = Path(os.environ.get("HETSERVE_DATA") or RESULTS.parents[2] / "shared" / "data") / "superserve"
    if not folder.is_dir():
        raise SystemExit(f"{folder} is absent: set HETSERVE_DATA to the folder that holds superserve/")
    return folder


@cache
def system(slo: float = SLO, noise: float = 0.0, switch: float = 0.0) -> VariantSystem:
    """slo, switch: seconds. noise: coefficient of variation of the service times."""
    spread, rows = Spread.of_variation(noise) if noise else None, defaultdict(list)
    with (data() / "profile_synthetic_2080ti.csv").open(encoding="utf-8") as lines:
        for line in csv.DictReader(lines):
            rows[line["accuracy_top1"]].append((int(line["batch"]), Seconds(float(line["latency_ms"]) / 1000)))
    profiles: dict[str, LatencyProfile] = {
        name: TableProfile(tuple(batch for batch, _ in row), tuple(mean for _, mean in row), (spread,) * len(row))
        for name, row in rows.items()
    }
    variants = [Variant(name, float(name)) for name in rows]
    return VariantSystem.of_variants({TYPE: profiles}, variants, slo, switches={TYPE: switch})


def policy(name: str) -> JoiningPolicy:
    """Of a registered name, or the subnet of so many percent alone."""
    return make_joining_policy("clipper", variant=name) if name[0].isdigit() else make_joining_policy(name)


def bursty(rate: float, cv2: float, seconds: float = SECONDS, base: float = BASE, seed: int = 1) -> Times:
    """An even stream of `base` queries/s and a bursty one, `rate` together."""
    trace = Bursty(base, rate - base, cv2)
    return trace.times(round(rate * seconds), np.random.default_rng(seed))


def recorded(what: str, rate: float, seconds: float, peak: float | None = None) -> Times:
    """Recorded arrivals, each standing for as many as bring the rate [queries/s], their shape kept over this time.

    what: `conv` or `code`. peak: rate that no bin of 1/580 of the recording (6 s of `conv`) goes beyond.
    """
    with (data() / f"azure_llm2023_{what}_arrivals.csv").open(encoding="utf-8") as lines:
        found = np.array([float(line) for line in lines if line[0].isdigit()])
    bins, edges = np.histogram(found, 580)
    bins = bins * (rate * seconds / bins.sum())
    if peak is not None:
        for _ in range(50):  # what is cut off goes to the other bins
            bins = np.minimum(bins * (rate * seconds / bins.sum()), peak * seconds / len(bins))
    level = np.concatenate(([0.0], np.cumsum(bins)))
    gaps = np.random.default_rng(7).exponential(size=round(level[-1]))
    place = np.cumsum(gaps)
    times: Times = np.interp(place[place < level[-1]], level, edges * (seconds / edges[-1]))
    return times


def play(
    rule: JoiningPolicy,
    times: Times,
    served: VariantSystem,
    workers: int = WORKERS,
    *,
    margin: float = 1.0,
    slos: Times | None = None,
) -> Session:
    """The run at its end."""
    run = Session([Service(NAME, served, rule, expected={TYPE: margin})])
    run.join_all(GpuInstance(NAME, TYPE, f"gpu {k}") for k in range(workers))
    draws = np.random.default_rng(11).uniform(size=len(times))
    run.arrive(NAME, times, np.zeros(len(times), np.int64), draws, slos)
    run.until()
    return run


def figures(run: Session, outcome: Outcomes | None = None) -> Figures:
    """Of all queries, or of these."""
    found = run.outcome() if outcome is None else outcome
    made = run.services[0].system
    assert isinstance(made, VariantSystem)
    percent = np.array([one.accuracy for one in made.variants])
    in_time, served = ~found.late, found.joined > 0
    return Figures(
        float(in_time.mean()),
        float(percent[found.variant[in_time]].mean()) if in_time.any() else 0.0,
        float(served.sum() / (1 / found.joined[served]).sum()) if served.any() else 0.0,
    )


def met(name: str | JoiningPolicy, times: Times, served: VariantSystem, workers: int = WORKERS) -> Figures:
    return figures(play(policy(name) if isinstance(name, str) else name, times, served, workers))
