"""The answer of a planner: counts per type, and why."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Literal

from hetserve.api.conditions import Reason
from hetserve.base.units import QPS, MicroDollarsPerHour, Millionths
from hetserve.planning.problem import MOST_REPLICAS, Problem, TypeRefusal

Counts = tuple[tuple[str, int], ...]
"""Instances per type in the problem's order, zeros included."""

NOTICEABLE: Final = 0.01
"""Relative gain in bound or capacity that is worth a next step."""
WIDEST_BUDGET: Final = 8.0
"""Multiple of the budget up to which Kairos looks for the next step."""


Evaluator = Callable[[Counts], float]
"""Highest queries/s at which these counts keep the SLO; 0: none. Equal counts get equal answers."""


def summary(counts: Counts) -> str:
    """Counts without zeros: ``1xg4dn.xlarge+13xr5n.large``; ``none`` if all are zero."""
    return "+".join(summary_parts(counts))


def summary_parts(counts: Counts) -> tuple[str, ...]:
    """Counts without zeros, a text for each type; ``none`` if all are zero."""
    return tuple(f"{count}x{name}" for name, count in counts if count) or ("none",)


def counts_status(counts: Counts) -> list[dict[str, Any]]:
    """Counts as a status has them, without zeros."""
    return [{"instanceType": name, "count": n} for name, n in counts if n > 0]


def read_counts(told: Any) -> Counts:
    """Counts of a status; None: none. Raises AttributeError, KeyError, TypeError or ValueError for what is none."""
    counts = tuple((str(one["instanceType"]), int(one["count"])) for one in told or ())
    if not all(0 <= n <= MOST_REPLICAS for _, n in counts):
        raise ValueError(f"{counts!r}: instances of a type must be 0 to {MOST_REPLICAS}")
    return counts


@dataclass(frozen=True, slots=True)
class RankedConfiguration:
    """A configuration; qps: bound (MaxThroughput) or capacity (MinCost), queries/s."""

    counts: Counts
    cost: MicroDollarsPerHour
    qps: QPS


@dataclass(frozen=True, slots=True)
class EvaluatedConfiguration:
    """A configuration and the highest rate [queries/s] that keeps the SLO in simulation; 0: none was seen.

    below: a rate at which it breaks the SLO; None: not looked for.
    """

    candidate: RankedConfiguration
    held: QPS
    below: QPS | None = None


@dataclass(frozen=True, slots=True)
class ClassFlow:
    """Where a class of batches (first to last) goes, queries/s."""

    type: str
    first: int
    last: int
    qps: QPS


@dataclass(frozen=True, slots=True)
class Trial:
    """What counts of any origin do in simulation; None: not tried, as trials would take too long.

    holds: whether they carry the problem's load (MinCost). held: the highest rate within the SLO (MaxThroughput).
    """

    holds: bool | None = None
    held: QPS | None = None


@dataclass(frozen=True, slots=True)
class BindingBatches:
    """Batches (first to last) that carry about half of the price of a plan's fluid rate.

    queries, price: their share of each. type: it serves most of them.
    """

    first: int
    last: int
    queries: float
    price: float
    type: str


@dataclass(frozen=True, slots=True)
class MarginalValues:
    """What a little more is worth to the fluid rate of a plan: dual values of the flow program.

    instances: by type, queries/s that one more instance adds at most. best: the type that adds most per dollar. dollar:
    queries/s that one more $/h of it adds at most; 0: none adds any. binding: None if every query costs the same.
    """

    instances: tuple[tuple[str, QPS], ...]
    best: str
    dollar: QPS
    binding: BindingBatches | None = None

    @property
    def query_cost(self) -> MicroDollarsPerHour | None:
        """The least that one more query/s costs, micro-dollars/h; None: no instance adds any."""
        return MicroDollarsPerHour(round(1e6 / self.dollar)) if self.dollar > 0 else None


@dataclass(frozen=True, slots=True)
class NextStep:
    """The least extra money that raises a plan's figure by at least NOTICEABLE.

    extra: over the budget (MaxThroughput) or the plan's cost (MinCost), micro-dollars/h. gain: queries/s of `figure`.
    counts, cost: what it buys. proven: False if a search gave up.
    """

    extra: MicroDollarsPerHour
    gain: QPS
    counts: Counts
    cost: MicroDollarsPerHour
    proven: bool = True
    figure: Literal["bound", "capacity", "ceiling"] = "bound"


@dataclass(frozen=True, slots=True)
class SharingComparison:
    """What a service takes if its instances share GPUs, and if each has one alone; of a cluster with room for both.

    planner: that made both, without trials; of flow, by its program with nothing kept in hand. None: not feasible.
    """

    planner: str
    exclusive: RankedConfiguration | None
    shared: RankedConfiguration | None


@dataclass(frozen=True, slots=True)
class StepSearch:
    step: NextStep | None
    known: bool = True


@dataclass(frozen=True, slots=True)
class Plan:
    """Decision of a planner, with its explanation.

    reason: of hetserve.api.conditions. bound_qps: under MaxThroughput. capacity_qps: under MinCost. ranking: the ten
    best, the plan's own counts among them. refusals: types left out or limited. verdict: what the plan achieves.
    evaluated: what was simulated, best first. next_step: None if not known or none exists. scaled_qps: planner
    homogeneous only: the bound with fractions of instances. provisional: a quick answer of a planner that tries its
    plans. Planner flow only: tried: whether a simulation held what the plan says; None: the planner tries nothing.
    held_qps: rate that it held. ceiling_qps: no mix within limits and budget holds more. floor_cost: no mix that
    carries the load costs less. flow: how the plan serves `held_qps`, or what it promises untried. prices: what a
    little more is worth. cheaper: the best mix for less, tried or not. sharing: None where no type shares GPUs.
    tolerances: by type, the slow-downs that the plan counts with instead of the problem's.
    """

    reason: str
    message: str
    planner: str
    counts: Counts
    cost: MicroDollarsPerHour
    bound_qps: QPS | None = None
    capacity_qps: QPS | None = None
    why_not_runner_up: str = ""
    ranking: tuple[RankedConfiguration, ...] = ()
    refusals: tuple[TypeRefusal, ...] = ()
    verdict: str = ""
    evaluated: tuple[EvaluatedConfiguration, ...] = ()
    next_step: NextStep | None = None
    scaled_qps: QPS | None = None
    tried: bool | None = None
    held_qps: QPS | None = None
    ceiling_qps: QPS | None = None
    floor_cost: MicroDollarsPerHour | None = None
    flow: tuple[ClassFlow, ...] = ()
    prices: MarginalValues | None = None
    cheaper: EvaluatedConfiguration | None = None
    sharing: SharingComparison | None = None
    provisional: bool = False
    tolerances: tuple[tuple[str, Millionths], ...] = ()

    @property
    def feasible(self) -> bool:
        return self.reason == Reason.PLAN_FEASIBLE

    @property
    def runner_up(self) -> RankedConfiguration | None:
        """The best of the others."""
        return next((one for one in self.ranking if one.counts != self.counts), None) if self.feasible else None

    @property
    def qps(self) -> QPS | None:
        return self.bound_qps if self.bound_qps is not None else self.capacity_qps


def infeasible(
    problem: Problem, planner: str, reason: Reason, message: str, refusals: tuple[TypeRefusal, ...] = ()
) -> Plan:
    return Plan(
        reason=reason,
        message=message,
        planner=planner,
        counts=tuple((option.name, 0) for option in problem.types),
        cost=MicroDollarsPerHour(0),
        refusals=problem.left_out + refusals,
        verdict=f"infeasible: {message}",
    )
