"""What stays of a service that costs more than its budget, or has more instances than its limits allow.

Needs no planner: holdings and limits decide. What is on its way out is not counted, since it goes by itself; what asks
for it would only be removed twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from hetserve.planning.rates import RateEstimate
from hetserve.transition.staging import Counts, Holdings, Limits


def within_limits(plan: Counts, holdings: Holdings, limits: Limits, rate: RateEstimate) -> dict[str, int]:
    """Replicas by type, none above those of now, that keep the limits.

    plan: the counts in force; empty: there are none. Those that are not ready go first, then those beyond the plan,
    then any; each time whichever carry least for their money. All go only if not one fits.
    """
    now = {name: min(held.replicas, limits.most.get(name, held.replicas)) for name, held in holdings.items()}
    cut = _Cut(plan, holdings, limits, rate)
    if cut.fits(now):
        return now
    return cut.reduced(now)


def ready_of(counts: Counts, holdings: Holdings) -> dict[str, int]:
    """Instances that are ready and stay ready with these replicas: a ReplicaSet ends those first that are not."""
    return {name: min(n, holdings[name].ready) for name, n in counts.items() if name in holdings}


class _Cut:
    def __init__(self, plan: Counts, holdings: Holdings, limits: Limits, rate: RateEstimate) -> None:
        self.plan, self.holdings, self.limits, self.rate = plan, holdings, limits, rate

    def fits(self, counts: Counts) -> bool:
        """Types without a price are not counted: nobody knows what their removal saves."""
        known = {name: n for name, n in counts.items() if self.holdings[name].price is not None}
        return self.limits.hold(sum(n * self.holdings[name].each for name, n in known.items()), sum(counts.values()))

    def worth(self, counts: Counts) -> tuple[float, float]:
        """Rate of what is ready, and of everything."""
        return self.rate(ready_of(counts, self.holdings)), self.rate(counts)

    def reduced(self, now: Counts) -> dict[str, int]:
        """Removes what is not ready, then what is not planned, then what is; and puts back what still fits."""
        kept = dict(now)
        ready, plan = ready_of(now, self.holdings), self.plan
        floors: list[Callable[[str], int]] = [
            lambda name: max(ready[name], min(plan.get(name, 0), now[name])),
            lambda name: ready[name],
            lambda name: min(ready[name], plan.get(name, 0)),
            lambda _: 0,
        ]
        for floor in floors:
            while not self.fits(kept) and (name := self._least(kept, floor)) is not None:
                kept[name] -= 1
        return self._filled(kept, now)

    def _least(self, kept: Mapping[str, int], floor: Callable[[str], int]) -> str | None:
        """Type of which an instance above the floor carries least for its money."""
        return min(
            self._named(n for n in kept if kept[n] > floor(n)), key=lambda n: (self._loss(kept, n), n), default=None
        )

    def _named(self, names: Iterable[str]) -> list[str]:
        """Those whose removal saves something that is known."""
        return [name for name in names if self.holdings[name].price is not None or self.limits.budget is None]

    def _loss(self, kept: Mapping[str, int], name: str) -> tuple[float, float]:
        """Rate that one instance less loses for each micro-dollar: of what is ready, and of everything."""
        less = {**kept, name: kept[name] - 1}
        each = max(self.holdings[name].each, 1)
        (ready, all_), (ready_less, all_less) = self.worth(kept), self.worth(less)
        return (ready - ready_less) / each, (all_ - all_less) / each

    def _filled(self, kept: dict[str, int], now: Counts) -> dict[str, int]:
        """As much of what was removed as fits beside the rest, what carries most first."""
        while True:
            more = [{**kept, name: kept[name] + 1} for name in sorted(kept) if kept[name] < now[name]]
            fitting = [counts for counts in more if self.fits(counts)]
            if not fitting:
                return kept
            kept = max(fitting, key=self.worth)
