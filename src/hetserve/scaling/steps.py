"""Step policies: how many instances may still be added or removed, by the changes that are recorded."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, Literal

from hetserve.planning.plan import Counts
from hetserve.planning.problem import Problem
from hetserve.planning.rates import throughput
from hetserve.scaling.decision import Action
from hetserve.scaling.facts import Change
from hetserve.scaling.rules import Direction, StepLimit

Way = Literal["up", "down"]
UNLIMITED: Final = 2**31


def room(direction: Direction, way: Way, instances: int, changes: Sequence[Change], now: float) -> int:
    """Instances that may be added (or removed) now. instances: of the counts in force, all types together."""
    if not direction.limits:
        return UNLIMITED
    rooms = [_room(limit, way, instances, changes, now) for limit in direction.limits]
    return max(rooms) if direction.select == "Max" else min(rooms)


def _room(limit: StepLimit, way: Way, instances: int, changes: Sequence[Change], now: float) -> int:
    # A first plan is no step; a change of the future is one of a clock that went back.
    steps = (change for change in changes if change.action is not Action.FIRST_PLAN)
    recent = [change for change in steps if abs(now - change.at) < limit.period]
    added, removed = sum(c.added for c in recent), sum(c.removed for c in recent)
    allowed = limit.value
    if limit.kind == "Percent":
        allowed = math.ceil(max(instances - added + removed, 0) * limit.value / 100)
    return max(allowed - (added if way == "up" else removed), 0)


def fewer_added(before: Counts, after: Counts, most: int, problem: Problem) -> Counts:
    """`before` with at most so many of the instances that `after` adds: those that add most capacity first."""
    rates = {option.name: throughput(option.profile, problem.mix) or 0.0 for option in problem.types}
    prices = {option.name: option.price for option in problem.types}
    order = sorted(rates, key=lambda name: (-rates[name], prices[name], name))
    return _partly(before, after, order, most)


def fewer_removed(before: Counts, after: Counts, most: int, problem: Problem) -> Counts:
    """`before` without at most so many of the instances that `after` removes: the dearest go first."""
    order = sorted(problem.types, key=lambda option: (-option.price, option.name))
    return _partly(before, after, [option.name for option in order], most)


def _partly(before: Counts, after: Counts, order: Sequence[str], most: int) -> Counts:
    """`before` moved towards `after` by at most `most` instances, type by type."""
    held, wanted, left = dict(before), dict(after), most
    for name in order:
        step = min(abs(wanted.get(name, 0) - held.get(name, 0)), left)
        held[name] = held.get(name, 0) + (step if wanted.get(name, 0) > held.get(name, 0) else -step)
        left -= step
    return tuple((name, held[name]) for name, _ in after)
