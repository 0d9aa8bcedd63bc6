"""What is said without a trial: the share of the instances' time that the program plans for."""

from __future__ import annotations

import pytest

from hetserve.planning.flow.programs.classes import class_table
from hetserve.planning.flow.search.untried import saturation_for
from hetserve.testing.planning import line, option, problem

TYPES = (option("fast", "1", line(20)), option("slow", "0.3", line(60)))


@pytest.mark.parametrize(("counts", "expected"), [((1, 0), 0.3), ((4, 0), 0.5), ((16, 0), 0.75), ((400, 0), 0.95)])
def test_more_instances_of_one_type_leave_a_smaller_share_of_their_time(
    counts: tuple[int, int], expected: float
) -> None:
    table = class_table(problem(TYPES, slo_ms=200, budget="3"))
    names = [one.name for one in table.types]
    held = dict(zip(("fast", "slow"), counts, strict=True))
    assert saturation_for(table, [held[name] for name in names]) == pytest.approx(expected)


def test_an_slo_of_very_many_service_times_leaves_almost_none() -> None:
    table = class_table(problem(TYPES, slo_ms=3_600_000, budget="3"))
    assert saturation_for(table, [1, 1]) == pytest.approx(0.95)


def test_a_longer_slo_never_leaves_more() -> None:
    shares = [
        saturation_for(class_table(problem(TYPES, slo_ms=slo, budget="3")), [1, 2])
        for slo in (100, 200, 1_000, 2_000, 4_000, 8_000, 30_000)
    ]
    assert shares == sorted(shares)
