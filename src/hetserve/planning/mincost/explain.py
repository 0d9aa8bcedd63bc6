"""Explains HetSev's choice as a Plan."""

from __future__ import annotations

from collections.abc import Iterator

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
from hetserve.planning.mincost.model import Choice, CostModel
from hetserve.planning.plan import Counts, NextStep, Plan, RankedConfiguration, infeasible, summary
from hetserve.planning.problem import Problem, TypeRefusal
from hetserve.planning.slo import slo_miss

_TOP = 10
_ALLOW = "limits and free resources allow"


def explain(
    problem: Problem,
    model: CostModel,
    best: Choice,
    others: tuple[Choice, ...],
    proof: str,
    *,
    planner: str,
    step: NextStep | None = None,
    asked: bool = False,
    carries: QPS | None = None,
) -> Plan:
    """Feasible plan of the best choice.

    others: by objective. proof: why it is the best. step: if `asked`. carries: most load for the budget.
    """
    counts = all_counts(problem, model, best)
    runner_up = others[0] if others else None
    return Plan(
        feasible=True,
        reason=Reason.PLAN_FEASIBLE,
        message=f"{summary(counts)} for {money_text(best.cost)}, capacity {qps_text(best.capacity)}",
        planner=planner,
        counts=counts,
        cost=MicroDollarsPerHour(best.cost),
        capacity_qps=best.capacity,
        runner_up=None if runner_up is None else _candidate(problem, model, runner_up),
        why_not_runner_up="" if runner_up is None else _why_not(best, runner_up),
        ranking=tuple(_candidate(problem, model, choice) for choice in (best, *others)[:_TOP]),
        refusals=problem.left_out + unusable(problem, model) + _unused(model, best),
        verdict="; ".join(
            [*_verdict(problem, model, best), proof, *_money(problem, carries), *([step_text(step)] if asked else [])]
        ),
        next_step=step,
    )


def all_counts(problem: Problem, model: CostModel, choice: Choice) -> Counts:
    held = {option.name: count for option, count in zip(model.types, choice.counts, strict=True)}
    return tuple((option.name, held.get(option.name, 0)) for option in problem.types)


def step_to(problem: Problem, model: CostModel, best: Choice, richer: Choice) -> NextStep:
    extra, gain = MicroDollarsPerHour(richer.cost - best.cost), QPS(richer.capacity - best.capacity)
    counts, cost = all_counts(problem, model, richer), MicroDollarsPerHour(richer.cost)
    return NextStep(extra, gain, counts, cost, figure="capacity")


def unusable(problem: Problem, model: CostModel) -> tuple[TypeRefusal, ...]:
    """Types that miss the SLO at its percentile, and by how much (constraint 4)."""
    usable = {option.name for option in model.types}
    return tuple(
        TypeRefusal(option.name, slo_miss(option, problem, problem.slo.percentile))
        for option in sorted(problem.types, key=lambda o: o.name)
        if option.name not in usable
    )


def nothing_for_the_budget(problem: Problem, model: CostModel, planner: str) -> Plan:
    cheapest = min(model.types, key=lambda option: (option.price, option.name))
    if problem.budget is not None and cheapest.price > problem.budget:
        message = (
            f"budget {money_text(problem.budget)} buys no instance that keeps the SLO: the cheapest is {cheapest.name} "
            f"at {money_text(cheapest.price)}"
        )
        return infeasible(problem, planner, Reason.BUDGET_TOO_LOW, message, unusable(problem, model))
    message = "limits and free resources allow no instance that keeps the SLO within the budget"
    return infeasible(problem, planner, Reason.CAPACITY_TOO_LOW, message, unusable(problem, model))


