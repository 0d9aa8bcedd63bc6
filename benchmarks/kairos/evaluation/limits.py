"""What no online dispatcher exceeds: the paper's oracle and the fluid bound."""

from __future__ import annotations

from benchmarks.kairos.paper.setting import Case, system

from hetserve.dispatch.lp import fluid_bound
from hetserve.dispatch.oracle import oracle_throughput
from hetserve.planning import Counts
from hetserve.simulation.workload import draw_workload


def oracle(case: Case, counts: Counts, queries: int = 100_000, seed: int = 11) -> float:
    """Queries/s of the oracle, which knows all queries in advance."""
    sizes = draw_workload(case.mix, queries, seed).sizes
    return oracle_throughput(system(case).predicted, [n for _, n in counts], sizes)


def fluid(case: Case, counts: Counts, drop: float = 0.0) -> float:
    """Queries/s of the fluid bound; drop: share of queries."""
    return fluid_bound(system(case).predicted, [n for _, n in counts], case.mix, drop)
