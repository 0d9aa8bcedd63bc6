"""HetSev's integer program: the least cost that carries the load within the SLO (Electronics 2023, section 4.1).

    minimise sum C_i (X_i + lambda O_i max(X_i, 0))     subject to
    (1) sum T_i (N_i + X_i) >= W / threshold   (2) new instances fit what is free   (3) N_i + X_i >= 0   (4) L_i <= S

Variables here are y_i = N_i + X_i and a_i >= y_i - N_i, the new instances. The objective is integer: launching
one instance is charged C_i lambda O_i, rounded once to micro-dollars. Among equal optima the one with fewest
instances, then with most of the first type by name: a plan must not flap between equals.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from hetserve.api.conditions import Reason
from hetserve.planning.evaluator import Evaluator
from hetserve.planning.kairos.base import no_type_meets_slo
from hetserve.planning.milp import SOLVERS, Chain, IntegerProgram, Row, Solver
from hetserve.planning.mincost.explain import explain, nothing_for_the_budget, step_to, too_little, unusable
from hetserve.planning.mincost.model import (
    Choice,
    Model,
    build_model,
    for_budget,
    for_more,
    least_cost_program,
    most_load_program,
    other_program,
)
from hetserve.planning.outcome import infeasible
from hetserve.planning.plan import NextStep, Plan
from hetserve.planning.problem import Problem
from hetserve.units import QPS

NAME: Final = "ilp"


def plan_ilp(
    problem: Problem,
    _evaluate: Evaluator | None = None,
    _seed: int | None = None,
    *,
    solvers: Sequence[Solver] = SOLVERS,
) -> Plan:
    """HetSev's plan; solvers: in order of preference, the next is asked when one fails.

    A budget is a hard constraint; with a budget and no load, the plan carries as much as it buys. An infeasible plan
    has reason LoadUnknown, NoTypeMeetsSLO, CapacityTooLow or BudgetTooLow. Raises SolverError when no solver answers.
    """
    model = modelled(problem, NAME)
    if isinstance(model, Plan):
        return model
    search = Search(model, Chain(solvers))
    if problem.load is None:
        return _most_for_the_budget(problem, search)
    best = search.least_cost()
    if best is None:
        most = search.most_load(within_budget=False)
        affordable = search.most_load(within_budget=True)
        cheapest = search.least_cost(within_budget=False)
        return too_little(problem, model, most, affordable, cheapest, planner=NAME)
    carries = None
    if problem.budget is not None:
        carries = Search(for_budget(model), search.chain).most_load(within_budget=True).capacity
    return explain(
        problem,
        model,
        best,
        search.alternatives(best),
        f"least cost proven by {search.chain.used}",
        planner=NAME,
        step=search.next_step(problem, best),
        asked=True,
        carries=carries,
    )


def modelled(problem: Problem, planner: str) -> Model | Plan:
    """The program of a problem, or the infeasible plan that says why there is none."""
    if problem.load is None and problem.budget is None:
        message = (
            f"planner {planner} carries a load at least cost, or the most for a budget, and neither is known: set "
            "spec.load.expectedQPS"
        )
        return infeasible(problem, planner, Reason.LOAD_UNKNOWN, message)
    model = build_model(problem)
    refusals = unusable(problem, model)
    if not model.types:
        message = no_type_meets_slo(problem, problem.slo.percentile)
        return infeasible(problem, planner, Reason.NO_TYPE_MEETS_SLO, message, refusals)
    for option in problem.types:
        if option.min_instances and option not in model.types:
            miss = next(refusal.reason for refusal in refusals if refusal.subject == option.name)
            message = f"at least {option.min_instances} of {option.name} are wanted, but {miss}"
            return infeasible(problem, planner, Reason.NO_TYPE_MEETS_SLO, message, refusals)
    return model


def _most_for_the_budget(problem: Problem, search: Search) -> Plan:
    """Plan without a load: the most that the budget buys, and of all that carry so much the cheapest."""
    most = search.most_load(within_budget=True)
    if most.capacity <= 0:
        return nothing_for_the_budget(problem, search.model, NAME)
    exact = replace(search.model, needed=QPS(most.capacity))
    best = Search(exact, search.chain).least_cost() or most
    return explain(
        problem,
        search.model,
        best,
        (),
        f"the most for the budget, proven by {search.chain.used}",
        planner=NAME,
        step=search.next_step(problem, best),
        asked=True,
        carries=best.capacity,
    )


@dataclass(frozen=True, slots=True)
class Search:
    """The questions that are asked of one model."""

    model: Model
    chain: Chain
    others: dict[tuple[int, ...], Choice | None] = field(default_factory=dict)

    def least_cost(self, within_budget: bool = True) -> Choice | None:
        """The optimum, made unique by further solves where it is not; None if nothing carries the load."""
        if not self.model.within_reach():
            return None
        program = least_cost_program(self.model, within_budget)
        first = self.chain.solve(program, self.model.witness())
        if first is None:
            return None
        best = self.model.choice(first)
        second = self._other(best)
        # Nothing else costs as little: adding instances to the best costs more in any case.
        if within_budget and (second is None or second.objective > best.objective):
            return best
        return self._unique(program, best)

    def _unique(self, program: IntegerProgram, best: Choice) -> Choice:
        """Among the optima the one with fewest instances, then with most of the first type."""
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
        """Instances that carry the most (or just the load) within limits, free resources and, if asked, the budget."""
        answer = self.chain.solve(most_load_program(self.model, within_budget))
        # Unless some are wanted, no instance at all is always allowed.
        return self.model.choice(answer if answer is not None else (0,) * (2 * len(self.model.types)))

    def alternatives(self, best: Choice) -> tuple[Choice, ...]:
        """Choices other than the best, the second best among them, by objective.

        A second best either holds fewer of some type than the best, or all of it and one instance more. Pools of one
        type alone are added for the reader.
        """
        other = self._other(best)
        found = set() if other is None else {other.counts}
        found.update(self.model.one_more(best))
        found.update(self.model.single_type())
        found.discard(best.counts)
        return tuple(sorted((self.model.choice(counts) for counts in found), key=lambda c: c.key))

    def next_step(self, problem: Problem, best: Choice) -> NextStep | None:
        """Cheapest plan that carries NOTICEABLE more than the best, whatever the budget; None: limits forbid it."""
        model = for_more(problem, best)
        answer = self.chain.solve(least_cost_program(model, within_budget=False))
        return None if answer is None else step_to(problem, model, best, model.choice(answer))

    def _other(self, best: Choice) -> Choice | None:
        """The best that holds fewer of some type; None if nothing else carries the load. Solved once per choice."""
        if best.counts not in self.others:
            answer = self.chain.solve(other_program(self.model, best))
            self.others[best.counts] = None if answer is None else self.model.choice(answer)
        return self.others[best.counts]

    def _resolve(
        self, program: IntegerProgram, rows: tuple[Row, ...], objective: tuple[int, ...], best: Choice
    ) -> Choice:
        """Among the optima so far, of which `best` is one, the one that minimises a further objective."""
        answer = self.chain.solve(IntegerProgram(objective, program.upper, rows), self.model.values(best))
        return best if answer is None else self.model.choice(answer)
