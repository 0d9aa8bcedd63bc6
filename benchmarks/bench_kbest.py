"""The best ten by bound and cost: time beside the goals, and what the program finds against listing.

In processor time of one thread. Run: .venv/bin/python -m benchmarks.bench_kbest [--quick]; benchmarks.planning_report
writes it down.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from hetserve.demand import kairos_mixture
from hetserve.planning import TypeOption
from hetserve.planning.configurations import count_configurations
from hetserve.planning.kairos.ranking import choose_base
from hetserve.planning.kbest.best import LISTED, Order, Space, best_configurations, grid_of, list_all, space_of
from hetserve.planning.kbest.search import found_by_program
from hetserve.planning.rates import derive_rates
from testing.kbest_pools import FAMILIES, full_pool
from testing.planning import kairos_types, problem

QUICK = "--quick" in sys.argv
POOLS, SMALL = (14, 20) if QUICK else (70, 100)

Row = tuple[str, str, str]
"""What, figure with unit, goal or nothing."""


def kairos_space(budget: str) -> Space:
    asked = problem(kairos_types(), mix=kairos_mixture(), budget=budget)
    assert asked.budget is not None
    base = choose_base(asked, asked.budget, "kairos")
    assert isinstance(base, TypeOption)
    others = tuple(option for option in asked.types if option != base)
    return space_of(derive_rates(base, others, asked.mix, asked.slo.latency), asked.budget)


def timed(work: Callable[[], object], rounds: int = 30) -> float:
    """Median processor time in milliseconds."""
    times = []
    for _ in range(rounds):
        started = time.process_time()
        work()
        times.append(time.process_time() - started)
    return 1e3 * statistics.median(times)


def kairos_rows() -> list[Row]:
    rows = []
    for budget, goal in (("2.5", ""), ("10", "< 50 ms"), ("18", "< 500 ms"), ("20", ""), ("100", "")):
        space = kairos_space(budget)
        size = count_configurations(space.dimensions, space.budget)
        found = timed(lambda space=space: best_configurations(space), 7)  # type: ignore[misc]
        how = "listed" if size <= LISTED else "by the program"
        rows.append((f"Kairos's four types, {budget} $/h ({size:,.0f}): top 10, {how}", f"{found:.2f} ms", goal))
    return rows


def family_rows() -> list[Row]:
    rows, everything = [], []
    each = max(POOLS // (2 * len(FAMILIES)), 1)
    for capped in (False, True):
        times = []
        for family in FAMILIES:
            taken = []
            for seed in range(each + 1):
                space = full_pool(seed, family, capped=capped)
                started = time.process_time()
                best_configurations(space)
                taken.append(1e3 * (time.process_time() - started))
            rows.append((f"  {family}{', capped' if capped else ''}: {len(taken)} pools", spread(taken), ""))
            times += taken
        everything += times
    rows.append((f"20 types, 100 $/h: {len(everything)} pools", spread(everything), "median < 500 ms"))
    return rows


def spread(times: Sequence[float]) -> str:
    return f"median {statistics.median(times):.2f}, p99 {np.percentile(times, 99):.1f}, max {max(times):.1f} ms"


def shortfall_rows() -> list[Row]:
    """What the program finds on pools that can be listed."""
    first, last = [], []
    for seed in range(SMALL):
        space = full_pool(seed, FAMILIES[seed % len(FAMILIES)], capped=seed % 2 == 1, types=5, budget=8_000_000)
        if not space.empty and count_configurations(space.dimensions, space.budget) <= LISTED:
            listed, found = list_all(space, 10), found_by_program(space, grid_of(space), Order(10))
            first.append(100 * (1 - found.keys[0] / listed.keys[0]))
            last.append(100 * (1 - found.keys[-1] / listed.keys[len(found.keys) - 1]))
    return [
        (
            f"the program's best bound below the best, {len(first)} pools",
            f"max {max(first):.4f} %",
            "max < 0.1 %",
        ),
        ("its tenth below the tenth of all", f"max {max(last):.4f} %", ""),
    ]


def rows() -> Iterator[Row]:
    """Every figure as measured; the solver is loaded first."""
    best_configurations(full_pool(0, "tied", capped=False))
    yield from kairos_rows()
    yield from family_rows()
    yield from shortfall_rows()


def main() -> None:
    print("The best ten by bound and cost (one thread, warm)")
    for what, value, goal in rows():
        print(f"{what:68} {value:46} {('goal: ' + goal) if goal else ''}".rstrip(), flush=True)


if __name__ == "__main__":
    main()
