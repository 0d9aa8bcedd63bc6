"""Kairos's base type: one that alone serves every batch of the mix within the SLO."""

from __future__ import annotations

from dataclasses import dataclass

from hetserve.api.conditions import Reason
from hetserve.planning.formatting import latency_text, money_text
from hetserve.planning.problem import Problem, TypeOption, TypeRefusal
from hetserve.planning.rates import throughput
from hetserve.planning.slo import no_type_meets_slo, serves_whole_mix, slo_miss, slo_refusals


@dataclass(frozen=True, slots=True)
class NoBase:
    reason: Reason
    message: str
    refusals: tuple[TypeRefusal, ...] = ()


def choose_base(problem: Problem, budget: int) -> TypeOption | NoBase:
    """Base type: the highest Q_b per dollar, ties by name; problem.base overrides.

    A type qualifies if its mean latency keeps the SLO at every batch, its limit allows an instance, and the budget buys
    one beside all min_instances.
    """
    capable = [option for option in problem.types if serves_whole_mix(option, problem)]
    if not capable:
        return NoBase(Reason.NO_TYPE_MEETS_SLO, no_type_meets_slo(problem), slo_refusals(problem))
    if problem.base is not None:
        return _overridden(problem, problem.base, capable, budget)
    offered = [option for option in capable if option.max_instances is None or option.max_instances >= 1]
    if not offered:
        names = ", ".join(sorted(option.name for option in capable))
        return NoBase(
            Reason.CAPACITY_TOO_LOW,
            f"no instance can be had of any type that serves every batch within {_limit(problem)}: {names} (0 allowed)",
        )
    affordable = [option for option in offered if entry_cost(problem, option) <= budget]
    if not affordable:
        cheapest = min(offered, key=lambda o: (entry_cost(problem, o), o.name))
        return NoBase(
            Reason.BUDGET_TOO_LOW,
            f"budget {money_text(budget)} buys no base instance{_beside(problem, cheapest)}: the cheapest type that "
            f"serves every batch within {_limit(problem)} is {cheapest.name} at {money_text(cheapest.price)}",
        )
    return min(affordable, key=lambda o: (-(throughput(o.profile, problem.mix) or 0.0) / o.price, o.name))


def entry_cost(problem: Problem, base: TypeOption) -> int:
    """Cost of all min_instances and one instance of the base."""
    wanted = sum(option.price * option.min_instances for option in problem.types)
    return wanted + (0 if base.min_instances else base.price)


def _beside(problem: Problem, base: TypeOption) -> str:
    wanted = entry_cost(problem, base) - base.price
    return f" beside the least instances wanted, {money_text(wanted)}" if wanted > 0 else ""


def _overridden(problem: Problem, name: str, capable: list[TypeOption], budget: int) -> TypeOption | NoBase:
    option = next((option for option in problem.types if option.name == name), None)
    able = ", ".join(sorted(o.name for o in capable))
    if option is None:
        known = ", ".join(sorted(o.name for o in problem.types))
        return NoBase(
            Reason.INSTANCE_TYPE_NOT_FOUND, f"base {name} is none of the service's instance types; there are: {known}"
        )
    if option not in capable:
        return NoBase(
            Reason.NO_TYPE_MEETS_SLO,
            f"{name} cannot be the base: {slo_miss(option, problem, None)}; types that can: {able}",
        )
    if option.max_instances == 0:
        return NoBase(Reason.CAPACITY_TOO_LOW, f"no instance can be had of {name}, the base that was asked for")
    if entry_cost(problem, option) > budget:
        return NoBase(
            Reason.BUDGET_TOO_LOW,
            f"budget {money_text(budget)} buys no base instance{_beside(problem, option)}: {name}, the base that was "
            f"asked for, costs {money_text(option.price)}",
        )
    return option


def _limit(problem: Problem) -> str:
    return latency_text(problem.slo.latency)
