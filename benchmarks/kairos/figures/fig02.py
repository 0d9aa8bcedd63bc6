"""Fig. 2: throughput over homogeneous while simulated annealing explores, RM2 under FCFS."""

from __future__ import annotations

from typing import Final

import numpy as np
from benchmarks.kairos.evaluation.measure import Scale, in_parallel, looked_up, ranking
from benchmarks.kairos.paper.setting import TYPES, Case, homogeneous
from benchmarks.kairos.report.plots import COLOURS, figure
from benchmarks.kairos.report.results import picture
from benchmarks.reporting import Json, table, verdict

from hetserve.planning import Counts
from hetserve.planning.search import SearchSpace, search

TITLE: Final = "Fig. 2: most explored configurations are below homogeneous (RM2, FCFS, simulated annealing)"

TRIES: Final = 60
SEEDS: Final = (1, 2, 3, 4, 5)
LEAST: Final = 20.0
"""The paper leaves configurations below 20 queries/s out."""


def space_of(case: Case) -> SearchSpace:
    counts = sorted(tuple(n for _, n in counts) for counts, _ in ranking(case))
    return SearchSpace(TYPES, np.array(counts, dtype=np.int64))


def used(scale: Scale) -> Scale:
    return scale.searching


def measure(scale: Scale) -> Json:
    case = Case("RM2")
    counts, factor = homogeneous(case)
    base = looked_up(case, "fcfs", counts, scale) * factor

    def explore(seed: int) -> list[float]:
        def evaluate(tried: Counts) -> float:
            return looked_up(case, "fcfs", tried, scale)

        trace = search(space_of(case), evaluate, "annealing", limit=TRIES, seed=seed, prune=False)
        return [evaluation.qps for evaluation in trace.evaluations]

    return {"homogeneous": base, "walks": dict(zip(map(str, SEEDS), in_parallel(explore, SEEDS, scale), strict=True))}


def describe(data: Json) -> str:
    base = data["homogeneous"]
    rows = []
    for seed, walk in data["walks"].items():
        kept = [rate for rate in walk if rate >= LEAST]
        below = sum(rate < base for rate in kept) / len(kept)
        rows.append([seed, len(walk), len(kept), f"{below:.0%}", f"{max(kept) / base:.2f}"])
    every = [rate for walk in data["walks"].values() for rate in walk if rate >= LEAST]
    share = sum(rate < base for rate in every) / len(every)
    _draw(data)
    head = ["seed", "evaluated", "of at least 20 q/s", "below homogeneous", "best / homogeneous"]
    return (
        table(head, rows)
        + f"\nPaper: about 70 % are below. Here {share:.0%}: {verdict(0.6 <= share <= 0.8)} (within 10 points). "
        "Length and temperature of the walk are not published: 60 evaluations each here.\n\n"
        + picture("fig02", "Throughput over homogeneous by evaluation of the annealing walk")
    )


def _draw(data: Json) -> None:
    seed, walk = next(iter(data["walks"].items()))
    gain = [(i + 1, (rate / data["homogeneous"] - 1) * 100) for i, rate in enumerate(walk) if rate >= LEAST]
    with figure("fig02", 6.5, 3.2) as axis:
        colours = [COLOURS["hetserve"] if value < 0 else COLOURS["kairos"] for _, value in gain]
        axis.bar([i for i, _ in gain], [value for _, value in gain], 0.8, color=colours)
        axis.axhline(0, color="#444444", linewidth=1)
        axis.set_xlabel("evaluation")
        axis.set_ylabel("over homogeneous, %")
        axis.set_title(f"RM2, FCFS, simulated annealing (seed {seed})")