def too_little(
    problem: Problem,
    model: CostModel,
    most: Choice,
    affordable: Choice,
    cheapest: Choice | None,
    *,
    planner: str,
    heuristic: str = "",
) -> Plan:
    """Infeasible plan: limits or the budget do not allow the load.

    most: most load within limits and free resources. affordable: within the budget as well. cheapest: least cost
    without the budget. heuristic: what found these; empty if proven. Raises ArithmeticError if they contradict each
    other.
    """
    reason = Reason.CAPACITY_TOO_LOW
    if sum(most.counts) < model.least_total:
        why = _too_few(model, heuristic)
    elif most.capacity < model.needed * (1 - float(TOLERANCE)):
        why = _carries_too_little(problem, model, most, heuristic)
    elif cheapest is None or problem.budget is None or cheapest.cost <= problem.budget:
        raise ArithmeticError(f"{_held(problem, model, most)} carries the load, but the solvers find no plan")
    else:
        reason = Reason.BUDGET_TOO_LOW
        why = _too_dear(problem, model, affordable, cheapest, budget=problem.budget, heuristic=heuristic)
    return infeasible(problem, planner, reason, f"{_need(problem, model)}; {why}", unusable(problem, model))


def _too_few(model: CostModel, heuristic: str) -> str:
    allow = f"{heuristic} finds within limits and free resources" if heuristic else "limits and free resources allow"
    return f"{allow} no mix of {total_text(model.least_total, None)}"


def _carries_too_little(problem: Problem, model: CostModel, most: Choice, heuristic: str) -> str:
    held, carried = _held(problem, model, most), qps_text(most.capacity)
    short = f"{qps_text(model.needed - most.capacity)} too little"
    if model.room_for(most.counts) <= 0:
        best = f"the best that {heuristic} finds" if heuristic else "the best"
        return f"{total_text(0, model.most_total)} are allowed, {best} ({held}) carry {carried}, {short}"
    allow = f"the most that {heuristic} finds within limits and free resources"
    who = allow if heuristic else f"every instance that {_ALLOW}"
    return f"{who} ({held}) carries {carried}, {short}"


def _too_dear(
    problem: Problem,
    model: CostModel,
    affordable: Choice,
    cheapest: Choice,
    *,
    budget: MicroDollarsPerHour,
    heuristic: str,
) -> str:
    shown = money_text(budget)
    buys = f"with budget {shown} {heuristic} buys" if heuristic else f"budget {shown} buys at most"
    found = f"the plan that {heuristic} finds" if heuristic else "the cheapest plan"
    return (
        f"{buys} {qps_text(affordable.capacity)} ({_held(problem, model, affordable)}); {found} that carries "
        f"the load costs {money_text(cheapest.cost)} ({_held(problem, model, cheapest)}), "
        f"{money_text(cheapest.cost - budget)} more"
    )


def _need(problem: Problem, model: CostModel) -> str:
    load = qps_text(problem.load or 0.0)
    if problem.saturation_threshold == 1:
        return f"a load of {load} must be carried"
    return f"a load of {load} needs {qps_text(model.needed)} at {share_text(problem.saturation_threshold)} saturation"


def _held(problem: Problem, model: CostModel, choice: Choice) -> str:
    return summary(all_counts(problem, model, choice))


def _candidate(problem: Problem, model: CostModel, choice: Choice) -> RankedConfiguration:
    return RankedConfiguration(all_counts(problem, model, choice), MicroDollarsPerHour(choice.cost), choice.capacity)


def _why_not(best: Choice, other: Choice) -> str:
    difference = difference_text(other.capacity - best.capacity, other.cost - best.cost, "capacity")
    if other.objective == best.objective and other.cost == best.cost:
        fewer = sum(best.counts) < sum(other.counts)
        return f"{difference}; {'fewer instances' if fewer else 'the order of the types'} decided"
    launching = (other.objective - other.cost) - (best.objective - best.cost)
    if launching > 0:
        return f"{difference}, and launching new instances weighs {money_text(launching)} more"
    return difference


def _unused(model: CostModel, best: Choice) -> tuple[TypeRefusal, ...]:
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


def _verdict(problem: Problem, model: CostModel, best: Choice) -> list[str]:
    slo, load = problem.slo, problem.load
    changes = [
        f"{count - option.running:+d} {option.name}"
        for option, count in zip(model.types, best.counts, strict=True)
        if count != option.running
    ]
    used = (
        "no load is known"
        if load is None
        else f"the load of {qps_text(load)} uses {share_text(load / best.capacity)} of it, at most "
        f"{share_text(problem.saturation_threshold)} is wanted"
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
