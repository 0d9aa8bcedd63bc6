"""Kairos+ as the paper grants it to every scheme (Algorithm 1): the planner's own search, its trials recorded."""

from __future__ import annotations

from benchmarks.kairos.evaluation.measure import ranking
from benchmarks.kairos.paper.setting import Case, problem

from hetserve.planning import Counts
from hetserve.planning.kairos.plus import plan_kairos_plus
from hetserve.planning.search import Evaluation, Evaluator, SearchTrace


def guided(case: Case, evaluate: Evaluator, limit: int | None = None) -> SearchTrace:
    """Evaluations of Kairos+ with any evaluator; limit: most of them, None: until every other is pruned."""
    made: list[Evaluation] = []

    def noted(counts: Counts) -> float:
        made.append(Evaluation(counts, evaluate(counts)))
        return made[-1].qps

    plan_kairos_plus(problem(case), noted, limit=limit)
    space = len(ranking(case))
    return SearchTrace("kairos-plus", 0, tuple(made), space, space - len(made))
