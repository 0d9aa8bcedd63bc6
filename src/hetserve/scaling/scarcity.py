"""Types without room: an instance that has found no place for longer than it takes to launch makes its type scarce."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from hetserve.base.units import Seconds
from hetserve.planning.plan import Counts
from hetserve.scaling.facts import Change, Facts

REMEMBERED: Final = Seconds(180.0)
"""Time for which no new instance of a scarce type is planned."""


def scarce_types(changes: Sequence[Change], now: float) -> frozenset[str]:
    """Types that a recorded change left for want of room, not longer ago than `REMEMBERED`."""
    return frozenset(change.scarce for change in changes if change.scarce and now - REMEMBERED < change.at <= now)


def since_asked(
    waiting: Mapping[str, Seconds], changes: Sequence[Change], bound: Mapping[str, int], now: float
) -> Mapping[str, Seconds]:
    """For how long instances of each type wait, but no longer than since a recorded change asked for them.

    waiting: by the times of the API server and the scheduler, and `now` by another clock: one that is ahead by a launch
    time would make a type scarce at once. Changes are of the same clock as `now`. bound: instances on a node, by type.
    """
    asked = {name: _asked(name, bound.get(name, 0), changes) for name in waiting}
    return {
        name: seconds if (at := asked[name]) is None else Seconds(min(seconds, max(now - at, 0.0)))
        for name, seconds in waiting.items()
    }


def _asked(name: str, placed: int, changes: Sequence[Change]) -> float | None:
    """When the first of the instances that are not placed was asked for [Unix seconds]; None: no change says so."""
    for change in sorted(changes, key=lambda change: -change.at):
        before, after = (dict(counts).get(name, 0) for counts in (change.before, change.after))
        if after <= placed:
            return None
        if before <= placed:
            return change.at
    return None


def caps(facts: Facts, types: frozenset[str]) -> Mapping[str, int]:
    """The most instances of scarce types: those that have a place."""
    return {name: facts.bound.get(name, 0) for name in sorted(types)}


def newly_scarce(facts: Facts, counts: Counts) -> str | None:
    """The type in force whose instances have waited longest beyond their launch time; None: there is none."""
    launch = {option.name: option.launch_time for option in facts.problem.types}
    late = [
        (facts.waiting[name] - launch[name], name)
        for name, n in counts
        if name in facts.waiting and n > facts.bound.get(name, 0) and facts.waiting[name] > launch[name]
    ]
    return min(late, key=lambda one: (-one[0], one[1]))[1] if late else None
