"""What a decision about a service's instances stands on: values, and no clock of its own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from hetserve.base.units import QPS, Seconds
from hetserve.demand.observed import Demand
from hetserve.planning.plan import Counts
from hetserve.planning.problem import Problem
from hetserve.scaling.decision import Action, ScalingReason
from hetserve.scaling.rules import ScalingRules


class Pause(StrEnum):
    """spec.pause: what does not happen, whatever is measured. A cut of the budget ignores it."""

    NONE = "None"
    SCALE_DOWN = "ScaleDown"
    SCALE_UP = "ScaleUp"
    ALL = "All"

    @property
    def adds(self) -> bool:
        """Whether instances may be added."""
        return self not in (Pause.SCALE_UP, Pause.ALL)

    @property
    def removes(self) -> bool:
        """Whether instances may be removed."""
        return self not in (Pause.SCALE_DOWN, Pause.ALL)


@dataclass(frozen=True, slots=True)
class InForce:
    """The plan that is followed: its counts, and the load [queries/s] that it was made for (None: not recorded).

    mix_since: from when on the problem's mix has been the measured one that counts [Unix seconds, by the clock of who
    decides]; None: it is declared, or nobody knows.
    """

    counts: Counts
    load: QPS | None = None
    mix_since: float | None = None


@dataclass(frozen=True, slots=True)
class Change:
    """A recorded change of the plan. at: Unix seconds. load: queries/s that it was made for.

    scarce: the type that it left because no instance of it found a place.
    """

    at: float
    action: Action
    reason: ScalingReason
    before: Counts
    after: Counts
    load: QPS | None = None
    scarce: str | None = None

    @property
    def added(self) -> int:
        """Instances added, over all types."""
        old = dict(self.before)
        return sum(max(n - old.get(name, 0), 0) for name, n in self.after)

    @property
    def removed(self) -> int:
        """Instances removed, over all types."""
        new = dict(self.after)
        return sum(max(n - new.get(name, 0), 0) for name, n in self.before)


@dataclass(frozen=True, slots=True)
class Facts:
    """One look at a service.

    now: Unix seconds, by the clock of who decides; `demand` has its own. rules: of MinCost. problem: with facts of the
    cluster; its load does not matter. declared: the same without them; None: there is no cluster. in_force: None:
    nothing was planned yet. expected: spec.load.expectedQPS. keeps_over_budget: spec.budget.whenTooLow is Keep.
    changes: recorded, in any order. ready: instances that serve, by type. bound: those on a node. waiting: seconds for
    which the scheduler has found no place for the oldest instance of a type; without gated ones, and those that only
    wait for a GPU that does not have their model yet. served_since: when the last of those in force began to serve
    [Unix seconds]; None: not known.
    """

    now: float
    rules: ScalingRules
    demand: Demand
    problem: Problem
    declared: Problem | None = None
    in_force: InForce | None = None
    expected: QPS | None = None
    pause: Pause = Pause.NONE
    keeps_over_budget: bool = False
    changes: tuple[Change, ...] = ()
    ready: Mapping[str, int] = field(default_factory=dict)
    bound: Mapping[str, int] = field(default_factory=dict)
    waiting: Mapping[str, Seconds] = field(default_factory=dict)
    served_since: float | None = None

    @property
    def allowed(self) -> Problem:
        """The problem whose limits somebody declared."""
        return self.problem if self.declared is None else self.declared

    @property
    def mix_settles(self) -> float | None:
        """When the mix will have counted throughout the window of scaling down [Unix seconds]; None: it is declared."""
        since = None if self.in_force is None else self.in_force.mix_since
        return None if since is None else since + self.rules.down.window
