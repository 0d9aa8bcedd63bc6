"""What a service holds of each type and may hold, in instances and money: the terms of every step of a change."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from hetserve.base.units import MicroDollarsPerHour

Counts = Mapping[str, int]
"""Instances by type."""


@dataclass(frozen=True, slots=True)
class Instances:
    """Instances of a service on one type: requested replicas, live pods, terminating pods.

    price: of one instance as declared now; None if its type is gone. surplus: cost beyond `price` of pods
    that hold more GPU memory than declared now. paid: cost of the existing pods by what they hold; None: the price
    each. placed, ready: live pods that have a node, and that are Ready.
    """

    replicas: int = 0
    live: int = 0
    terminating: int = 0
    price: MicroDollarsPerHour | None = None
    surplus: MicroDollarsPerHour = MicroDollarsPerHour(0)
    paid: MicroDollarsPerHour | None = None
    placed: int = 0
    ready: int = 0

    @property
    def most(self) -> int:
        """Everything that runs or was requested: replicas may still become pods, and a pod is paid until it is gone."""
        return max(self.replicas, self.live) + self.terminating

    @property
    def committed(self) -> int:
        """Cost of `most`."""
        return self.most * (self.price or 0) + self.surplus

    @property
    def each(self) -> int:
        """Cost of one of them, rounded up."""
        return (self.price or 0) - (-self.surplus // max(self.most, 1))

    @property
    def leaving(self) -> int:
        """Pods that go without anybody's doing."""
        return self.terminating + max(0, self.live - self.replicas)


@dataclass(frozen=True, slots=True)
class Limits:
    """What may exist at once. budget: micro-dollars/h. most: instances by type. total: instances. None: no limit."""

    budget: MicroDollarsPerHour | None = None
    most: Counts = field(default_factory=dict)
    total: int | None = None

    def hold(self, cost: int, total: int) -> bool:
        """Whether a cost and a number of instances are within the limits."""
        return (self.budget is None or cost <= self.budget) and (self.total is None or total <= self.total)


Holdings = Mapping[str, Instances]


def hourly_cost(holdings: Holdings) -> MicroDollarsPerHour | None:
    """Cost of the existing pods; None if a price is unknown."""
    total = 0
    for holding in holdings.values():
        pods = holding.live + holding.terminating
        if pods and holding.price is None:
            return None
        total += pods * (holding.price or 0) if holding.paid is None else holding.paid
    return MicroDollarsPerHour(total)


@dataclass(frozen=True, slots=True)
class Costs:
    """What exists of a service costs, in micro-dollars/h; None: a price is not known.

    running: all of its pods, terminating ones too. overlapping: those of them that the plan does not have.
    """

    running: MicroDollarsPerHour | None = None
    overlapping: MicroDollarsPerHour | None = None


def costs(holdings: Holdings, plan: Counts) -> Costs:
    """Costs of the existing pods. plan: instances by type in force; pods of its types count as its own, as many."""
    running = hourly_cost(holdings)
    if running is None:
        return Costs()
    planned = 0
    for name, holding in holdings.items():
        planned += min(plan.get(name, 0), holding.live + holding.terminating) * (holding.price or 0)
    return Costs(running, MicroDollarsPerHour(max(0, running - planned)))


def exceeds(holdings: Holdings, budget: MicroDollarsPerHour | None) -> bool:
    """Whether what runs or was requested costs more than the budget; types without a price are ignored."""
    return budget is not None and sum(holding.committed for holding in holdings.values()) > budget
