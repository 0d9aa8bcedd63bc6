"""A decision about a service's instances, which explains itself."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from hetserve.base.units import QPS
from hetserve.planning.plan import Counts, Plan
from hetserve.scaling.dead_band import DeadBand


class Action(StrEnum):
    """FIRST_PLAN: nothing was planned before. SHRINK: down to a budget. HOLD: nothing changes."""

    FIRST_PLAN = "FirstPlan"
    SCALE_UP = "ScaleUp"
    SCALE_DOWN = "ScaleDown"
    REPLACE = "Replace"
    SHRINK = "Shrink"
    HOLD = "Hold"


class ScalingReason(StrEnum):
    """One word for programs."""

    # of changes
    FIRST_PLAN = "FirstPlan"
    LOAD_ABOVE_CAPACITY = "LoadAboveCapacity"
    TREND_ABOVE_CAPACITY = "TrendAboveCapacity"
    SLO_MISSED = "SLOMissed"
    BELOW_MINIMUM = "BelowMinimum"
    LOAD_FITS_ON_LESS = "LoadFitsOnLess"
    NO_LOAD = "NoLoad"
    CHEAPER_MIX = "CheaperMix"
    BETTER_MIX = "BetterMix"
    TYPE_SCARCE = "TypeScarce"
    LIMITS_CHANGED = "LimitsChanged"
    BUDGET_CUT = "BudgetCut"
    # of holding
    LOAD_CARRIED = "LoadCarried"
    LOAD_UNKNOWN = "LoadUnknown"
    METRICS_NOT_FRESH = "MetricsNotFresh"
    WINDOW_NOT_COVERED = "WindowNotCovered"
    PLANNING = "Planning"
    PLANNER_FAILED = "PlannerFailed"
    # of what limits
    PAUSED = "Paused"
    STEP_POLICY = "StepPolicy"
    AT_MINIMUM = "AtMinimum"
    AT_MAXIMUM = "AtMaximum"
    BEYOND_REACH = "BeyondReach"
    BEYOND_BUDGET = "BeyondBudget"
    BEYOND_ROOM = "BeyondRoom"


@dataclass(frozen=True, slots=True)
class Limit:
    """What kept a decision from what the load alone asks for."""

    reason: ScalingReason
    words: str


@dataclass(frozen=True, slots=True)
class Measured:
    """What was seen and weighed [queries/s]; None: not known.

    lowest: in the window of scaling up; highest: in that of scaling down; forecast: when new instances would serve.
    capacity: what the counts in force hold.
    """

    lowest: QPS | None = None
    highest: QPS | None = None
    forecast: QPS | None = None
    capacity: QPS | None = None


@dataclass(frozen=True, slots=True)
class Decision:
    """What to do with a service's instances, and why.

    words: one line for people, with the numbers. counts: in force from now on; None: there is no plan. load: queries/s
    that they are for. plan: of the planner, if it was asked for this. limits: what limited it, the first the most
    important. held: queries/s that `counts` hold if `load` is beyond reach; else None. scarce: a type that has no
    place, to be recorded with the change. pending: a question has no answer yet. dead_band: the loads at which it stays
    as it is; None: not known. growing: it waits for a plan of more instances.
    """

    action: Action
    reason: ScalingReason
    words: str
    counts: Counts | None = None
    load: QPS | None = None
    plan: Plan | None = None
    limits: tuple[Limit, ...] = ()
    held: QPS | None = None
    scarce: str | None = None
    pending: bool = False
    measured: Measured = Measured()
    dead_band: DeadBand | None = None
    growing: bool = False

    @property
    def changes(self) -> bool:
        return self.action is not Action.HOLD

    @property
    def within_reach(self) -> bool:
        """Whether budget, limits and the cluster allow what the load needs."""
        return self.held is None
