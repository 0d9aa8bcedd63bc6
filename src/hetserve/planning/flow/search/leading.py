"""Leading solutions: the configurations worth trying, chosen by the program and by the planners of the papers."""

from __future__ import annotations

import dataclasses
import itertools
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from hetserve.base.units import MicroDollarsPerHour
from hetserve.planning.flow.programs.classes import ClassTable, Values
from hetserve.planning.flow.programs.program import Margin, most_load
from hetserve.planning.problem import MOST_REPLICAS

MARGINS: Final = tuple(
    Margin(wait=wait, late=late) for wait, late in ((0.0, 0.2), (0.0, 0.8), (0.05, 0.5), (0.1, 0.2), (0.2, 0.5))
)
"""Of most throughput: saturation would scale the rate alone."""
UNTRIED: Final = Margin(wait=0.05, late=0.5)
"""One program alone did best with it in the experiment that came before, on 83 problems."""
_CUTS: Final = 2
_MOST_PAIRED: Final = 8
_SPLITS: Final = 10
_PAIRED: Final = (UNTRIED, Margin(late=0.8, most_late=1.0))


def leading(table: ClassTable, budget: int) -> tuple[Values, ...]:
    """Distinct counts that the programs of a budget give, then the papers' and every type alone."""
    programs = (mix.counts for margin in MARGINS if (mix := most_load(table, margin, budget=budget)) is not None)
    found = dict.fromkeys(
        (
            *programs,
            *_next_best(table, budget),
            *_limited_to(table, budget, pairs(table)),
            *of_papers(table, budget),
            *alone(table, budget),
        )
    )
    return tuple(counts for counts in found if any(counts) and _within_total(table, counts))


def _next_best(table: ClassTable, budget: int) -> Iterator[Values]:
    cuts: list[Values] = []
    found = most_load(table, UNTRIED, budget=budget)
    while found is not None and len(cuts) < _CUTS:
        cuts.append(found.counts)
        found = most_load(table, UNTRIED, cuts=cuts, budget=budget)
        if found is not None:
            yield found.counts


def pairs(table: ClassTable) -> Iterator[tuple[int, int]]:
    """Two types of each: fewer kinds of instances pool better than the program knows."""
    if len(table.types) <= _MOST_PAIRED:
        yield from itertools.combinations(range(len(table.types)), 2)


def _limited_to(table: ClassTable, budget: int, choices: Iterable[Sequence[int]]) -> Iterator[Values]:
    """The programs' counts of each choice of types."""
    for only, margin in itertools.product(choices, _PAIRED):
        mix = most_load(table, margin, budget=budget, only=only)
        if mix is not None:
            yield mix.counts


def splits(table: ClassTable, budget: int) -> Iterator[Values]:
    """Two types that share the budget in several ways: where programs see little difference, trials see much."""
    least = tuple(option.min_instances for option in table.types)
    spare, left = budget - table.cost(least), most_in_all(table) - sum(least)
    for i, j in pairs(table):
        first, second = table.types[i], table.types[j]
        most = min(spare // first.price, first.most - least[i], left)
        for part in range(1, _SPLITS):
            some = most * part // _SPLITS
            rest = min((spare - some * first.price) // second.price, second.most - least[j], left - some)
            values = tuple(n + (some if k == i else rest if k == j else 0) for k, n in enumerate(least))
            if some > 0 and rest > 0 and _within_total(table, values) and fits(table, values):
                yield values


def without_one(table: ClassTable, budget: int, best: Values) -> Iterator[Values]:
    """The programs' counts without each type of the best ones."""
    left_out = [i for i, option in enumerate(table.types[: len(best)]) if best[i] > option.min_instances]
    return _limited_to(table, budget, [[j for j in range(len(best)) if j != i] for i in left_out])


def alone(table: ClassTable, budget: int) -> Iterator[Values]:
    """As many of each type as limits and the budget allow, beside the least of the others."""
    least = tuple(option.min_instances for option in table.types)
    spare, left = budget - table.cost(least), most_in_all(table) - sum(least)
    for i, option in enumerate(table.types):
        more = min(spare // option.price, option.most - least[i], left)
        if more >= 0:
            yield _fitting(table, (*least[:i], least[i] + more, *least[i + 1 :]), i)


def _fitting(table: ClassTable, values: Values, i: int) -> Values:
    """As many of type i as pools have room for."""
    before, least, after = values[:i], table.types[i].min_instances, values[i + 1 :]
    more = range(least + 1, values[i] + 1)
    return (*before, least + bisect_left(more, 1, key=lambda n: not fits(table, (*before, n, *after))), *after)


def of_papers(table: ClassTable, budget: int) -> Iterator[Values]:
    """Kairos's ten best bounds and what the budget carries most by HetSev's program."""
    from hetserve.planning.kairos.planner import plan_kairos  # noqa: PLC0415
    from hetserve.planning.mincost.ilp import plan_ilp  # noqa: PLC0415

    problem = dataclasses.replace(
        table.problem, budget=MicroDollarsPerHour(budget), objective="MaxThroughput", load=None, base=None
    )
    paper = plan_kairos(problem)
    if paper.feasible:
        yield from (table.values(entry.counts) for entry in paper.ranking)
    carried = plan_ilp(problem)
    if carried.feasible:
        yield table.values(carried.counts)


def allowed(table: ClassTable, values: Values, budget: int | None) -> bool:
    """Whether limits, of a type and in all, pools and the budget allow these counts."""
    within = all(o.min_instances <= count <= o.most for o, count in zip(table.types, values, strict=True))
    return (
        within
        and _within_total(table, values)
        and (budget is None or table.cost(values) <= budget)
        and fits(table, values)
    )


def most_in_all(table: ClassTable) -> int:
    """The most instances of all types together: `most_total`, or more than a limit of any type."""
    most = table.problem.most_total
    return MOST_REPLICAS * len(table.types) if most is None else most


def _within_total(table: ClassTable, values: Values) -> bool:
    return table.problem.allows_total(sum(values))


def fits(table: ClassTable, values: Values) -> bool:
    """Whether new instances fit what their pools have free."""
    for pool in table.problem.pools:
        new = [
            (option.demand, max(count - option.running, 0))
            for option, count in zip(table.types, values, strict=True)
            if option.pool == pool.name
        ]
        for resource, free in enumerate(pool.free.all):
            asked = sum(demand.all[resource] * count for demand, count in new)
            if asked and asked > max(free, 0):
                return False
    return True


def neighbours(table: ClassTable, values: Values, budget: int | None) -> tuple[Values, ...]:
    """Counts with one instance more, or with some of a type less or exchanged for one or all that the money buys.

    Where instances are counted in all, some are exchanged for as many, and no more are bought than are allowed.
    """
    room = most_in_all(table)
    found: dict[Values, None] = {}
    for i, count in enumerate(values):
        spare_count = max(count - table.types[i].min_instances, 0)
        for less in sorted({0, min(spare_count, 1), spare_count // 4, spare_count}):
            rest = (*values[:i], count - less, *values[i + 1 :])
            found[rest] = None
            for j, option in enumerate(table.types):
                if i == j and less:
                    continue
                spare = less * table.types[i].price if budget is None else budget - table.cost(rest)
                steps = {1, spare // option.price} if less or budget is not None else {1}
                if table.problem.bounds_total:
                    steps = {min(one, room - sum(rest)) for one in (*steps, max(less, 1))}
                for more in steps:
                    found[(*rest[:j], rest[j] + more, *rest[j + 1 :])] = None
    return tuple(one for one in found if one != values and any(one) and allowed(table, one, budget))
