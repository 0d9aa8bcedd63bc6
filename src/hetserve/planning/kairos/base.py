"""Kairos's base type: one that alone serves every batch of the mix within the SLO."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from hetserve.api.conditions import Reason
from hetserve.planning.formatting import latency_text, money_text
from hetserve.planning.plan import Plan, infeasible
from hetserve.planning.problem import Problem, TypeOption
from hetserve.planning.rates import throughput
from hetserve.planning.slo import no_type_meets_slo, serves_whole_mix, slo_miss, slo_refusals


def choose_base(problem: Problem, budget: int, planner: str) -> TypeOption | Plan:
    """Base type: the highest Q_b per dollar, ties by name; problem.base overrides. Or the planner's infeasible plan.

    A type qualifies if its mean latency keeps the SLO at every batch, its limit allows an instance, and the budget buys
    one beside all min_instances.
    """
    refuse = partial(infeasible, problem, planner)
    capable = [option for option in problem.types if serves_whole_mix(option, problem)]
    within = latency_text(problem.slo.latency)
    if not capable:
        return refuse(Reason.NO_TYPE_MEETS_SLO, no_type_meets_slo(problem), slo_refusals(problem))
    if problem.base is not None:
        return _overridden(problem, problem.base, capable, budget, planner)
    offered = [option for option in capable if option.most >= 1]
    if not offered:
        message = f"no instance can be had of any type that serves every batch within {within}: {_names(capable)}"
        return refuse(Reason.CAPACITY_TOO_LOW, f"{message} (0 allowed)")
    affordable = [option for option in offered if entry_cost(problem, option) <= budget]
    if not affordable:
        cheapest = min(offered, key=lambda o: (entry_cost(problem, o), o.name))
        message = (
            f"budget {money_text(budget)} buys no base instance{_beside(problem, cheapest)}: the cheapest type that "
            f"serves every batch within {within} is {cheapest.name} at {money_text(cheapest.price)}"
        )
        return refuse(Reason.BUDGET_TOO_LOW, message)
    return min(affordable, key=lambda o: (-(throughput(o.profile, problem.mix) or 0.0) / o.price, o.name))


def entry_cost(problem: Problem, base: TypeOption) -> int:
    wanted = sum(option.price * option.min_instances for option in problem.types)
    return wanted + (0 if base.min_instances else base.price)


def _beside(problem: Problem, base: TypeOption) -> str:
    wanted = entry_cost(problem, base) - base.price
    return f" beside the least instances wanted, {money_text(wanted)}" if wanted > 0 else ""


def _overridden(problem: Problem, name: str, capable: list[TypeOption], budget: int, planner: str) -> TypeOption | Plan:
    refuse = partial(infeasible, problem, planner)
    option = next((option for option in problem.types if option.name == name), None)
    if option is None:
        message = f"base {name} is none of the service's instance types; there are: {_names(problem.types)}"
        return refuse(Reason.INSTANCE_TYPE_NOT_FOUND, message)
    if option not in capable:
        message = f"{name} cannot be the base: {slo_miss(option, problem, None)}; types that can: {_names(capable)}"
        return refuse(Reason.NO_TYPE_MEETS_SLO, message)
    if option.max_instances == 0:
        return refuse(Reason.CAPACITY_TOO_LOW, f"no instance can be had of {name}, the base that was asked for")
    if entry_cost(problem, option) > budget:
        message = (
            f"budget {money_text(budget)} buys no base instance{_beside(problem, option)}: {name}, the base that was "
            f"asked for, costs {money_text(option.price)}"
        )
        return refuse(Reason.BUDGET_TOO_LOW, message)
    return option


def _names(options: Iterable[TypeOption]) -> str:
    return ", ".join(sorted(option.name for option in options))
