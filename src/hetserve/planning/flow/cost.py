"""The least cost that carries a load: programs at falling saturations, trimmed, tried, and the cheapest proved."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from hetserve.planning.flow.classes import COARSE, ClassTable, Values
from hetserve.planning.flow.judge import Judge
from hetserve.planning.flow.leading import allowed, cost_of, neighbours, pairs, splits
from hetserve.planning.flow.program import CEILING, Margin, launch_charge, least_cost
from hetserve.planning.flow.proof import Proof

SATURATIONS: Final = (1.0, 0.95, 0.9, 0.85, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.13, 0.08, 0.05)
MARGINS: Final = ((0.0, 0.2), (0.0, 0.6), (0.1, 0.3), (0.25, 0.3))
"""wait, late"""
_PAIRED: Final = Margin(wait=0.1, late=0.3)
_TRIMS: Final = 24
_PER_TRIM: Final = 16
_PROOFS: Final = 3
_ABOVE: Final = (0.0, 0.02, 0.05, 0.1, 0.2, 0.4, 0.8)


@dataclass(slots=True)
class Climb:
    """Counts by objective (cost and launch charges), as far as they are tried. holding: those that hold the load."""

    table: ClassTable
    judge: Judge
    load: float
    budget: int | None
    charges: tuple[int, ...]
    holding: dict[Values, int] = field(default_factory=dict)
    tried: dict[Values, bool] = field(default_factory=dict)

    def objective(self, values: Values) -> int:
        """Micro-dollars: cost, and what launching the new instances weighs."""
        new = (max(n - option.running, 0) for option, n in zip(self.table.types, values, strict=True))
        return cost_of(self.table, values) + sum(c * n for c, n in zip(self.charges, new, strict=True))

    def key(self, values: Values) -> tuple[int, int, Values]:
        """Total order: least objective, fewest instances, then the counts."""
        return self.objective(values), sum(values), values

    @property
    def best(self) -> Values | None:
        return min(self.holding, key=self.key, default=None)

    def try_(self, values: Values) -> bool:
        """Whether counts hold the load in the trials that choose."""
        if values not in self.tried:
            fit = self.judge.can_try(values) and allowed(self.table, values, self.budget)
            self.tried[values] = fit and self.judge.holds(values, self.load)
            if self.tried[values]:
                self.holding[values] = self.objective(values)
        return self.tried[values]

    def beats(self, values: Values) -> bool:
        return self.best is None or self.key(values) < self.key(self.best)


def climb(judge: Judge, load: float, budget: int | None, others: Iterable[Values] = ()) -> Climb:
    """Finds counts that hold the load for little money; none may hold. others: tried too."""
    table = judge.table
    charges = tuple(launch_charge(option, table.problem.launch_weight) for option in table.types)
    run = Climb(table.merged(COARSE), judge, load, budget, charges)
    for wait, late in MARGINS:
        _descend(run, Margin(wait=wait, late=late))
    for both in pairs(run.table):
        _descend(run, _PAIRED, both)
    if not run.tried:
        _descend(run, CEILING)
    for values in sorted(others, key=run.key):
        if run.beats(values):
            run.try_(values)
    for _ in range(_TRIMS):
        if not _trimmed(run):
            break
    return run


def _descend(run: Climb, margin: Margin, only: tuple[int, ...] | None = None) -> None:
    """Tries the program at falling saturations until its counts hold or cost more than the best."""
    for saturation in SATURATIONS:
        kept = dataclasses.replace(margin, saturation=saturation)
        mix = least_cost(run.table, kept, run.load, budget=run.budget, only=only)
        if mix is None or not run.beats(mix.counts) or run.try_(mix.counts):
            return


def of_papers(table: ClassTable) -> tuple[Values, ...]:
    """The plans of HetSev's program and heuristic, with and without the threshold."""
    from hetserve.planning.mincost.greedy import plan_greedy  # noqa: PLC0415
    from hetserve.planning.mincost.ilp import plan_ilp  # noqa: PLC0415

    asked = [
        dataclasses.replace(table.problem, saturation_threshold=s) for s in (table.problem.saturation_threshold, 1.0)
    ]
    made = [plan_ilp(asked[0]), plan_ilp(asked[1]), plan_greedy(asked[0])]
    return tuple(dict.fromkeys(table.values(one.counts) for one in made if one.feasible))


def _trimmed(run: Climb) -> bool:
    """Whether a cheaper neighbour of the best holds the load too."""
    best = run.best
    if best is None:
        return False
    cheaper = {*neighbours(run.table, best, None), *splits(run.table, cost_of(run.table, best) - 1)}
    near = [v for v in cheaper if v not in run.tried and run.beats(v) and run.judge.fluid(v) > run.load]
    near.sort(key=lambda v: (-run.judge.fluid(v), run.key(v)))
    return any(run.try_(values) for values in near[:_PER_TRIM])


def proved(judge: Judge, proof: Proof, load: float, budget: int | None) -> tuple[Climb, Values | None]:
    """The last climb, and the cheapest of its counts that hold the load in the trials that prove; None: none does.

    Where luck chose, the climb is made again for a little more than the load.
    """
    others = of_papers(judge.table)
    for above in _ABOVE:
        run = climb(judge, load * (1 + above), budget, others)
        for values in sorted(run.holding, key=run.key)[:_PROOFS]:
            if proof.holds(values, load):
                return run, values
    return run, None
