"""When a decision may be another one though nothing has changed but the time.

A steady load and pods that wait cause no event. So the end of a step policy's period, of a launch time, of a type's
scarcity or of a new mix's first window would be seen by chance only.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from hetserve.base.units import Seconds
from hetserve.scaling.context import MISSED_FOR, calm_from
from hetserve.scaling.decision import Action, ScalingReason
from hetserve.scaling.facts import Change, Facts
from hetserve.scaling.scarcity import REMEMBERED

_AFTER: Final = 1.0
"""Seconds after an end: recorded times are of whole seconds."""


def turns_in(facts: Facts) -> Seconds | None:
    """Seconds until the next moment at which time alone may change the decision; None: there is none."""
    ends = [
        change.at + period for change in facts.changes if change.at <= facts.now for period in _periods(facts, change)
    ]
    late = (facts.now + o.launch_time - facts.waiting[o.name] for o in facts.problem.types if o.name in facts.waiting)
    mix = () if facts.mix_settles is None else (facts.mix_settles,)
    calm = (calm_from(facts, facts.in_force.counts),) if facts.demand.attained and facts.in_force is not None else ()
    waits = [at + _AFTER - facts.now for at in (*ends, *late, *mix, *calm) if at + _AFTER > facts.now]
    return Seconds(min(waits)) if waits else None


def _periods(facts: Facts, change: Change) -> Iterator[float]:
    """Seconds for which a recorded change counts, for each rule that looks back at it."""
    rules = facts.rules
    if change.added and change.action is not Action.FIRST_PLAN:
        yield from (limit.period for limit in rules.up.limits)
    if change.removed:
        yield from (limit.period for limit in rules.down.limits)
    if change.scarce is not None:
        yield REMEMBERED
    if change.reason is ScalingReason.SLO_MISSED:
        yield MISSED_FOR
    if facts.demand.lower_bound or change.reason is ScalingReason.SLO_MISSED:
        yield rules.down.window
