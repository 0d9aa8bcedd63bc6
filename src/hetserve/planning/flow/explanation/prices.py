"""What a little more is worth: the dual values of the flow program at fixed counts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from hetserve.base.units import QPS
from hetserve.planning.flow.explanation.choice import Choice
from hetserve.planning.flow.programs.classes import ClassTable
from hetserve.planning.flow.programs.program import CEILING, FixedMix, fixed
from hetserve.planning.formatting import latency_text, qps_text, share_text
from hetserve.planning.plan import BindingBatches, MarginalValues
from hetserve.planning.problem import TypeRefusal

_HALF: Final = 0.5
_ALIKE: Final = 0.1
"""A class is dear where a query's price is above the mean one by more than this share."""


def marginal_values(choice: Choice) -> MarginalValues | None:
    """Prices at the chosen counts; None: their fluid rate is none."""
    table = choice.table
    # What went on from other counts may give other prices of the same; of a quick plan nothing else was solved.
    found = choice.fluid.mix(choice.values) if choice.untried else fixed(table, CEILING, choice.values)
    if found is None:
        return None
    gains = {option.name: QPS(float(gain)) for option, gain in zip(table.types, found.per_instance, strict=True)}
    worth = [gain * 1e6 / option.price for option, gain in zip(table.types, found.per_instance, strict=True)]
    best = int(np.argmax(worth))
    instances = tuple((option.name, gains[option.name]) for option in table.problem.types)
    return MarginalValues(instances, table.types[best].name, QPS(float(worth[best])), _binding(table, found))


def _binding(table: ClassTable, found: FixedMix) -> BindingBatches | None:
    """The dearest classes that together carry half of the price, with all between them."""
    density = found.per_class / table.shares
    if density.max() <= (1 + _ALIKE):
        return None
    order = np.argsort(-density, kind="stable")
    enough = int(np.searchsorted(np.cumsum(found.per_class[order]), _HALF - 1e-9)) + 1
    first, last = int(order[:enough].min()), int(order[:enough].max())
    span = slice(first, last + 1)
    busiest = int(np.argmax(found.flow[:, span].sum(axis=1)))
    queries, price = float(table.shares[span].sum()), float(found.per_class[span].sum())
    return BindingBatches(table.first[first], table.last[last], queries, price, table.types[busiest].name)


def refusals(choice: Choice, prices: MarginalValues | None) -> Iterator[TypeRefusal]:
    """Why each type without instances has none."""
    table = choice.table
    for i, option in enumerate(table.types):
        if choice.values[i]:
            continue
        reach = _reach(table, i)
        if not option.most:
            yield TypeRefusal(option.name, "no instance of it is allowed or has room")
        elif reach is None or prices is None:
            yield TypeRefusal(option.name, reach or "not needed")
        else:
            gain = dict(prices.instances)[option.name] * 1e6 / option.price
            least = f"; adds at most {qps_text(gain)} per $/h"
            other = "" if prices.best == option.name else f", {prices.best} {qps_text(prices.dollar)}"
            yield TypeRefusal(option.name, f"{reach}{least}{other}")


def _reach(table: ClassTable, i: int) -> str | None:
    """Which batches a type serves within the SLO; None: none."""
    limit = latency_text(table.problem.slo.latency)
    late = np.where(np.isfinite(table.means[i]), table.misses(table.problem.slo.latency)[i], 1.0)
    within = late <= table.allowed
    if not within.any():
        return None
    if within.all():
        return f"serves every batch within {limit}"
    ends = int(np.flatnonzero(within).max())
    if within[: ends + 1].all():
        return f"too slow above batch {table.last[ends]} for {limit}"
    return f"too slow for {share_text(float(table.shares[~within].sum()))} of the queries for {limit}"
