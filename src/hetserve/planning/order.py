"""One order of types to decide in, so that the choice among equals is the same in any order of the input."""

from __future__ import annotations

from dataclasses import replace

from hetserve.planning.plan import Candidate, Counts, Plan
from hetserve.planning.problem import Problem


def by_name(problem: Problem) -> Problem:
    """The same problem with its types by name."""
    return replace(problem, types=tuple(sorted(problem.types, key=lambda option: option.name)))


def in_order_of(problem: Problem, plan: Plan) -> Plan:
    """A plan of the same types with all its counts in the problem's order of types."""
    names = [option.name for option in problem.types]

    def counts(old: Counts) -> Counts:
        held = dict(old)
        return tuple((name, held[name]) for name in names)

    def candidate(old: Candidate) -> Candidate:
        return replace(old, counts=counts(old.counts))

    second, step = plan.runner_up, plan.next_step
    return replace(
        plan,
        counts=counts(plan.counts),
        runner_up=None if second is None else candidate(second),
        ranking=tuple(candidate(entry) for entry in plan.ranking),
        evaluated=tuple(replace(one, candidate=candidate(one.candidate)) for one in plan.evaluated),
        next_step=None if step is None else replace(step, counts=counts(step.counts)),
    )
