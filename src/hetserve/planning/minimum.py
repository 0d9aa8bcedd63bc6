"""Instances that are wanted whatever the load: whether limits, free resources and the budget allow the least of them.

Asked before any planner, since each would otherwise say in its own way that it found nothing.
"""

from __future__ import annotations

from collections.abc import Iterator

from hetserve.api.conditions import Reason
from hetserve.planning.formatting import money_text
from hetserve.planning.problem import Pool, Problem, TypeOption


def unattainable(problem: Problem) -> tuple[Reason, str] | None:
    """Why no plan can hold the least instances wanted, or None; problem: one without an error."""
    return next(_reasons(problem), None)


def _reasons(problem: Problem) -> Iterator[tuple[Reason, str]]:
    wanted = [option for option in sorted(problem.types, key=lambda o: o.name) if option.min_instances]
    for option in wanted:
        if option.max_instances is not None and option.max_instances < option.min_instances:
            had = f"only {option.max_instances} can be had" if option.max_instances else "none can be had"
            yield Reason.CAPACITY_TOO_LOW, f"at least {_what(option)} are wanted, {had}"
    for pool in problem.pools:
        yield from _too_large(pool, [option for option in wanted if option.pool == pool.name])
    cost = sum(option.price * option.min_instances for option in wanted)
    if problem.budget is not None and cost > problem.budget:
        yield (
            Reason.BUDGET_TOO_LOW,
            f"the least instances wanted ({', '.join(map(_what, wanted))}) cost {money_text(cost)}, "
            f"{money_text(cost - problem.budget)} more than the budget of {money_text(problem.budget)}",
        )


def _too_large(pool: Pool, wanted: list[TypeOption]) -> Iterator[tuple[Reason, str]]:
    new = [(option.demand, max(option.min_instances - option.running, 0)) for option in wanted]
    for what, unit, asked, free in (
        ("CPU", "millicores", sum(d.cpu * n for d, n in new), pool.free.cpu),
        ("memory", "MiB", sum(d.memory * n for d, n in new), pool.free.memory),
        ("GPU memory", "MiB", sum(d.gpu_memory * n for d, n in new), pool.free.gpu_memory),
    ):
        if asked > max(free, 0):
            names = ", ".join(map(_what, wanted))
            message = f"the least instances wanted ({names}) take {asked} {unit} of {what} more, {free} are free"
            yield Reason.CAPACITY_TOO_LOW, message


def _what(option: TypeOption) -> str:
    return f"{option.min_instances}x{option.name}"
