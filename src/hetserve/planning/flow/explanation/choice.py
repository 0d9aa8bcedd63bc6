"""What planner flow chose, and what is known of it."""

from __future__ import annotations

from dataclasses import dataclass

from hetserve.base.units import QPS, MicroDollarsPerHour
from hetserve.planning.flow.explanation.outcome import Tried
from hetserve.planning.flow.programs.classes import ClassTable, Values
from hetserve.planning.flow.programs.program import CEILING, FixedMix, FluidRates, Margin, fixed
from hetserve.planning.flow.search.leading import cost_of
from hetserve.planning.plan import RankedConfiguration


@dataclass(frozen=True, slots=True, eq=False)
class Choice:
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
