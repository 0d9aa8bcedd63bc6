"""Explains HetSev's choice as a Plan."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

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
from hetserve.planning.mincost.milp import TOLERANCE
from hetserve.planning.mincost.model import CostChoice, CostModel
from hetserve.planning.plan import NextStep, Plan, RankedConfiguration, StepSearch, infeasible, summary
from hetserve.planning.problem import Problem, TypeRefusal
from hetserve.planning.slo import slo_refusals

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
