"""HetSev's integer program: the least cost that carries the load within the SLO (Electronics 2023, section 4.1).

    minimise sum C_i (X_i + lambda O_i max(X_i, 0))     subject to
    (1) sum T_i (N_i + X_i) >= W / threshold   (2) new instances fit what is free   (3) N_i + X_i >= 0   (4) L_i <= S

Variables here are y_i = N_i + X_i and a_i >= y_i - N_i, the new instances. The objective is integer: launching one
instance costs C_i lambda O_i, rounded once to micro-dollars. Ties: fewest instances, then most of the first type by
name, so that plans do not flap between equals.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from hetserve.api.conditions import Reason
from hetserve.base.units import QPS, MicroDollarsPerHour
from hetserve.planning.formatting import (
    difference_text,
    latency_text,
    money_text,
    qps_text,
    share_text,
    step_text,
    total_text,
)
from hetserve.planning.mincost.milp import SOLVERS, TOLERANCE, Chain, Constraint, IntegerProgram, Solver
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
from hetserve.planning.plan import Evaluator, NextStep, Plan, RankedConfiguration, StepSearch, infeasible, summary
from hetserve.planning.problem import Problem, TypeRefusal
from hetserve.planning.slo import no_type_meets_slo, remedies_text, slo_refusals

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
        free = LeastCostSearch(model.without_budget.without_launches, search.chain)
        return too_little(model, free.most_load(), search.most_load(), free.least_cost())
    carries = None
    if problem.budget is not None:
        carries = LeastCostSearch(for_budget(model), search.chain).most_load().capacity
    others, proof = search.alternatives(best), f"least cost {search.chain.proof}"
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
            remedies = remedies_text(problem, problem.slo.percentile, only=option.name)
            message = f"at least {option.min_instances} of {option.name} are wanted, but {miss}{remedies}"
            return refused(model, Reason.NO_TYPE_MEETS_SLO, message)
    return model


def _most_for_the_budget(search: LeastCostSearch) -> Plan:
    """Plan without a load: the most that the budget buys, ties to the cheapest."""
    most = search.most_load()
    if most.capacity <= 0:
        return nothing_for_the_budget(search.model)
    exact = replace(search.model, needed=QPS(most.capacity))
    best = LeastCostSearch(exact, search.chain).least_cost() or most
    proof = f"the most for the budget, {search.chain.proof}"
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


_TOP = 10
_ALLOW = "limits and free resources allow"


def explain(
    model: CostModel,
    best: CostChoice,
    others: Sequence[CostChoice],
    proof: str,
    step: StepSearch | None,
    *,
    carries: QPS | None = None,
) -> Plan:
    """Feasible plan of the best choice.

    others: by objective. proof: why it is the best. step: None: not asked for. carries: most load for the budget.
    """
    ranking, problem = tuple(_candidate(model, choice) for choice in (best, *others)[:_TOP]), model.problem
    counts, next_ = ranking[0].counts, None if step is None else step.step
    said = [] if step is None else [step_text(next_)]
    return Plan(
        reason=Reason.PLAN_FEASIBLE,
        message=f"{summary(counts)} for {money_text(best.cost)}, capacity {qps_text(best.capacity)}",
        planner=model.planner,
        counts=counts,
        cost=ranking[0].cost,
        capacity_qps=best.capacity,
        why_not_runner_up=_why_not(best, others[0]) if others else "",
        ranking=ranking,
        refusals=problem.left_out + unusable(model) + _unused(model, best),
        verdict="; ".join([*_verdict(model, best), proof, *_money(problem, carries), *said]),
        next_step=next_,
    )


def step_to(model: CostModel, best: CostChoice, richer: CostChoice | None) -> StepSearch:
    """model: of the richer choice, if there is one."""
    if richer is None:
        return StepSearch(None)
    extra, gain = MicroDollarsPerHour(richer.cost - best.cost), QPS(richer.capacity - best.capacity)
    counts, cost = model.counts_of(richer), MicroDollarsPerHour(richer.cost)
    return StepSearch(NextStep(extra, gain, counts, cost, figure="capacity"))


def unusable(model: CostModel) -> tuple[TypeRefusal, ...]:
    """Types that miss the SLO at its percentile, and by how much (constraint 4)."""
    usable = {option.name for option in model.types}
    missing = slo_refusals(model.problem, model.problem.slo.percentile)
    return tuple(one for one in missing if one.subject not in usable)


def refused(model: CostModel, reason: Reason, message: str) -> Plan:
    """Infeasible plan, which names the types that miss the SLO."""
    return infeasible(model.problem, model.planner, reason, message, unusable(model))


def nothing_for_the_budget(model: CostModel) -> Plan:
    cheapest, budget = min(model.types, key=lambda option: (option.price, option.name)), model.problem.budget
    if budget is not None and cheapest.price > budget:
        message = (
            f"budget {money_text(budget)} buys no instance that keeps the SLO: the cheapest is {cheapest.name} at "
            f"{money_text(cheapest.price)}"
        )
        return refused(model, Reason.BUDGET_TOO_LOW, message)
    message = "limits and free resources allow no instance that keeps the SLO within the budget"
    return refused(model, Reason.CAPACITY_TOO_LOW, message)


def too_little(
    model: CostModel, most: CostChoice, affordable: CostChoice, cheapest: CostChoice | None, heuristic: str = ""
) -> Plan:
    """Infeasible plan: limits or the budget do not allow the load.

    most: most load within limits and free resources. affordable: within the budget as well. cheapest: least cost
    without the budget. heuristic: what found these; empty if proven. Raises ArithmeticError if they contradict each
    other.
    """
    reason, budget = Reason.CAPACITY_TOO_LOW, model.problem.budget
    if sum(most.counts) < model.problem.least_total:
        why = _too_few(model, heuristic)
    elif most.capacity < model.needed * (1 - float(TOLERANCE)):
        why = _carries_too_little(model, most, heuristic)
    elif cheapest is None or budget is None or cheapest.cost <= budget:
        raise ArithmeticError(f"{_held(model, most)} carries the load, but the solvers find no plan")
    else:
        reason, why = Reason.BUDGET_TOO_LOW, _too_dear(model, affordable, cheapest, budget, heuristic)
    return refused(model, reason, f"{_need(model)}; {why}")


def _too_few(model: CostModel, heuristic: str) -> str:
    allow = f"{heuristic} finds within limits and free resources" if heuristic else "limits and free resources allow"
    return f"{allow} no mix of {total_text(model.problem.least_total, None)}"


def _carries_too_little(model: CostModel, most: CostChoice, heuristic: str) -> str:
    held, carried = _held(model, most), qps_text(most.capacity)
    short = f"{qps_text(model.needed - most.capacity)} too little"
    if model.room_for(most.counts) <= 0:
        best = f"the best that {heuristic} finds" if heuristic else "the best"
        return f"{total_text(0, model.problem.most_total)} are allowed, {best} ({held}) carry {carried}, {short}"
    allow = f"the most that {heuristic} finds within limits and free resources"
    who = allow if heuristic else f"every instance that {_ALLOW}"
    return f"{who} ({held}) carries {carried}, {short}"


def _too_dear(
    model: CostModel, affordable: CostChoice, cheapest: CostChoice, budget: MicroDollarsPerHour, heuristic: str
) -> str:
    shown = money_text(budget)
    buys = f"with budget {shown} {heuristic} buys" if heuristic else f"budget {shown} buys at most"
    found = f"the plan that {heuristic} finds" if heuristic else "the cheapest plan"
    return (
        f"{buys} {qps_text(affordable.capacity)} ({_held(model, affordable)}); {found} that carries "
        f"the load costs {money_text(cheapest.cost)} ({_held(model, cheapest)}), "
        f"{money_text(cheapest.cost - budget)} more"
    )


def _need(model: CostModel) -> str:
    problem = model.problem
    load = qps_text(problem.load or 0.0)
    if problem.saturation_threshold == 1:
        return f"a load of {load} must be carried"
    return f"a load of {load} needs {qps_text(model.needed)} at {share_text(problem.saturation_threshold)} saturation"


def _held(model: CostModel, choice: CostChoice) -> str:
    return summary(model.counts_of(choice))


def _candidate(model: CostModel, choice: CostChoice) -> RankedConfiguration:
    return RankedConfiguration(model.counts_of(choice), MicroDollarsPerHour(choice.cost), choice.capacity)


def _why_not(best: CostChoice, other: CostChoice) -> str:
    difference = difference_text(other.capacity - best.capacity, other.cost - best.cost, "capacity")
    if other.objective == best.objective and other.cost == best.cost:
        fewer = sum(best.counts) < sum(other.counts)
        return f"{difference}; {'fewer instances' if fewer else 'the order of the types'} decided"
    launching = (other.objective - other.cost) - (best.objective - best.cost)
    if launching > 0:
        return f"{difference}, and launching new instances weighs {money_text(launching)} more"
    return difference


def _unused(model: CostModel, best: CostChoice) -> tuple[TypeRefusal, ...]:
    per_qps = [option.price / rate for option, rate in zip(model.types, model.rates, strict=True)]
    dearest = max(value for value, count in zip(per_qps, best.counts, strict=True) if count)
    return tuple(
        TypeRefusal(option.name, _why_unused(value, dearest, upper))
        for option, value, count, upper in zip(model.types, per_qps, best.counts, model.upper, strict=True)
        if not count
    )


def _why_unused(per_qps: float, dearest: float, upper: int) -> str:
    if upper == 0:
        return "keeps the SLO, but no instance of it is allowed or free"
    if per_qps > dearest:
        return f"keeps the SLO, but costs {_per_qps(per_qps)} against {_per_qps(dearest)} of the dearest type chosen"
    return f"keeps the SLO at {_per_qps(per_qps)}, but whole instances of it cost more at this load"


def _per_qps(micro: float) -> str:
    return f"{micro / 1e6:.4g} $/h per q/s"


def _verdict(model: CostModel, best: CostChoice) -> list[str]:
    slo, load = model.problem.slo, model.problem.load
    changes = [
        f"{count - option.running:+d} {option.name}"
        for option, count in zip(model.types, best.counts, strict=True)
        if count != option.running
    ]
    used = (
        "no load is known"
        if load is None
        else f"the load of {qps_text(load)} uses {share_text(load / best.capacity)} of it, at most "
        f"{share_text(model.problem.saturation_threshold)} is wanted"
    )
    return [
        f"carries {qps_text(best.capacity)} within {latency_text(slo.latency)} (p{slo.percentile:.10g})",
        used,
        f"change: {', '.join(changes) or 'none'}",
    ]


def _money(problem: Problem, carries: QPS | None) -> Iterator[str]:
    if carries is not None and problem.budget is not None:
        usable = carries * problem.saturation_threshold
        yield (
            f"the budget of {money_text(problem.budget)} carries a load of {qps_text(usable)} at most "
            f"({qps_text(carries)} at full saturation)"
        )
