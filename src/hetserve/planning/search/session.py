"""One search: evaluates each configuration once, counts, prunes, and ends at its limit; and what it tried."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

from hetserve.planning.configurations import Dimension, Ints, count_configurations, enumerate_configurations
from hetserve.planning.kairos.ranking import choose_base
from hetserve.planning.plan import Counts, Evaluator, Plan
from hetserve.planning.problem import Problem


@dataclass(frozen=True, slots=True)
class Evaluation:
    counts: Counts
    qps: float


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

    def evaluations_until(self, qps: float) -> int | None:
        return next((i for i, e in enumerate(self.evaluations, start=1) if e.qps >= qps), None)


class SearchSession:
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


LARGEST_SPACE: Final = 1_000_000


@dataclass(frozen=True, slots=True, eq=False)
class SearchSpace:
    """In lexicographic order. counts: [configuration, type], in the order of `types`."""

    types: tuple[str, ...]
    counts: Ints
    _index: dict[tuple[int, ...], int] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        rows = [tuple(row) for row in self.counts.tolist()]
        if not rows or self.counts.shape[1] != len(self.types):
            raise ValueError(f"a search space needs configurations of {len(self.types)} types, got {self.counts.shape}")
        object.__setattr__(self, "_index", {row: i for i, row in enumerate(rows)})
        if len(self._index) != len(rows):
            raise ValueError("a search space holds every configuration once")

    def __len__(self) -> int:
        return len(self.counts)

    def configuration(self, index: int) -> Counts:
        return tuple(zip(self.types, self.counts[index].tolist(), strict=True))

    def find(self, counts: tuple[int, ...]) -> int | None:
        return self._index.get(counts)

    def below(self, index: int) -> NDArray[np.bool_]:
        """[configuration] Whether it holds no more of any type; includes itself."""
        return np.asarray((self.counts <= self.counts[index]).all(axis=1))

    def neighbours(self, index: int) -> list[int]:
        """Configurations that differ by one instance or its type, in a fixed order."""
        row = self.counts[index]
        distance = self.counts - row
        moved = np.abs(distance)
        near = (moved.max(axis=1) == 1) & (moved.sum(axis=1) <= 2) & (np.abs(distance.sum(axis=1)) <= 1)
        return [int(i) for i in np.flatnonzero(near)]


def search_space(problem: Problem) -> SearchSpace:
    """Space of a problem with a budget, within its limits, with Kairos's base.

    Raises ValueError without a budget or a base, or for an empty space or one larger than LARGEST_SPACE.
    """
    dimensions, budget = _dimensions(problem)
    size = count_configurations(dimensions, budget)
    if not 1 <= size <= LARGEST_SPACE:
        raise ValueError(f"the budget buys {size:.4g} configurations: a search needs 1 to {LARGEST_SPACE:,}")
    counts, _ = enumerate_configurations(dimensions, budget)
    return SearchSpace(tuple(o.name for o in problem.types), counts)


def space_size(problem: Problem) -> float:
    """Number of configurations, not listed: exact up to 2**53 on the grid of the prices.

    Raises ValueError without a budget or a base.
    """
    return count_configurations(*_dimensions(problem))


def _dimensions(problem: Problem) -> tuple[tuple[Dimension, ...], int]:
    if problem.budget is None:
        raise ValueError("a search needs a budget: set spec.budget.hourly")
    budget = int(problem.budget)
    base = choose_base(problem, budget, "search")
    if isinstance(base, Plan):
        raise ValueError(base.message)  # noqa: TRY004  a problem without a base, not a wrong type
    dimensions = (
        Dimension(o.price, max(o.min_instances, int(o.name == base.name)), o.max_instances) for o in problem.types
    )
    return tuple(dimensions), budget
