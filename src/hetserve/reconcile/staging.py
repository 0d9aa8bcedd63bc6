"""How many replicas each Deployment may have now, so that a change of plan never costs more than the budget.

Shrink first; grow into what the pods that are gone have freed. What counts against the budget is, per type,
price x (the larger of the replicas asked for and the pods that live, plus the pods that still terminate):
a terminating pod is paid until it is gone, and its successor comes on top of it. Once all that had to go is
gone, the rest fits because the plan itself fits, so nothing can stay stuck halfway.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from hetserve.units import MicroDollarsPerHour


@dataclass(frozen=True, slots=True)
class Instances:
    """Instances of one type of a service: replicas its Deployment requests, pods that live, pods that terminate.

    price: of one instance as declared now; None if its InstanceType is gone. surplus: what pods with more GPU memory
    than is declared now cost beyond `price` each, until a rollout replaces them. paid: what the pods that exist cost by
    what they hold; None: each costs the price.
    """

    replicas: int = 0
    live: int = 0
    terminating: int = 0
    price: MicroDollarsPerHour | None = None
    surplus: MicroDollarsPerHour = MicroDollarsPerHour(0)
    paid: MicroDollarsPerHour | None = None

    @property
    def committed(self) -> int:
        """What is paid, or was asked for already; until a shrink is written its replicas may still become pods."""
        return (max(self.replicas, self.live) + self.terminating) * (self.price or 0) + self.surplus


def hourly_cost(holdings: Mapping[str, Instances]) -> MicroDollarsPerHour | None:
    """What runs costs, by pods that exist; None where a price is not known."""
    total = 0
    for holding in holdings.values():
        pods = holding.live + holding.terminating
        if pods and holding.price is None:
            return None
        total += pods * (holding.price or 0) if holding.paid is None else holding.paid
    return MicroDollarsPerHour(total)


def exceeds(holdings: Mapping[str, Instances], budget: MicroDollarsPerHour | None) -> bool:
    """Whether what is there, or was asked for already, costs more than the budget; what has no price is left out."""
    return budget is not None and sum(holding.committed for holding in holdings.values()) > budget


def staged_counts(
    desired: Mapping[str, int], holdings: Mapping[str, Instances], budget: MicroDollarsPerHour | None
) -> dict[str, int]:
    """Replicas per type for now: never more than desired, and all of it as soon as the budget holds it.

    desired: the plan's counts. holdings: of every type that has a Deployment or pods, and of every desired one.
    """
    if budget is None:
        return dict(desired)
    staged = {t: min(count, holdings[t].replicas if t in holdings else 0) for t, count in desired.items()}
    committed = 0
    for t in sorted({*desired, *holdings}):
        have = holdings.get(t, Instances())
        if max(have.replicas, have.live) + have.terminating and have.price is None:
            return staged  # a price is missing, and missing is not zero
        committed += have.committed
    for t in sorted(desired):
        have = holdings.get(t, Instances())
        while staged[t] < desired[t] and have.price is not None:
            # A live pod beyond the replicas is paid already.
            step = 0 if staged[t] < have.live else have.price
            if committed + step > budget:
                break
            committed += step
            staged[t] += 1
    return staged
