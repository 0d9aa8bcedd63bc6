"""For how long instances have waited for a place, whatever the clocks."""

from __future__ import annotations

import pytest

from hetserve.base.units import Seconds
from hetserve.planning.plan import Counts
from hetserve.scaling import Action, Change, ScalingReason
from hetserve.scaling.scarcity import since_asked
from testing.scaling import NOW

AHEAD = 3600.0
"""Seconds by which the clock of who decides is ahead of the scheduler's."""


def grown(ago: float, before: int, after: int, *others: int) -> Change:
    """others: V100 before and after."""
    v100 = others or (0, 0)
    counts: tuple[Counts, Counts] = ((("v100", v100[0]), ("t4", before)), (("v100", v100[1]), ("t4", after)))
    action = Action.SCALE_UP if after > before else Action.SCALE_DOWN
    return Change(NOW - ago, action, ScalingReason.LOAD_ABOVE_CAPACITY, *counts)


@pytest.mark.parametrize(
    ("changes", "placed", "expected"),
    [
        ([], 2, AHEAD),  # an instance that lost its node: no change has asked for it
        ([grown(20, 2, 3)], 2, 20.0),
        ([grown(20, 2, 3)], 3, AHEAD),  # all that the change asked for are placed, and another waits
        ([grown(20, 3, 4), grown(50, 2, 3)], 2, 50.0),  # two wait, and the first is older
        ([grown(50, 2, 3), grown(20, 3, 4)], 2, 50.0),  # in any order
        ([grown(20, 3, 4), grown(50, 2, 3)], 3, 20.0),
        ([grown(10, 4, 3), grown(50, 2, 4)], 2, 50.0),  # fewer wait than did
        ([grown(10, 3, 3, 0, 9), grown(50, 2, 3)], 2, 50.0),  # another type was asked for since
        ([grown(10, 3, 2), grown(50, 2, 3)], 2, AHEAD),
        ([grown(-5, 2, 3)], 2, 0.0),
    ],
)
def test_an_instance_waits_no_longer_than_since_a_change_asked_for_it(
    changes: list[Change], placed: int, expected: float
) -> None:
    assert since_asked({"t4": Seconds(AHEAD)}, changes, {"t4": placed}, NOW) == {"t4": expected}


def test_what_waits_for_less_stays_as_it_is() -> None:
    assert since_asked({"t4": Seconds(7.0)}, [grown(20, 2, 3)], {}, NOW) == {"t4": 7.0}
