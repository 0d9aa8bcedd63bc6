"""What limits allow, and why no plan is possible, with the figure that would make one."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Final

import numpy as np

from hetserve.api.conditions import Reason
from hetserve.base.units import MicroDollarsPerHour
from hetserve.planning.flow.programs.classes import ClassTable, Floats
from hetserve.planning.flow.programs.program import CEILING, least_cost, least_late, most_load
from hetserve.planning.formatting import batches_text, latency_text, money_text, qps_text, total_text
from hetserve.planning.plan import Plan, infeasible, summary
from hetserve.planning.problem import Problem, TypeOption
from hetserve.planning.slo import misses_text, sharing_remedies

NAME: Final = "flow"
_OFTEN: Final = 0.5


def spendable(problem: Problem) -> int | None:
    """Micro-dollars/h that a plan can cost at most: the budget, or all that limits allow; None: they allow any."""
    if problem.budget is not None:
        return int(problem.budget)
    if unlimited(problem):
        return None
    return sum(option.price * (_limit(problem, option) or 0) for option in problem.types)


def unlimited(problem: Problem) -> tuple[str, ...]:
    """Names of the types of which neither a limit, a pool nor a total bounds the instances, sorted."""
    return tuple(sorted(option.name for option in problem.types if _limit(problem, option) is None))


def _limit(problem: Problem, option: TypeOption) -> int | None:
    """The most instances of a type by its limit, its pool and the total; None: any number."""
    limits = [most for most in (problem.most_of(option), problem.most_total) if most is not None]
    return max(min(limits), option.min_instances) if limits else None


def no_budget(problem: Problem) -> Plan:
    if problem.objective == "MinCost":
        message = "the least cost is planned for a load, and none is known: set spec.load.expectedQPS"
        return infeasible(problem, NAME, Reason.LOAD_UNKNOWN, message)
    message = "the most throughput is planned for a budget, and the service has none: set spec.budget.hourly"
    return infeasible(problem, NAME, Reason.SPEC_INVALID, message)


def no_end(problem: Problem) -> Plan:
    """Infeasible: the most of all instances that limits allow, and nothing limits them."""
    message = (
        f"the most load is asked for, and neither a budget nor a limit bounds the instances of "
        f"{', '.join(unlimited(problem))}: set spec.budget.hourly, spec.scaling.maxInstances, or maxInstances of these "
        "InstanceTypes"
    )
    return infeasible(problem, NAME, Reason.SPEC_INVALID, message)


def nothing_serves(table: ClassTable) -> Plan | None:
    """Infeasible if too many queries are late on every type, or some class is served by none.

    It names their batches, and how each type misses.
    """
    problem, late = table.problem, least_late(table)
    if _few_enough(table, late) and np.isfinite(table.means).any(axis=0).all():
        return None
    worst = np.flatnonzero(late >= max(_OFTEN * late.max(), table.allowed))
    batches = batches_text(table.first[worst[0]], table.last[worst[-1]])
    within = f"{latency_text(problem.slo.latency)} (p{problem.slo.percentile:.10g})"
    each = misses_text(problem, problem.slo.percentile)
    message = f"no type serves {batches} within {within}: {each}; {_remedies(problem)}"
    return infeasible(problem, NAME, Reason.NO_TYPE_MEETS_SLO, message)


def _remedies(problem: Problem) -> str:
    """What helps types that are too slow, and those whose profile ends below the largest batch."""
    largest = max(problem.mix.batches)
    ends = [option.profile.max_batch is not None and option.profile.max_batch < largest for option in problem.types]
    shared = sharing_remedies(problem, problem.slo.percentile)
    slow = [] if all(ends) else [*shared, "raise spec.slo.latency", "lower spec.slo.percentile"]
    short = ["profile larger batches (maxBatch, or the table, of a ModelProfile)"] if any(ends) else []
    return f"{', '.join(slow + short)} or add a {'faster type' if slow else 'type that serves them'}"


def _few_enough(table: ClassTable, late: Floats) -> bool:
    """late: [class], share of its queries."""
    return float((late * table.shares).sum()) <= table.allowed * (1 + 1e-9)


def too_little(table: ClassTable, load: float | None, budget: int | None) -> Plan:
    """Infeasible: limits or the budget allow no mix that serves the load (None: any load).

    The cost that it names is one below which no plan is: of money alone, by a table that no mix beats.
    """
    problem = table.problem
    whole = load is None or not problem.load
    wanted = "serve the whole mix within the SLO" if whole else f"carry {qps_text(load or 0)}"
    least = load or table.trickle
    cheapest = least_cost(table.upper.without_launches, CEILING, least)
    if cheapest is None:
        return infeasible(problem, NAME, Reason.CAPACITY_TOO_LOW, _beyond_limits(table, wanted, least, whole))
    cost = min(table.cost(cheapest.counts), math.ceil(cheapest.objective_bound))
    most = "" if whole else _most(table, budget)
    total = f" with {total_text(problem.least_total, None)}" if problem.least_total else ""
    message = (
        f"budget {money_text(budget or 0)} buys no mix{total} that could {wanted}{most}: the cheapest that could costs "
        f"at least {money_text(cost)} ({summary(table.counts(cheapest.counts))})"
    )
    return infeasible(problem, NAME, Reason.BUDGET_TOO_LOW, message)


def _beyond_limits(table: ClassTable, wanted: str, load: float, whole: bool) -> str:
    """In words: no mix within the limits carries a load [queries/s], whatever it costs. whole: any load would do."""
    problem = table.problem
    anything = replace(table, problem=replace(problem, least_total=0, most_total=None))
    fewest = least_cost(_alike(anything), CEILING, load) if problem.bounds_total else None
    if fewest is None:
        most = "" if whole else _most(table, None)
        return f"limits and free resources allow no mix that could {wanted}{most}{_out_of_reach(table)}"
    needed = sum(fewest.counts)
    if problem.most_total is None or needed <= problem.most_total:
        return f"limits and free resources allow no mix of {total_text(problem.least_total, None)} that could {wanted}"
    mix = most_load(table, CEILING)
    carry = "" if mix is None else f", which carry {qps_text(mix.rate)} at most ({summary(table.counts(mix.counts))})"
    need = "serving the whole mix takes" if whole else f"the load needs {qps_text(load)}, which takes"
    raised = f"raise spec.scaling.maxInstances to {needed} or more, or allow larger types"
    return f"{total_text(0, problem.most_total)} are allowed{carry}; {need} at least {needed}: {raised}"


def _alike(table: ClassTable) -> ClassTable:
    """The same table where every type costs the same: the cheapest mix has the fewest instances."""
    types = tuple(replace(option, price=MicroDollarsPerHour(1)) for option in table.types)
    return replace(table, problem=replace(table.problem, launch_weight=0.0), types=types)


def _most(table: ClassTable, budget: int | None) -> str:
    mix = most_load(table, CEILING, budget=budget)
    return "" if mix is None else f" (at most {qps_text(mix.rate)}, {summary(table.counts(mix.counts))})"


def _out_of_reach(table: ClassTable) -> str:
    """The batches that only types serve of which no instance can be had, and these types; empty if there are none."""
    there = np.array([option.most > 0 for option in table.types])
    served = np.where(np.isfinite(table.means), table.misses(table.problem.slo.latency), 1.0)
    late = served[there].min(axis=0, initial=1.0)
    if _few_enough(table, late):
        return ""
    better = served < late
    classes = np.flatnonzero(better.any(axis=0))
    batches = batches_text(table.first[classes[0]], table.last[classes[-1]])
    names = sorted(option.name for option, one in zip(table.types, better.any(axis=1), strict=True) if one)
    return f": only {' or '.join(names)} could serve {batches} within the SLO, and none can be had"


def no_load_carried(table: ClassTable, tried: int, load: float | None) -> Plan:
    """Infeasible: every mix that was tried broke the SLO. tried: in simulation; of 0, theory speaks."""
    rate = "at any rate" if load is None else f"at {qps_text(load)}"
    problem, nothing = table.problem, f"none of the {tried} mixes tried" if tried > 1 else "no mix tried"
    rate = rate if load is None or problem.load else "at the least load"
    by, nothing = ("in simulation", nothing) if tried else ("by queueing theory", "no mix that the program found")
    within = "" if problem.budget is None else f" within {money_text(problem.budget)}"
    if problem.most_total is not None:
        within += f" with {total_text(0, problem.most_total)}"
    message = (
        f"{nothing}{within} keeps {latency_text(problem.slo.latency)} for "
        f"{problem.slo.percentile:.10g} % of the queries {rate} {by}: the latencies vary too much, or "
        "the load leaves no time to wait"
    )
    limit = Reason.CAPACITY_TOO_LOW if problem.budget is None else Reason.BUDGET_TOO_LOW
    return infeasible(problem, NAME, Reason.NO_TYPE_MEETS_SLO if load is None else limit, message)
