"""The best configurations that can be found with simulation at hand: neighbours, every one of a small pool, margins.

What is found on the search's seeds is proven by others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from benchmarks.flow.judge import SEARCH, Judge, Numbers
from benchmarks.flow.program import CLASSES, MARGINS, Classes, best_counts, classes_of, fluid_limit

from hetserve.planning import Problem
from hetserve.planning.configurations import Dimension, enumerate_configurations

BETTER: Final = 1.005
"""A neighbour replaces the best only if it holds this much more: half a percent is noise."""
_SLACK: Final = 1.02
_ROUNDS: Final = 12
_BISECTIONS: Final = 6
_MARGINS_OF_LOADS: Final = ((0.0, 0.5), (0.0, 1.0), (0.1, 0.3), (0.25, 0.3))


def cost(given: Problem, numbers: Numbers) -> int:
    """Micro-dollars/h."""
    return sum(option.price * n for option, n in zip(given.types, numbers, strict=True))


def filled(given: Problem, numbers: Numbers) -> Iterator[Numbers]:
    """The configuration with the rest of the budget spent: on one type first, then on the others, the dearest first."""
    dearest = sorted(range(len(numbers)), key=lambda i: -given.types[i].price)
    for first in range(len(numbers)):
        counts, left = list(numbers), int(given.budget or 0) - cost(given, numbers)
        for i in [first, *dearest]:
            bought = left // given.types[i].price
            counts[i] += bought
            left -= bought * given.types[i].price
        yield tuple(counts)


def neighbours(given: Problem, numbers: Numbers) -> Iterator[Numbers]:
    """One instance less, or one more for as many of another type as that takes; then filled."""
    budget, seen = int(given.budget or 0), {numbers}
    for changed in _exchanges(given, numbers, budget):
        for one in filled(given, changed):
            if one not in seen and any(one):
                seen.add(one)
                yield one


def _exchanges(given: Problem, numbers: Numbers, budget: int) -> Iterator[Numbers]:
    yield numbers
    for i, held in enumerate(numbers):
        if held:
            yield _with(numbers, i, -1)
        over = cost(given, numbers) + given.types[i].price - budget
        for j, others in enumerate(numbers):
            freed = -(-max(over, 0) // given.types[j].price)
            if j != i and 0 < freed <= others:
                yield _with(_with(numbers, i, 1), j, -freed)


def _with(numbers: Numbers, i: int, more: int) -> Numbers:
    return (*numbers[:i], numbers[i] + more, *numbers[i + 1 :])


def maximal(given: Problem) -> tuple[Numbers, ...]:
    """Configurations within the budget that leave no room for an instance."""
    counts, costs = enumerate_configurations(tuple(Dimension(o.price) for o in given.types), int(given.budget or 0))
    cheapest = min(option.price for option in given.types)
    full = counts[int(given.budget or 0) - costs < cheapest]
    return tuple(tuple(row) for row in full.tolist())


@dataclass(slots=True)
class MostSearch:
    """Search for most throughput. rates: what was found [queries/s]. pruned, screened: by limit, by trial."""

    judge: Judge
    exact: Classes
    rates: dict[Numbers, float] = field(default_factory=dict)
    pruned: int = 0
    screened: int = 0

    @classmethod
    def of(cls, judge: Judge) -> MostSearch:
        return cls(judge, classes_of(judge.given))

    @property
    def best(self) -> tuple[Numbers, float]:
        """Configuration and rate; of equal ones the cheapest."""
        given = self.judge.given
        return max(self.rates.items(), key=lambda one: (one[1], -cost(given, one[0]), one[0]))

    def add(self, numbers: Numbers) -> float:
        if numbers not in self.rates:
            self.rates[numbers] = self.judge.rate(numbers, SEARCH)
        return self.rates[numbers]

    def try_all(self, candidates: Iterable[Numbers]) -> None:
        """Simulates those that may beat the best found, the highest fluid limit first."""
        limits = {one: self._limit(one) for one in candidates if one not in self.rates}
        for one, limit in sorted(limits.items(), key=lambda entry: (-entry[1], entry[0])):
            wanted = self.best[1] * BETTER
            if limit * _SLACK <= wanted:
                self.pruned += 1
            elif wanted and not self.judge.passes(one, wanted, SEARCH):
                self.screened += 1
            else:
                self.add(one)

    def climb(self) -> None:
        """Neighbours of the best until none is better."""
        for _ in range(_ROUNDS):
            before = self.best[0]
            self.try_all(neighbours(self.judge.given, before))
            if self.best[0] == before:
                return

    def _limit(self, numbers: Numbers) -> float:
        return fluid_limit(self.judge.given, numbers, self.exact)


def program_candidates(given: Problem) -> tuple[Numbers, ...]:
    """Solutions of the fluid program at several margins, and every single type."""
    allowed, found = 1 - given.slo.percentile / 100, dict[Numbers, None]()
    for wait, share in MARGINS:
        best = best_counts(given, classes_of(given, wait, CLASSES), share * allowed)
        if best is not None:
            found[best[0]] = None
    alone = np.eye(len(given.types), dtype=int)
    for i, option in enumerate(given.types):
        found[tuple((alone[i] * (int(given.budget or 0) // option.price)).tolist())] = None
    return tuple(one for one in found if any(one))


@dataclass(slots=True)
class LeastSearch:
    """Search for the least cost that carries a load; given: MinCost. held: those that passed, with who found each."""

    judge: Judge
    given: Problem
    exact: Classes
    held: dict[Numbers, str] = field(default_factory=dict)

    @property
    def load(self) -> float:
        return float(self.given.load or 0)

    def try_one(self, numbers: Numbers, method: str) -> bool:
        if numbers in self.held:
            return True
        if not any(numbers) or not self.judge.passes(numbers, self.load, SEARCH):
            return False
        self.held[numbers] = method
        return True

    def by_cost(self) -> list[Numbers]:
        """Those that passed, the cheapest first."""
        return sorted(self.held, key=lambda one: (cost(self.given, one), one))

    def bisect_margins(self) -> None:
        """The least margin of the program that passes, at three ways to spend the percentile."""
        allowed = 1 - self.given.slo.percentile / 100
        for wait, share in _MARGINS_OF_LOADS:
            classes = classes_of(self.given, wait, CLASSES)
            largest_saturation(lambda saturation, c=classes, s=share: self._solved(c, s * allowed, saturation))  # type: ignore[misc]

    def _solved(self, classes: Classes, delta: float, saturation: float) -> bool:
        best = best_counts(self.given, classes, delta, self.load / saturation)
        return best is not None and self.try_one(best[0], "program")

    def trim(self) -> None:
        """Cheaper neighbours of the cheapest that pass, until none does."""
        for _ in range(_ROUNDS * 4):
            ranked = self.by_cost()
            if not ranked or not any(self._fits(one) for one in cheaper(self.given, ranked[0])):
                return

    def _fits(self, numbers: Numbers) -> bool:
        wanted = self.load / _SLACK
        return fluid_limit(self.given, numbers, self.exact) >= wanted and self.try_one(numbers, "neighbour")


def largest_saturation(holds: Callable[[float], bool]) -> float:
    """Highest share of their time that instances may work, by bisection of 0.02 to 1; 0: none found."""
    good, bad = 0.0, 1.0
    middle = 0.5
    for _ in range(_BISECTIONS):
        good, bad = (middle, bad) if holds(middle) else (good, middle)
        middle = max((good + bad) / 2, 0.02)
    return good


def cheaper(given: Problem, numbers: Numbers) -> list[Numbers]:
    """Neighbours that cost less, the cheapest first: one instance away, or replaced by what its price nearly buys."""
    found: dict[Numbers, int] = {}
    for i, held in enumerate(numbers):
        for step in (1, 2) if held > 1 else (1,) if held else ():
            fewer = _with(numbers, i, -step)
            for changed in (fewer, *_replacements(given, fewer, step * given.types[i].price, i)):
                found[changed] = cost(given, changed)
    return sorted((one for one in found if any(one)), key=lambda one: (found[one], one))


def _replacements(given: Problem, fewer: Numbers, freed: int, without: int) -> Iterator[Numbers]:
    for j, option in enumerate(given.types):
        most = (freed - 1) // option.price
        if j != without and most > 0:
            yield from (_with(fewer, j, more) for more in {most, (most + 1) // 2, 1})
