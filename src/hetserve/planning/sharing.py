"""What sharing GPUs costs and saves a service, said beside its plan and never part of the choice."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Final

from hetserve.api.conditions import Reason
from hetserve.base.units import QPS, format_ratio
from hetserve.planning.formatting import money_text, qps_text
from hetserve.planning.plan import Plan, RankedConfiguration, SharingComparison, summary
from hetserve.planning.problem import Problem, TypeOption
from hetserve.planning.tenancy import Tenancy
from hetserve.registry.planners import PLANNERS

_MOST_NOTES: Final = 4
_ASKED: Final = (
    Reason.PLAN_FEASIBLE,
    Reason.NO_TYPE_MEETS_SLO,
    Reason.BUDGET_TOO_LOW,
    Reason.CAPACITY_TOO_LOW,
)
"""Outcomes of which it is worth to know what they are without sharing."""
Decide = Callable[[Problem, str], Plan]
"""Plans by a planner of that name, which tries nothing."""


def with_sharing(problem: Problem, made: Plan, decide: Decide) -> Plan:
    """The plan, and what its verdict says of sharing: both sides, then the types that share nothing and why.

    The counts are left as they are. An infeasible plan names what would be feasible with whole GPUs.
    """
    if made.reason not in _ASKED:
        return made
    found = compare_sharing(problem, made, decide)
    if made.feasible:
        said = [] if found is None else [comparison_text(found, is_cost=_is_cost(made, problem))]
        said += shared_notes(problem, made)
        return replace(made, sharing=found, verdict="; ".join([made.verdict, *said, *alone_notes(problem)]))
    more = "".join(f"; {text}" for text in (*_remedy(found), *alone_notes(problem)))
    return replace(made, sharing=found, message=made.message + more, verdict=made.verdict + more)


def compare_sharing(problem: Problem, made: Plan, decide: Decide) -> SharingComparison | None:
    """Both sides, of a cluster with room for both; None where no type shares.

    By the plan's own planner, or, where that one tries its plans, by the flow program alone.
    """
    if not problem.unshared:
        return None
    member = PLANNERS[made.planner]
    fluid = member.tries or member.evaluates
    anywhere = replace(problem, pools=(), unshared=())
    exclusive = replace(anywhere, types=problem.unshared)
    shared = replace(anywhere, types=tuple(map(_anywhere, problem.types, problem.unshared)))
    if fluid:
        from hetserve.planning.flow.planner import fluid_answer  # noqa: PLC0415

        return SharingComparison("flow", fluid_answer(exclusive), fluid_answer(shared))
    known = made if shared == replace(problem, unshared=()) else decide(shared, made.planner)
    return SharingComparison(made.planner, _side(decide(exclusive, made.planner)), _side(known))


def _anywhere(option: TypeOption, declared: TypeOption) -> TypeOption:
    """The type without facts of the cluster, which its unshared form does not have either."""
    return replace(option, max_instances=declared.max_instances, running=declared.running, pool=declared.pool)


def _side(plan: Plan) -> RankedConfiguration | None:
    return RankedConfiguration(plan.counts, plan.cost, plan.qps or QPS(0.0)) if plan.feasible else None


def _is_cost(made: Plan, problem: Problem) -> bool:
    return made.bound_qps is None and problem.objective == "MinCost" and problem.load is not None


def comparison_text(found: SharingComparison, *, is_cost: bool) -> str:
    """``sharing saves 1.5 $/h: exclusive 5xv100, 3.1 $/h; shared 9xv100, 1.6 $/h``.

    is_cost: of the least cost of a load; else both spend the budget, and their rates count.
    """

    def side(name: str, one: RankedConfiguration | None) -> str:
        if one is None:
            return f"{name} none"
        rate = "" if is_cost else f"{qps_text(one.qps)} for "
        return f"{name} {summary(one.counts)}, {rate}{money_text(one.cost)}"

    sides = f"{side('exclusive', found.exclusive)}; {side('shared', found.shared)}"
    fluid = " (both as if no query waited)" if found.planner == "flow" else ""
    return f"{_gain(found, is_cost=is_cost)}: {sides}{fluid}"


def _gain(found: SharingComparison, *, is_cost: bool) -> str:
    if found.exclusive is None or found.shared is None:
        return "sharing decides whether there is a plan"
    more, less = ("costs", "saves") if is_cost else ("gains", "loses")
    difference = found.shared.cost - found.exclusive.cost if is_cost else found.shared.qps - found.exclusive.qps
    shown = money_text(abs(int(difference))) if is_cost else qps_text(abs(difference))
    if not difference or shown == qps_text(0.0):
        return "sharing saves nothing" if is_cost else "sharing gains nothing"
    return f"sharing {more if difference > 0 else less} {shown}"


def _remedy(found: SharingComparison | None) -> tuple[str, ...]:
    """For a plan that is not feasible because service times are planned as long as sharing may make them."""
    if found is None or found.shared is not None or found.exclusive is None:
        return ()
    side = f"{summary(found.exclusive.counts)}, {money_text(found.exclusive.cost)}"
    return (f"with a GPU for each instance there is a plan ({side}): set spec.sharing to Exclusive",)


def shared_notes(problem: Problem, made: Plan) -> list[str]:
    """What an instance of each type that shares pays of a GPU, and what the service tolerates of its own.

    Whole GPUs depend on the neighbours: `hetserve simulate --together` counts them.
    """
    whole, counts, own = {o.name: o.price for o in problem.unshared}, dict(made.counts), dict(made.tolerances)
    notes = []
    for option in problem.types:
        if option.shares and counts[option.name]:
            share = Fraction(option.price, whole[option.name])
            note = f"{option.name} pays {math.ceil(100 * share) / 100:.2f} of a GPU each"
            if option.name in own:
                widest = format_ratio(own[option.name])
                note += f", and takes at most {widest} times its time alone: so one still carries the load"
            notes.append(note)
    return notes


def alone_notes(problem: Problem) -> tuple[str, ...]:
    """Which types of a service that may share do not, and why; types of one reason together."""
    groups: dict[tuple[Tenancy, str], list[str]] = {}
    for option in sorted(problem.types, key=lambda one: one.name):
        if option.gpu is not None and option.gpu.why:
            groups.setdefault((option.gpu.tenancy, option.gpu.why), []).append(option.name)
    notes = [f"{', '.join(names)}: {_tenancy_text(*key)}" for key, names in groups.items()]
    left = len(notes) - _MOST_NOTES
    return (*notes[:_MOST_NOTES], *([f"{left} more share no GPU"] if left > 0 else []))


def _tenancy_text(tenancy: Tenancy, why: str) -> str:
    if tenancy is Tenancy.SHARED:
        return f"its instances keep the booking of their plan: {why}"
    if tenancy is Tenancy.UNDECLARED:
        return f"its pods share GPUs without a booking, and nothing is promised beside others: {why}"
    return f"planned with a GPU of its own: {why}"
