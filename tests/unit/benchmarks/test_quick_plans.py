"""Quick plans on random pools: near the tried ones, and they hold in simulation."""

from __future__ import annotations

import statistics

import pytest
from benchmarks.flow.pools import carrying, small_pools

from hetserve.planning import plan
from hetserve.planning.flow.planner import trial
from hetserve.planning.flow.programs.classes import class_table
from hetserve.planning.flow.programs.program import CEILING, most_load

SEED = 31
"""No figure was chosen by it."""


@pytest.mark.deep
@pytest.mark.parametrize("count", [3, pytest.param(8, marks=pytest.mark.deep)])
def test_quick_plans_cost_little_more_than_tried_ones_and_hold(count: int) -> None:
    over, holds = [], 0
    for given in small_pools(count, SEED):
        top = most_load(class_table(given).upper, CEILING, budget=int(given.budget or 0))
        assert top is not None
        asked = carrying(given, 0.4 * top.rate)
        quick, tried = plan(asked, quick=True), plan(asked)
        assert quick.feasible
        over.append(quick.cost / tried.cost)
        holds += trial(asked, quick.counts).holds is True
    assert statistics.median(over) <= 1.25
    assert holds >= count - 1
