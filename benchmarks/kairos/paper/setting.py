"""The paper's setting, on the public measurements."""

from __future__ import annotations

import csv
import os
from collections import defaultdict
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

import numpy as np

from hetserve.base.units import MicroDollarsPerHour, Seconds, parse_money
from hetserve.demand import BatchMix, parse_batches
from hetserve.dispatch import LatencyModel
from hetserve.planning import Counts, LatencySlo, Plan, Problem, TypeOption
from hetserve.planning.kairos.planner import plan_kairos
from hetserve.profiles import LatencyProfile, Spread, TableProfile
from hetserve.serving.system import System

REPOSITORY: Final = Path(__file__).resolve().parents[3]
PRICES: Final = {"g4dn.xlarge": "0.526", "c5n.2xlarge": "0.432", "r5n.large": "0.149", "t3.xlarge": "0.1664"}
TYPES: Final = tuple(PRICES)
BASE: Final = TYPES[0]
SLO_MS: Final = {"NCF": 5.0, "RM2": 350.0, "WND": 25.0, "MT-WND": 25.0, "DIEN": 35.0}
MODELS: Final = tuple(SLO_MS)
BUDGET: Final = "2.5"

_QUANTILES: Final = {"min_ms": 0.0, "p50_ms": 0.5, "p90_ms": 0.9, "p99_ms": 0.99, "max_ms": 1.0}


def data_folder() -> Path:
    """Folder `kairos` below HETSERVE_DATA, else beside the repository."""
    folder = Path(os.environ.get("HETSERVE_DATA") or REPOSITORY.parent / "shared" / "data") / "kairos"
    if not (folder / "latency.csv").is_file():
        raise SystemExit(f"{folder}/latency.csv is absent: set HETSERVE_DATA to the folder that holds kairos/")
    return folder


@cache
def profiles(model: str) -> dict[str, LatencyProfile]:
    """Table profiles of a model with spread, base first."""
    means: dict[str, dict[int, float]] = defaultdict(dict)
    with (data_folder() / "latency.csv").open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            if row["model"] == model:
                means[row["instance"]][int(row["batch"])] = float(row["latency_ms"]) / 1e3
    spreads: dict[tuple[str, int], Spread] = {}
    with (data_folder() / "latency_spread.csv").open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            if row["model"] == model:
                ratios = {p: float(row[name]) / float(row["mean_ms"]) for name, p in _QUANTILES.items()}
                spreads[row["instance"], int(row["batch"])] = Spread.of_quantiles(ratios)
    return {
        name: TableProfile(
            tuple(means[name]),
            tuple(Seconds(mean) for mean in means[name].values()),
            tuple(spreads.get((name, batch)) for batch in means[name]),
        )
        for name in TYPES
    }


@dataclass(frozen=True, slots=True)
class Case:
    """One setting: model, budget in $/h, factor on the SLO, batch mix, errors of the profiles.

    wrong: standard deviation of the relative error of the means that the dispatcher believes. noisier: of an additional
    error of every service time.
    """

    model: str
    budget: str = BUDGET
    slo_factor: float = 1.0
    batches: str = "mixture"
    wrong: float = 0.0
    noisier: float = 0.0

    @property
    def slo(self) -> float:
        return SLO_MS[self.model] / 1e3 * self.slo_factor

    @property
    def mix(self) -> BatchMix:
        return parse_batches(self.batches)


def problem(case: Case) -> Problem:
    """The planning problem of a case, at p99."""
    options = tuple(TypeOption(n, parse_money(PRICES[n]), profiles(case.model)[n]) for n in TYPES)
    return Problem(
        service=case.model.lower(),
        objective="MaxThroughput",
        slo=LatencySlo(Seconds(case.slo)),
        mix=case.mix,
        types=options,
        budget=parse_money(case.budget),
        # The paper's base, although cheaper types could serve.
        base=BASE,
    )


@cache
def system(case: Case) -> System:
    """What is simulated, with the errors of the case."""
    mix = case.mix
    made = System.of(_noisier(profiles(case.model), case.noisier), mix.batches, case.slo, base=BASE)
    if not case.wrong:
        return made
    arrays = made.predicted.arrays
    factor = 1 + case.wrong * np.random.default_rng(20230616).standard_normal(arrays.mean.shape)
    factor = np.maximum(factor, 0.1)
    return System(
        made.served,
        LatencyModel.of(TYPES, mix.batches, arrays.mean * factor, case.slo, arrays.safe * factor, TYPES.index(BASE)),
    )


def _noisier(measured: dict[str, LatencyProfile], deviation: float) -> dict[str, LatencyProfile]:
    """Every spread widened by an independent normal error."""
    return {name: _widened(profile, deviation) for name, profile in measured.items()} if deviation else measured


def _widened(profile: LatencyProfile, deviation: float) -> LatencyProfile:
    assert isinstance(profile, TableProfile)
    noise = deviation * np.random.default_rng(7).standard_normal(4000)
    even = (np.arange(4000) + 0.5) / 4000
    knots = (0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 0.999, 1.0)

    def widen(spread: Spread) -> Spread:
        ratios = np.maximum(np.interp(even, spread.probabilities, spread.ratios) + noise, 0.05)
        return Spread(knots, tuple(np.maximum.accumulate(np.quantile(ratios, knots)).tolist()))

    spreads = tuple(None if s is None else widen(s) for s in profile.spreads)
    return TableProfile(profile.batches, profile.means, spreads)


@cache
def kairos_plan(case: Case) -> Plan:
    """By upper bounds and the similarity rule."""
    made = plan_kairos(problem(case))
    if not made.feasible:
        raise RuntimeError(f"{case}: {made.message}")
    return made


def short(counts: Counts) -> str:
    """Counts as the paper writes them: (1,0,13,0), in the order of TYPES."""
    by_name = dict(counts)
    return "(" + ",".join(str(by_name.get(name, 0)) for name in TYPES) + ")"


def counts_of(*numbers: int) -> Counts:
    return tuple(zip(TYPES, numbers, strict=True))


def cost(counts: Counts) -> MicroDollarsPerHour:
    return MicroDollarsPerHour(sum(n * parse_money(PRICES[name]) for name, n in counts))


def homogeneous(case: Case) -> tuple[Counts, float]:
    """As many base instances as the budget buys, and the factor that spends the rest (section 8.1)."""
    number = parse_money(case.budget) // parse_money(PRICES[BASE])
    counts = counts_of(number, 0, 0, 0)
    return counts, parse_money(case.budget) / cost(counts)
