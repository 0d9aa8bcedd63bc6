"""What bounds a plan where no load or no budget does."""

from __future__ import annotations

from typing import Final

from hetserve.planning.flow.programs.classes import ClassTable
from hetserve.planning.problem import Problem, TypeOption

_IDLE: Final = 1e-5
"""Busy instances of the slowest type: a load at which hardly a query waits for another."""


def trickle(table: ClassTable) -> float:
    """Queries/s that stand for no load, or for any: what serves every batch in time holds them."""
    return _IDLE / table.slowest


def spendable(problem: Problem) -> int | None:
    """Micro-dollars/h that a plan can cost at most: the budget, or all that limits allow; None: they allow any."""
    if problem.budget is not None:
        return int(problem.budget)
    if unlimited(problem):
        return None
    return sum(option.price * (_most(problem, option) or 0) for option in problem.types)


def unlimited(problem: Problem) -> tuple[str, ...]:
    """Names of the types of which neither a limit, a pool nor a total bounds the instances, sorted."""
    return tuple(sorted(option.name for option in problem.types if _most(problem, option) is None))


def _most(problem: Problem, option: TypeOption) -> int | None:
    """The most instances of a type by its limit, its pool and the total; None: any number."""
    limits = [most for most in (problem.most_of(option), problem.most_total) if most is not None]
    return max(min(limits), option.min_instances) if limits else None
