"""What planner flow chose, what ran beside it, and what is known of them."""

from __future__ import annotations

from dataclasses import dataclass

from hetserve.base.units import QPS, MicroDollarsPerHour
from hetserve.planning.flow.programs.classes import ClassTable, Values
from hetserve.planning.flow.programs.program import CEILING, FixedMix, FluidRates, Margin, fixed
from hetserve.planning.flow.search.cost import CostClimb
from hetserve.planning.flow.search.leading import cost_of
from hetserve.planning.flow.search.proof import Proof
from hetserve.planning.flow.search.throughput import Race
from hetserve.planning.plan import EvaluatedConfiguration, RankedConfiguration


@dataclass(frozen=True, slots=True)
class Tried:
    """held: queries/s seen to keep the SLO; 0: none was. below: a rate that broke it; None: not looked for."""

    values: Values
    held: float
    below: float | None = None


@dataclass(frozen=True, slots=True, eq=False)
class ChosenMix:
    """Counts in the table's order.

    held: queries/s, proved by trials unless `untried` says why not. seen: the most that the trials that choose let
    pass. ceiling: most queries/s of any mix for the budget, or a cost [micro-dollars/h] that no mix which carries the
    load goes below. others: what ran beside it, best first. steps: whether the next steps are wanted.
    """

    table: ClassTable
    values: Values
    held: float
    fluid: FluidRates
    ceiling: float
    others: tuple[Tried, ...] = ()
    trials: int = 0
    seen: float = 0.0
    untried: str = ""
    steps: bool = True

    @property
    def is_cost(self) -> bool:
        return self.table.problem.objective == "MinCost" and self.table.problem.load is not None

    @property
    def is_idle(self) -> bool:
        """Whether the plan is for no load at all."""
        return self.is_cost and not self.table.problem.load

    @property
    def cost(self) -> int:
        return cost_of(self.table, self.values)

    @property
    def money(self) -> int:
        """What may be spent without a question, micro-dollars/h: the cost, or the budget."""
        return self.cost if self.is_cost else self.table.problem.budget or self.cost

    def ranked(self, values: Values) -> RankedConfiguration:
        cost = MicroDollarsPerHour(cost_of(self.table, values))
        return RankedConfiguration(self.table.counts(values), cost, QPS(self.fluid(values)))

    def serving(self) -> FixedMix | None:
        """The flow that serves the held rate: without late queries as far as possible."""
        for margin in (Margin(late=0.5), Margin(), CEILING):
            found = fixed(self.table, margin, self.values, absent=False)
            if found is not None and found.rate >= self.held:
                return found
        return None

    def evaluated(self, one: Tried) -> EvaluatedConfiguration:
        below = None if one.below is None else QPS(one.below)
        return EvaluatedConfiguration(self.ranked(one.values), QPS(one.held), below)


def of_race(run: Race) -> tuple[Tried, ...]:
    """The others that ran, what was seen to hold most first, then those that lost by their fluid rate."""
    fluid = run.judge.fluid
    seen = {values: rate for values, rate in run.entered.items() if values != run.best}
    ranked = sorted(seen, key=lambda v: (-seen[v], -fluid(v), v))
    return tuple(Tried(v, seen[v], None if seen[v] else run.rate) for v in ranked)


def of_climb(run: CostClimb, proof: Proof, best: Values, load: float) -> tuple[Tried, ...]:
    """The others that ran, cheapest first: those below the best broke the SLO, in the trials that chose or proved."""
    key, others = run.key(best), []
    for values in run.simulated:
        below = run.key(values) < key
        if values == best:
            continue
        if run.tried[values] and not below:
            others.append(Tried(values, run.load))
        else:
            others.append(Tried(values, 0.0, load if proof.broke(values, load) else run.load))
    return tuple(sorted(others, key=lambda one: run.key(one.values)))
