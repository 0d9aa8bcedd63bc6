"""HetSev's integer program: the least cost that carries the load within the SLO (Electronics 2023, section 4.1).

    minimise sum C_i (X_i + lambda O_i max(X_i, 0))     subject to
    (1) sum T_i (N_i + X_i) >= W / threshold   (2) new instances fit what is free   (3) N_i + X_i >= 0   (4) L_i <= S

Variables here are y_i = N_i + X_i and a_i >= y_i - N_i, the new instances. The objective is integer: launching
one instance is charged C_i lambda O_i, rounded once to micro-dollars. Among equal optima the one with fewest
instances, then with most of the first type by name: a plan must not flap between equals.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from hetserve.api.conditions import Reason
from hetserve.planning.base import no_type_meets_slo
from hetserve.planning.explain_ilp import explain, too_little, unusable
from hetserve.planning.ilp_model import Choice, Model, build_model, least_cost_program, most_load_program
from hetserve.planning.milp import SOLVERS, Chain, IntegerProgram, Row, Solver
from hetserve.planning.outcome import infeasible
from hetserve.planning.plan import Plan
from hetserve.planning.problem import Problem

NAME: Final = "ilp"


def plan_ilp(problem: Problem, solvers: Sequence[Solver] = SOLVERS) -> Plan:
    """HetSev's plan; solvers: in order of preference, the next is asked when one fails.

    A budget is a hard constraint. An infeasible plan has reason LoadUnknown, NoTypeMeetsSLO, CapacityTooLow or
    BudgetTooLow. Raises SolverError when no solver answers.
    """
    if problem.load is None:
        return infeasible(
            problem,
            NAME,
            Reason.LOAD_UNKNOWN,
            "planner ilp carries a load at least cost, and none is known: set spec.load.expectedQPS",
        )
    model = build_model(problem)
    if not model.types:
        percentile = problem.slo.percentile
        return infeasible(
            problem, NAME, Reason.NO_TYPE_MEETS_SLO, no_type_meets_slo(problem, percentile), unusable(problem, model)
        )
    search = _Search(model, Chain(solvers))
    best = search.least_cost()
    if best is None:
        most = search.most_load(within_budget=False)
        affordable = search.most_load(within_budget=True)
        cheapest = search.least_cost(within_budget=False)
        return too_little(problem, model, most, affordable, cheapest)
    return explain(problem, model, best, search.alternatives(best), search.chain.used)


@dataclass(frozen=True, slots=True)
class _Search:
    """The questions that are asked of one model."""

    model: Model
    chain: Chain

    def least_cost(self, within_budget: bool = True) -> Choice | None:
        """The optimum made unique by further solves; None if nothing carries the load."""
        program = least_cost_program(self.model, within_budget)
        first = self.chain.solve(program, self.model.witness())
        if first is None:
            return None
        best = self.model.choice(first)
        size = len(self.model.types)
        rows = (*program.rows, Row(program.objective, most=best.objective))
        fewest = self._resolve(program, rows, (1,) * size + (0,) * size, best)
        rows = (*rows, Row((1,) * size + (0,) * size, most=sum(fewest.counts)))
        for i in range(size - 1):
            if not any(fewest.counts[i + 1 :]):
                break  # all that is left is of this type already: no more of it can be had
            unit = tuple(int(i == j) for j in range(2 * size))
            fewest = self._resolve(program, rows, tuple(-c for c in unit), fewest)
            rows = (*rows, Row(unit, least=fewest.counts[i]))
        return fewest

    def most_load(self, within_budget: bool) -> Choice:
        """Instances that carry the most (or just the load) within caps, free resources and, if asked, the budget."""
        answer = self.chain.solve(most_load_program(self.model, within_budget))
        # No instance at all is always allowed, so a solver that finds nothing is wrong.
        return self.model.choice(answer if answer is not None else (0,) * (2 * len(self.model.types)))

    def alternatives(self, best: Choice) -> tuple[Choice, ...]:
        """Choices other than the best, the second best among them, by objective.

        A second best either holds fewer of some type than the best, one program each, or all of it and one
        instance more. Pools of one type alone are added for the reader.
        """
        found: set[tuple[int, ...]] = set()
        for i, count in enumerate(best.counts):
            if count:
                unit = tuple(int(i == j) for j in range(2 * len(best.counts)))
                program = least_cost_program(self.model, within_budget=True)
                fewer = IntegerProgram(program.objective, program.upper, (*program.rows, Row(unit, most=count - 1)))
                answer = self.chain.solve(fewer)
                if answer is not None:
                    found.add(answer[: len(best.counts)])
        found.update(self.model.one_more(best))
        found.update(self.model.single_type())
        found.discard(best.counts)
        return tuple(sorted((self.model.choice(counts) for counts in found), key=lambda c: c.key))

    def _resolve(
        self, program: IntegerProgram, rows: tuple[Row, ...], objective: tuple[int, ...], best: Choice
    ) -> Choice:
        """Among the optima so far, of which `best` is one, the one that minimises a further objective."""
        answer = self.chain.solve(IntegerProgram(objective, program.upper, rows), self.model.values(best))
        return best if answer is None else self.model.choice(answer)
