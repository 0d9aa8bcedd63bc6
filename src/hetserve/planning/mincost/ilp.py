"""HetSev's integer program: the least cost that carries the load within the SLO (Electronics 2023, section 4.1).

    minimise sum C_i (X_i + lambda O_i max(X_i, 0))     subject to
    (1) sum T_i (N_i + X_i) >= W / threshold   (2) new instances fit what is free   (3) N_i + X_i >= 0   (4) L_i <= S

Variables here are y_i = N_i + X_i and a_i >= y_i - N_i, the new instances. The objective is integer: launching one
instance costs C_i lambda O_i, rounded once to micro-dollars. Ties: fewest instances, then most of the first type by
name, so that plans do not flap between equals.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from hetserve.api.conditions import Reason
from hetserve.base.units import QPS
from hetserve.planning.mincost.explain import explain, nothing_for_the_budget, refused, step_to, too_little, unusable
from hetserve.planning.mincost.milp import SOLVERS, Chain, Constraint, IntegerProgram, Solver
from hetserve.planning.mincost.model import (
    CostChoice,
    CostModel,
    build_model,
    for_budget,
    for_more,
    least_cost_program,
    most_load_program,
    other_program,
)
from hetserve.planning.plan import Evaluator, Plan, StepSearch, infeasible
from hetserve.planning.problem import Problem
from hetserve.planning.slo import no_type_meets_slo

NAME: Final = "ilp"


def plan_ilp(
    problem: Problem,
    _evaluate: Evaluator | None = None,
    _seed: int | None = None,
    *,
    solvers: Sequence[Solver] = SOLVERS,
) -> Plan:
    """HetSev's plan. solvers: in order of preference.

    A budget is a hard constraint; without a load, the plan carries what it buys. Infeasible with LoadUnknown,
    NoTypeMeetsSLO, CapacityTooLow or BudgetTooLow. Raises SolverError if no solver answers.
    """
    model = model_of(problem, NAME)
    if isinstance(model, Plan):
        return model
    search = LeastCostSearch(model, Chain(solvers))
    if problem.load is None:
        return _most_for_the_budget(search)
    best = search.least_cost()
    if best is None:
        free = LeastCostSearch(model.without_budget, search.chain)
        return too_little(model, free.most_load(), search.most_load(), free.least_cost())
    carries = None
    if problem.budget is not None:
        carries = LeastCostSearch(for_budget(model), search.chain).most_load().capacity
    others, proof = search.alternatives(best), f"least cost proven by {search.chain.used}"
    return explain(model, best, others, proof, search.next_step(best), carries=carries)


def model_of(problem: Problem, planner: str) -> CostModel | Plan:
    if problem.load is None and problem.budget is None:
        message = (
            f"planner {planner} carries a load at least cost, or the most for a budget, and neither is known: set "
            "spec.load.expectedQPS"
        )
        return infeasible(problem, planner, Reason.LOAD_UNKNOWN, message)
    model = build_model(problem, planner)
    if not model.types:
        return refused(model, Reason.NO_TYPE_MEETS_SLO, no_type_meets_slo(problem, problem.slo.percentile))
    for option in problem.types:
        if option.min_instances and option not in model.types:
            miss = next(refusal.reason for refusal in unusable(model) if refusal.subject == option.name)
            message = f"at least {option.min_instances} of {option.name} are wanted, but {miss}"
            return refused(model, Reason.NO_TYPE_MEETS_SLO, message)
    return model


def _most_for_the_budget(search: LeastCostSearch) -> Plan:
    """Plan without a load: the most that the budget buys, ties to the cheapest."""
    most = search.most_load()
    if most.capacity <= 0:
        return nothing_for_the_budget(search.model)
    exact = replace(search.model, needed=QPS(most.capacity))
    best = LeastCostSearch(exact, search.chain).least_cost() or most
    proof = f"the most for the budget, proven by {search.chain.used}"
    return explain(search.model, best, (), proof, search.next_step(best), carries=best.capacity)


@dataclass(frozen=True, slots=True)
class LeastCostSearch:
    model: CostModel
    chain: Chain
    others: dict[tuple[int, ...], CostChoice | None] = field(default_factory=dict)

    def least_cost(self) -> CostChoice | None:
        """The optimum, made unique by further solves; None if nothing carries the load."""
        if not self.model.within_reach():
            return None
        program = least_cost_program(self.model)
        first = self.chain.solve(program, self.model.witness())
        if first is None:
            return None
        best = self.model.choice(first)
        second = self._other(best)
        # Unique: every other choice costs more.
        if second is None or second.objective > best.objective:
            return best
        return self._unique(program, best)

    def _unique(self, program: IntegerProgram, best: CostChoice) -> CostChoice:
        """Of the optima, the one with fewest instances, then with most of the first type."""
        size = len(self.model.types)
        rows = (*program.rows, Constraint(program.objective, most=best.objective))
        fewest = self._resolve(program, rows, (1,) * size + (0,) * size, best)
        rows = (*rows, Constraint((1,) * size + (0,) * size, most=sum(fewest.counts)))
        for i in range(size - 1):
            if not any(fewest.counts[i + 1 :]):
                break
            unit = tuple(int(i == j) for j in range(2 * size))
            fewest = self._resolve(program, rows, tuple(-c for c in unit), fewest)
            rows = (*rows, Constraint(unit, least=fewest.counts[i]))
        return fewest

    def most_load(self) -> CostChoice:
        """Instances that carry most, up to the load, within limits, free resources and the budget."""
        answer = self.chain.solve(most_load_program(self.model))
        return self.model.choice(answer if answer is not None else (0,) * (2 * len(self.model.types)))

    def alternatives(self, best: CostChoice) -> tuple[CostChoice, ...]:
        """Other choices by objective, and every type alone.

        A second best has fewer of some type than the best, or one instance more.
        """
        other = self._other(best)
        found = set() if other is None else {other.counts}
        found.update(self.model.one_more(best))
        found.update(self.model.single_type())
        found.discard(best.counts)
        return tuple(sorted((self.model.choice(counts) for counts in found), key=lambda c: c.key))

    def next_step(self, best: CostChoice) -> StepSearch:
        """Cheapest plan that carries NOTICEABLE more, at any budget."""
        model = for_more(self.model, best)
        answer = self.chain.solve(least_cost_program(model))
        return step_to(model, best, None if answer is None else model.choice(answer))

    def _other(self, best: CostChoice) -> CostChoice | None:
        if best.counts not in self.others:
            answer = self.chain.solve(other_program(self.model, best))
            self.others[best.counts] = None if answer is None else self.model.choice(answer)
        return self.others[best.counts]

    def _resolve(
        self, program: IntegerProgram, rows: tuple[Constraint, ...], objective: tuple[int, ...], best: CostChoice
    ) -> CostChoice:
        """Of the optima so far, the one that minimises a further objective."""
        answer = self.chain.solve(IntegerProgram(objective, program.upper, rows), self.model.values(best))
        return best if answer is None else self.model.choice(answer)
