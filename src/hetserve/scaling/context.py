"""What a decision sees first: the counts in force, the windows of the demand, and its trend."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from hetserve.base.units import QPS, Seconds
from hetserve.demand.windows import HELD_STEPS, highest, lowest
from hetserve.planning.plan import Counts, Plan
from hetserve.scaling.dead_band import DeadBand, over, rise
from hetserve.scaling.decision import Action, Decision, Limit, Measured, ScalingReason
from hetserve.scaling.facts import Facts
from hetserve.scaling.plans.capacity import Holds
from hetserve.scaling.plans.counts import covers, in_order, total
from hetserve.scaling.scarcity import caps, scarce_types

MISSED_FOR: Final = Seconds(86_400.0)
"""Time for which counts that missed the SLO are not gone back to."""


@dataclass(frozen=True, slots=True)
class ScalingContext:
    """Facts with what follows from them without a planner.

    counts: in force, in the problem's order. recent: the highest rate in the window of scaling up. rise: queries/s that
    the trend adds until new instances serve. caps: of types that are scarce.
    """

    facts: Facts
    counts: Counts
    measured: Measured
    recent: QPS | None
    rise: QPS
    caps: Mapping[str, int]

    @property
    def instances(self) -> int:
        return total(self.counts)

    @property
    def is_settled(self) -> bool:
        """Whether all that is in force serves."""
        return covers(tuple(self.facts.ready.items()), self.counts)

    @property
    def has_new_mix(self) -> bool:
        """Whether the mix has moved within the window of scaling down: what fewer held before is not known."""
        settles = self.facts.mix_settles
        return settles is not None and self.facts.now < settles

    @property
    def by_mix(self) -> str:
        """By which mix the capacity is meant, in words; empty: the declared one."""
        return "" if self.facts.mix_settles is None else " under the mix of batch sizes as measured"

    def with_capacity(self, found: Holds) -> ScalingContext:
        return replace(self, measured=replace(self.measured, capacity=found.qps))

    def hold(self, reason: ScalingReason, words: str, *limits: Limit, held: QPS | None = None) -> Decision:
        """Nothing changes, and why. Arguments as of `Decision`."""
        in_force = self.facts.in_force
        load = None if in_force is None else in_force.load
        return Decision(Action.HOLD, reason, words, self.counts, load, limits=limits, held=held, measured=self.measured)

    def change(
        self,
        action: Action,
        reason: ScalingReason,
        words: str,
        counts: Counts,
        *limits: Limit,
        load: QPS,
        plan: Plan | None = None,
        held: QPS | None = None,
        scarce: str | None = None,
    ) -> Decision:
        """Other counts from now on, why, and what limits them. Arguments as of `Decision`."""
        said = "; ".join((words, *(limit.words for limit in limits)))
        return Decision(action, reason, said, counts, load, plan, limits, held, scarce, measured=self.measured)

    def waits(self, what: str, *, growing: bool = False, dead_band: DeadBand | None = None) -> Decision:
        """Nothing changes until a planner answers. growing: more instances are asked for; dead_band: of `Decision`."""
        waits = self.hold(ScalingReason.PLANNING, f"{what} is being worked out")
        return replace(waits, pending=True, growing=growing, dead_band=dead_band)

    def dead_band(self, above: float, most: float) -> DeadBand | None:
        """Loads above one [queries/s] and up to another, that of the trend too, while the mix stays.

        None: the newest rate is more than what is in force holds. The next look is to say when that ends.
        """
        facts, rules, newest = self.facts, self.facts.rules, self.facts.demand.latest
        holds = QPS(math.inf) if self.measured.capacity is None else self.measured.capacity
        if newest is not None and newest.qps > holds:
            return None
        launch = launch_time(facts, self.counts) if rules.look_ahead else Seconds(0.0)
        share = facts.problem.slo.percentile / 100
        dead_band = DeadBand(QPS(above), QPS(most), rules.up.window, rules.down.window, launch, share)
        return replace(dead_band, mix=facts.problem.mix, holds=holds)


def look_at(facts: Facts) -> ScalingContext:
    """A look at a service with a plan in force."""
    assert facts.in_force is not None  # noqa: S101  the caller has checked
    counts = in_order(facts.in_force.counts, facts.problem)
    rules, demand = facts.rules, facts.demand
    low, recent = over(lowest, demand, rules.up.window), over(highest, demand, rules.up.window)
    high = over(highest, demand, rules.down.window)
    more = QPS(0.0)
    if rules.look_ahead and low is not None:
        more = rise(demand, rules.up.window, launch_time(facts, counts), low)
    forecast = None if low is None else QPS(low + more)
    scarce = caps(facts, scarce_types(facts.changes, facts.now))
    return ScalingContext(facts, counts, Measured(low, high, forecast), recent, more, scarce)


def launch_time(facts: Facts, counts: Counts) -> Seconds:
    """Of the slowest type in force, as more of it is likely; without any, of the quickest type [s]."""
    held = dict(counts)
    times = [option.launch_time for option in facts.problem.types if held.get(option.name, 0) > 0]
    others = [option.launch_time for option in facts.problem.types]
    return max(times) if times else min(others, default=Seconds(0.0))


def calm_from(facts: Facts, counts: Counts) -> float:
    """From when on all that says how many queries are late was measured while `counts` served [Unix seconds].

    A sample is of the queries that ended in a window, and the last one from before the window of scaling up counts too,
    for as long as samples hold. Where nothing says since when the instances serve, an added one takes its launch time.
    """
    demand, up = facts.demand, facts.rules.up.window
    launch = launch_time(facts, counts) if facts.served_since is None else Seconds(0.0)
    changed = max((change.at + (launch if change.added else 0.0) for change in facts.changes), default=-math.inf)
    served = -math.inf if facts.served_since is None else facts.served_since
    return max(changed, served) + max(up + demand.step, HELD_STEPS * demand.step) + demand.window


def standing_load(context: ScalingContext) -> QPS | None:
    """The load that a plan must carry whatever the samples are worth: the largest of what is known [queries/s].

    It is not below the load of the plan in force: where metrics are not fresh, nothing shrinks.
    """
    in_force = context.facts.in_force
    known = [
        context.measured.highest,
        context.measured.forecast,
        None if in_force is None else in_force.load,
    ]
    loads = [load for load in known if load is not None]
    return max(loads) if loads else context.facts.expected
