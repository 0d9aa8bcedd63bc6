"""Instances by type: sums, costs and comparisons."""

from __future__ import annotations

from collections.abc import Mapping

from hetserve.base.units import MicroDollarsPerHour
from hetserve.planning.plan import Counts
from hetserve.planning.problem import Problem


def in_order(counts: Counts | Mapping[str, int], problem: Problem) -> Counts:
    """Counts of the problem's types in its order; other types are left out."""
    held = dict(counts)
    return tuple((option.name, held.get(option.name, 0)) for option in problem.types)


def nonzero(counts: Counts) -> Counts:
    """Without types that have no instances."""
    return tuple((name, n) for name, n in counts if n > 0)


def total(counts: Counts) -> int:
    return sum(n for _, n in counts)


def cost_of(counts: Counts, problem: Problem) -> MicroDollarsPerHour:
    """Micro-dollars/h of counts of the problem's types."""
    prices = {option.name: option.price for option in problem.types}
    return MicroDollarsPerHour(sum(prices[name] * n for name, n in counts))


def covers(more: Counts, less: Counts) -> bool:
    """Whether `more` has at least as many of every type."""
    held = dict(more)
    return all(held.get(name, 0) >= n for name, n in less)


def is_same(one: Counts, other: Counts) -> bool:
    """Whether two counts are alike; types without instances do not matter."""
    return covers(one, other) and covers(other, one)


def without(counts: Counts, name: str, less: int = 1) -> Counts:
    """The counts with `less` instances fewer of a type."""
    return tuple((t, n - less if t == name else n) for t, n in counts)
