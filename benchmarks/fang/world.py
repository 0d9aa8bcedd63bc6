"""Fang et al.'s setting: fleets, windows of the day, what the paper's tables say, and runs."""

from __future__ import annotations

import csv
import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hetserve.base.units import Seconds, parse_duration
from hetserve.cli.profiles.reference_fang import BATCHES, HARD, SOFT, THROUGHPUT, VARIANTS
from hetserve.dispatch.joining import JoiningPolicy, Variant
from hetserve.dispatch.kernel import Scratch
from hetserve.profiles import Spread, TableProfile
from hetserve.profiles.spec import milliseconds
from hetserve.serving.services import Service
from hetserve.serving.session import Outcomes, Session
from hetserve.serving.variants import VariantSystem
from hetserve.simulation.clustered import ClusteredArrivals
from hetserve.training.rollouts import TrainedFleet, offer, qualities

NOISE: Final = 0.03
"""Deviation of service times / mean: the paper has a normal distribution, but not how wide."""
SECONDS: Final = 3 * 3600
RATES: Final[Mapping[str, float]] = {"12-15": 25.3, "15-18": 30.3, "18-21": 27.3, "21-24": 28.3}
"""Queries/s by window, fitted so that the share of tiny under the heuristic on one GPU is the paper's."""
ONE: Final = {"p2.xlarge": 1}
TEN: Final = {"g2.2xlarge": 5, "p2.xlarge": 5}
FLEETS: Final = {"one": (ONE, 1.0), "ten": (TEN, 8.0)}
"""Counts, and the factor on the rates."""
_SETUPS: Final = {"one": "single_p2", "ten": "5g2_5p2_x8"}


def data() -> Path:
    return Path(os.environ.get("HETSERVE_DATA", "../shared/data")) / "fang"


class Told(NamedTuple):
    """What the paper says of one cell. tiny: share."""

    quality: float
    deviation: float
    tiny: float


_CLUSTERED: Final = ClusteredArrivals()


@cache
def paper() -> dict[tuple[str, str, str], Told]:
    """By fleet, scheduler (fixed, heuristic, rl) and window."""
    found: dict[tuple[str, str, str], dict[str, str]] = {}
    with (data() / "targets.csv").open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            cell = found.setdefault((row["setup"], row["scheduler"], row["window_hr"]), {})
            cell[row["metric"]] = row["value"]
            cell["sd"] = row["sd"] or cell.get("sd", "")
    setups = {setup: name for name, setup in _SETUPS.items()}
    return {
        (setups[setup], scheduler, window): Told(
            float(cell["mean_response_quality"]), float(cell["sd"]), float(cell["p_tiny_percent"]) / 100
        )
        for (setup, scheduler, window), cell in found.items()
    }


@cache
def fleet(name: str, *, between: bool = True, noise: float = NOISE) -> TrainedFleet:
    """between: times between the sizes of Table 1 are interpolated; else those of the next size."""
    counts, _ = FLEETS[name]
    profiles = {
        kind: {variant: _profile(rates, between, noise) for variant, rates in THROUGHPUT[kind].items()}
        for kind in counts
    }
    variants = [Variant(one, float(accuracy), float(kappa)) for one, (accuracy, kappa) in VARIANTS.items()]
    system = VariantSystem.of_variants(profiles, variants, slo=parse_duration(SOFT), hard=parse_duration(HARD))
    return TrainedFleet(system, counts)


def _profile(rates: tuple[float, ...], between: bool, noise: float) -> TableProfile:
    times = [parse_duration(milliseconds(n / rate)) for n, rate in zip(BATCHES, rates, strict=False)]
    sizes: tuple[int, ...] = BATCHES[: len(times)]
    if not between:
        every = range(1, sizes[-1] + 1)
        times = [times[int(np.searchsorted(sizes, n))] for n in every]
        sizes = tuple(every)
    spread = (Spread.of_variation(noise),) * len(sizes)
    return TableProfile(sizes, tuple(Seconds(time) for time in times), spread)


@dataclass(frozen=True, slots=True, eq=False)
class Run:
    """One run: outcomes of its queries, when clients sent them [s], what the answers were worth, what the policy
    wrote."""

    found: Outcomes
    sent: NDArray[np.float64]
    worth: NDArray[np.float64]
    tiny: float
    scratch: Scratch

    @property
    def cell(self) -> list[float]:
        """Mean quality, its deviation, share of tiny."""
        return [float(self.worth.mean()), float(self.worth.std()), self.tiny]


def play(
    name: str,
    policy: JoiningPolicy,
    window: str,
    *,
    seconds: int = SECONDS,
    arrivals: ClusteredArrivals = _CLUSTERED,
    between: bool = True,
) -> Run:
    """One window of the day on a fleet."""
    used, (_, scale) = fleet(name, between=between), FLEETS[name]
    source = np.random.default_rng((list(RATES).index(window), 5))
    queries = arrivals.draw(RATES[window] * scale, seconds, source)
    session = Session([Service(name, used.system, policy)])
    session.join_all(used.instances(name))
    offer(session, name, queries, used.system.slo, source.random(len(queries.sent)))
    session.until()
    found = session.outcome()
    names = [one.name for one in used.system.variants]
    tiny = float((found.variant == names.index("tiny")).mean())
    return Run(found, queries.sent, qualities(found, queries.sent, used.system), tiny, session.scratch)
