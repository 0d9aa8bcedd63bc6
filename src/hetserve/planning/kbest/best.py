"""The best configurations of a space: up to a million are looked at one by one, of more a program finds good ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from hetserve.planning.configurations import configuration_parts, count_configurations
from hetserve.planning.kbest.grid import Grid, grid_of
from hetserve.planning.kbest.order import Entries, Order, entries_of, none_of
from hetserve.planning.kbest.space import Floats, Ints, Space

LISTED: Final = 1_000_000
"""Most configurations to look at one by one: some 0.2 s."""

_ROUGH: Final = 300_000


@dataclass(frozen=True, slots=True, eq=False)
class Ranking:
    """The best configurations by key descending, cost ascending, then counts.

    counts: [entry, type], base first. size: number of configurations; approximate unless listed. complete: whether all
    were looked at; else there may be better ones.
    """

    counts: Ints
    costs: Ints
    keys: Floats
    size: float
    complete: bool = True


def best_configurations(space: Space, top: int = 10, reaching: float | None = None) -> Ranking:
    """The `top` best configurations; empty if budget or limits leave none.

    reaching: a key: the cheapest configurations that reach it, ties to the higher key.
    """
    # A rough count never is too low.
    size = count_configurations(space.dimensions, space.budget, _ROUGH)
    if size <= LISTED:
        return list_all(space, top, reaching)
    from hetserve.planning.kbest.search import found_by_program  # noqa: PLC0415  the solver loads late

    found = found_by_program(space, grid_of(space), Order(top, reaching))
    return Ranking(*found, size, complete=False)


def list_all(space: Space, top: int | None = None, reaching: float | None = None) -> Ranking:
    """By looking at all; top: None for all; reaching: as of `best_configurations`."""
    if space.empty:
        return Ranking(*none_of(space), 0.0)
    grid, order, size = grid_of(space), Order(top, reaching), 0
    best = none_of(space)
    for counts, costs in configuration_parts(space.dimensions, space.budget):
        part = entries_of(space, grid, counts, costs)
        size += len(part.keys)
        best = _better(order, best, part)
    return Ranking(*best, float(size))


def _better(order: Order, best: Entries, part: Entries) -> Entries:
    return order.first(best.and_also(order.first(part)))


def cheapest_reaching(space: Space, grid: Grid, qps: float) -> Ranking:
    """The cheapest configuration with a bound of at least `qps`, if there is one; ties go to the highest bound."""
    return best_configurations(space, 1, grid.key_for(qps))
