"""What a planner answers: counts per type, and why these and not others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from hetserve.units import QPS, MicroDollarsPerHour

Counts = tuple[tuple[str, int], ...]
"""Instances per type in the problem's order of types, zeros included."""


def summary(counts: Counts) -> str:
    """Counts as people read them, zeros left out: ``1xg4dn.xlarge+13xr5n.large``; ``none`` when all are zero."""
    return "+".join(f"{count}x{name}" for name, count in counts if count) or "none"


@dataclass(frozen=True, slots=True)
class Candidate:
    """A configuration with its score. qps: bound (MaxThroughput) or capacity (MinCost), queries/s."""

    counts: Counts
    cost: MicroDollarsPerHour
    qps: QPS


@dataclass(frozen=True, slots=True)
class Evaluated:
    """A candidate and the highest rate [queries/s] at which it kept the SLO when it was simulated; 0: at none."""

    candidate: Candidate
    held: QPS


@dataclass(frozen=True, slots=True)
class Refusal:
    """A type or configuration that was not chosen, and why."""

    subject: str
    reason: str


@dataclass(frozen=True, slots=True)
class NextStep:
    """The least more money that raises a plan's figure noticeably, and what it buys.

    extra: on top of the budget (MaxThroughput) or of the plan's cost (MinCost), micro-dollars/h. gain: queries/s
    more of `figure`. counts, cost: the configuration that it would be. proven: False where a search gave up:
    less money may be enough, and it may buy more.
    """

    extra: MicroDollarsPerHour
    gain: QPS
    counts: Counts
    cost: MicroDollarsPerHour
    proven: bool = True
    figure: Literal["bound", "capacity"] = "bound"


@dataclass(frozen=True, slots=True)
class Plan:
    """Decision of a planner, feasible or not; it explains itself.

    reason: CamelCase, one of hetserve.api.conditions. message: one sentence with names and numbers.
    bound_qps: upper bound under MaxThroughput; capacity_qps: what the counts carry under MinCost.
    runner_up: the next best, with why_not_runner_up. ranking: the ten best. refusals: every type or
    configuration left out, with its reason. verdict: what holds at this plan, for people. evaluated: what was
    simulated on the way, best first. next_step: what a little more money buys, None where it was not asked, is not
    known or nothing does. tied: others are as good as the last of the ranking; which of them come first by counts was
    not settled. scaled_qps: of planner homogeneous, the bound if fractions of instances could be had.
    """

    feasible: bool
    reason: str
    message: str
    planner: str
    counts: Counts
    cost: MicroDollarsPerHour
    bound_qps: QPS | None = None
    capacity_qps: QPS | None = None
    runner_up: Candidate | None = None
    why_not_runner_up: str = ""
    ranking: tuple[Candidate, ...] = ()
    refusals: tuple[Refusal, ...] = ()
    verdict: str = ""
    evaluated: tuple[Evaluated, ...] = ()
    next_step: NextStep | None = None
    tied: bool = False
    scaled_qps: QPS | None = None

    @property
    def qps(self) -> QPS | None:
        """The one figure of the objective: the bound or the capacity."""
        return self.bound_qps if self.bound_qps is not None else self.capacity_qps
