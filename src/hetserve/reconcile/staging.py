"""Computes the replicas of each Deployment for now, so that a change of plan never exceeds the budget.

Shrinks first, then grows into the freed money. A type costs price x (the larger of requested replicas and live pods,
plus terminating pods): a terminating pod is paid until it is gone, beside its successor. The plan itself fits, so
the change always completes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from hetserve.base.units import MicroDollarsPerHour


@dataclass(frozen=True, slots=True)
class Instances:
    """Instances of a service on one type: requested replicas, live pods, terminating pods.

    price: of one instance as declared now; None if its InstanceType is gone. surplus: cost beyond `price` of pods
    that hold more GPU memory than declared now. paid: cost of the existing pods by what they hold; None: the price
    each.
    """

    replicas: int = 0
    live: int = 0
    terminating: int = 0
    price: MicroDollarsPerHour | None = None
    surplus: MicroDollarsPerHour = MicroDollarsPerHour(0)
    paid: MicroDollarsPerHour | None = None

    @property
    def committed(self) -> int:
        """Cost of everything that runs or was requested: requested replicas may still become pods."""
        return (max(self.replicas, self.live) + self.terminating) * (self.price or 0) + self.surplus


def hourly_cost(holdings: Mapping[str, Instances]) -> MicroDollarsPerHour | None:
    """Cost of the existing pods; None if a price is unknown."""
    total = 0
    for holding in holdings.values():
        pods = holding.live + holding.terminating
        if pods and holding.price is None:
            return None
        total += pods * (holding.price or 0) if holding.paid is None else holding.paid
    return MicroDollarsPerHour(total)


def exceeds(holdings: Mapping[str, Instances], budget: MicroDollarsPerHour | None) -> bool:
    """Whether what runs or was requested costs more than the budget; types without a price are ignored."""
    return budget is not None and sum(holding.committed for holding in holdings.values()) > budget


def staged_counts(
    desired: Mapping[str, int], holdings: Mapping[str, Instances], budget: MicroDollarsPerHour | None
) -> dict[str, int]:
    """Replicas per type for now: at most the desired ones, and all of them once the budget allows.

    desired: the plan's counts. holdings: of every type that has a Deployment or pods, and of every desired one.
    """
    if budget is None:
        return dict(desired)
    staged = {t: min(count, holdings[t].replicas if t in holdings else 0) for t, count in desired.items()}
    committed = 0
    for t in sorted({*desired, *holdings}):
        have = holdings.get(t, Instances())
        if max(have.replicas, have.live) + have.terminating and have.price is None:
            return staged  # an unknown price is not zero
        committed += have.committed
    for t in sorted(desired):
        have = holdings.get(t, Instances())
        while staged[t] < desired[t] and have.price is not None:
            # A live pod beyond the replicas is already paid.
            step = 0 if staged[t] < have.live else have.price
            if committed + step > budget:
                break
            committed += step
            staged[t] += 1
    return staged
