"""Every configuration simulated once, remembered within a run: what searches and bounds are compared with."""

from __future__ import annotations

from benchmarks.kairos.evaluation.measure import Scale, in_parallel, looked_up, ranking
from benchmarks.kairos.paper.setting import Case

from hetserve.planning import Counts


def everything(case: Case, scheme: str, scale: Scale) -> dict[Counts, float]:
    """Queries/s of every configuration under a scheme, at the search's scale."""
    configurations = [counts for counts, _ in ranking(case)]
    rates = in_parallel(lambda counts: looked_up(case, scheme, counts, scale), configurations, scale)
    return dict(zip(configurations, rates, strict=True))
