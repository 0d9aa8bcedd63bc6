"""A service that follows its load, as the API server shows it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from scaling_story import HEAVY, KINDS, RATES

Json = dict[str, Any]
Counts = Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Picture:
    """rm2 as the API server shows it.

    replicas: asked for; ready: of living pods; gone: pods that terminate. left: those of `ready` whose Deployment is
    gone: they will be collected.
    """

    replicas: Counts
    live: Counts
    placed: Counts
    ready: Counts
    gone: Counts
    left: Counts
    plan: Counts
    status: Json
    spec: Json
    prices: Mapping[str, int]
    """Micro-dollars/h of each type that was ever declared, as declared last."""
    declared: frozenset[str]

    @property
    def large(self) -> float | None:
        """Share of large queries that the plan is for; None: as declared, which is none."""
        mix = (self.status.get("plan") or {}).get("mix")
        return None if mix is None else sum(float(one["share"]) for one in mix if one["batch"] == HEAVY)

    def holds(self, counts: Counts) -> float:
        """Queries/s of counts by the sizes that the plan is for: a large query takes twice the time."""
        return rate(counts) / (1 + (self.large or 0.0))

    def most(self, kind: str) -> int:
        """Instances that are paid: those asked for or alive, and those that terminate."""
        return max(self.replicas[kind], self.live[kind]) + self.gone[kind]

    @property
    def paid(self) -> int:
        return sum(self.prices[kind] * self.most(kind) for kind in KINDS)

    @property
    def budget(self) -> int | None:
        budget = self.spec.get("budget")
        return None if budget is None else round(float(budget["hourly"]) * 1e6)

    @property
    def ceiling(self) -> int | None:
        """What may be paid: the budget, or, where the user keeps what runs, what the plan in force costs."""
        if self.budget is None or self.spec["budget"].get("whenTooLow", "Shrink") == "Shrink":
            return self.budget
        return max(self.budget, self.cost(self.plan))

    @property
    def most_instances(self) -> int:
        return int(self.spec["scaling"].get("maxInstances", 10**6))

    @property
    def least_instances(self) -> int:
        return int(self.spec["scaling"].get("minInstances", 1))

    @property
    def allowed(self) -> frozenset[str]:
        return self.declared & frozenset(self.spec["instanceTypes"]["names"])

    @property
    def keeps(self) -> bool:
        """Whether the user keeps what runs: what is only above the budget, or, where nothing fits it, anything."""
        if self.budget is None or self.spec["budget"].get("whenTooLow") != "Keep":
            return False
        cheapest = min((self.prices[kind] for kind in self.allowed), default=0)
        allowed = all(kind in self.allowed for kind, n in self.plan.items() if n)
        fits = allowed and sum(self.plan.values()) <= self.most_instances
        return fits or cheapest * self.least_instances > self.budget

    def cost(self, counts: Counts) -> int:
        return sum(self.prices[kind] * n for kind, n in counts.items())

    def pauses(self, way: str) -> bool:
        return self.spec.get("pause", "None") in ("All", way)

    @property
    def advises(self) -> bool:
        return self.spec.get("mode") == "Advise"

    def is_enough(self, counts: Counts) -> bool:
        """Whether counts keep the least number of instances."""
        return sum(counts.values()) >= self.least_instances

    def condition(self, kind: str) -> Json:
        """A condition in the status; empty: there is none."""
        found = (c for c in self.status.get("conditions") or () if c["type"] == kind)
        return next(found, {})

    def exceeds(self, counts: Counts) -> bool:
        """Whether counts break what is declared: budget, types, or the largest number of instances."""
        return (
            (self.budget is not None and self.cost(counts) > self.budget)
            or any(n and kind not in self.allowed for kind, n in counts.items())
            or sum(counts.values()) > self.most_instances
        )


def owner_of(raw: Json) -> str:
    return next((str(one["uid"]) for one in raw["metadata"].get("ownerReferences") or ()), "")


def rate(counts: Counts) -> float:
    return sum(RATES[kind] * n for kind, n in counts.items())


def told(counts: list[Json]) -> str:
    """Counts of a status as `summary` says them."""
    return summary(Counter({one["instanceType"]: one["count"] for one in counts}))


def summary(counts: Counts) -> str:
    return "+".join(f"{n}x{kind}" for kind, n in sorted(counts.items()) if n)
