"""Kairos+ as the paper grants it to every scheme: bounds from high to low, two prunings (Algorithm 1).

Kept apart from the planner, since here the evaluator's dispatcher changes and every evaluation is recorded.
"""

from __future__ import annotations

from benchmarks.kairos.measure import ranking
from benchmarks.kairos.setting import Case

from hetserve.planning import Counts
from hetserve.planning.search import Evaluation, Evaluator, SearchTrace


def guided(case: Case, evaluate: Evaluator, limit: int | None = None) -> SearchTrace:
    """Evaluations of Kairos+ with any evaluator, until every configuration was evaluated or pruned."""
    ranked = ranking(case)
    made: list[Evaluation] = []
    best = 0.0
    for counts, bound in ranked:
        if limit is not None and len(made) >= limit:
            break
        if bound <= best:
            break  # the rest are lower still: pruned by their bounds
        if any(_within(counts, tried.counts) for tried in made):
            continue
        made.append(Evaluation(counts, evaluate(counts)))
        best = max(best, made[-1].qps)
    return SearchTrace("kairos-plus", 0, tuple(made), len(ranked), len(ranked) - len(made))


def _within(counts: Counts, other: Counts) -> bool:
    return all(a <= b for (_, a), (_, b) in zip(counts, other, strict=True))
