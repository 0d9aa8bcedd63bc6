"""One search: evaluates each configuration once, counts, prunes, and ends at its limit; and what it tried."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hetserve.planning.plan import Counts, Evaluator
from hetserve.planning.search.space import SearchSpace


@dataclass(frozen=True, slots=True)
class Evaluation:
    counts: Counts
    qps: float

    def as_json(self) -> dict[str, object]:
        return {"counts": dict(self.counts), "qps": self.qps}


@dataclass(frozen=True, slots=True)
class SearchTrace:
    """Evaluations of one search, each configuration once.

    space: number of configurations. pruned: known to be no better.
    """

    method: str
    seed: int
    evaluations: tuple[Evaluation, ...]
    space: int
    pruned: int

    @property
    def best(self) -> Evaluation:
        return max(self.evaluations, key=lambda e: e.qps)

    def best_so_far(self) -> tuple[float, ...]:
        return tuple(itertools.accumulate((evaluation.qps for evaluation in self.evaluations), max))

    def evaluations_until(self, qps: float) -> int | None:
        return next((i for i, e in enumerate(self.evaluations, start=1) if e.qps >= qps), None)

    def as_json(self) -> dict[str, object]:
        return {
            "method": self.method,
            "seed": self.seed,
            "space": self.space,
            "pruned": self.pruned,
            "best": self.best.as_json(),
            "evaluations": [evaluation.as_json() for evaluation in self.evaluations],
        }


class Session:
    def __init__(self, space: SearchSpace, evaluate: Evaluator, limit: int | None, *, prune: bool) -> None:
        self.space = space
        self.evaluations: list[Evaluation] = []
        self._evaluate = evaluate
        self._limit = len(space) if limit is None else limit
        self._prune = prune
        self._open = np.ones(len(space), dtype=np.bool_)
        self._at_most = np.full(len(space), math.inf)
        self._measured = np.zeros(len(space), dtype=np.bool_)

    @property
    def over(self) -> bool:
        return len(self.evaluations) >= self._limit or not self._open.any()

    @property
    def pruned(self) -> int:
        return int((~self._open & ~self._measured).sum())

    @property
    def candidates(self) -> NDArray[np.int64]:
        return np.flatnonzero(self._open).astype(np.int64)

    @property
    def measured(self) -> NDArray[np.int64]:
        return np.flatnonzero(self._measured).astype(np.int64)

    def value(self, index: int) -> float:
        """Queries/s of an evaluated configuration, or the most of a pruned one.

        Evaluates an open configuration first; not allowed when `over`.
        """
        if self._open[index]:
            self._measure(index)
        return float(self._at_most[index])

    def known(self, index: int) -> bool:
        return not self._open[index]

    def _measure(self, index: int) -> None:
        if self.over:
            raise RuntimeError("the search goes on after its last evaluation")
        counts = self.space.configuration(index)
        qps = float(self._evaluate(counts))
        if not (math.isfinite(qps) and qps >= 0):
            raise ValueError(f"the evaluator returned {qps} for {dict(counts)}: must be a rate of at least 0")
        self.evaluations.append(Evaluation(counts, qps))
        self._measured[index] = True
        self._at_most[index] = qps
        self._open[index] = False
        if self._prune:
            below = self.space.below(index) & ~self._measured
            self._at_most[below] = np.minimum(self._at_most[below], qps)
            self._open &= ~below
