"""The next step from what runs to a plan: old instances go when their successors are ready, within every limit.

1. Down to the limits, whatever that costs: see `budget_cut`.
2. Old instances go as far as what is ready then still carries what the plan carries. One that is not ready may come
   back: it goes if it has no node, or once all of the plan is on nodes.
3. New instances start, as far as the limits hold them beside everything that is there or was requested.
4. Where neither money nor GPUs leave room, and nothing is on its way in or out: so many old instances go as make room
   for one new one, those that leave the most rate of what is ready.

A state decides, not a history, so an operator that restarts goes on. It ends where new instances become ready: each
step 4 shortens what is beyond the plan, and the plan itself is within the limits.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from hetserve.planning.rates import NOTICEABLE, RateEstimate
from hetserve.transition.budget_cut import ready_of, within_limits
from hetserve.transition.staging import Counts, Holdings, Instances, Limits

InTheWay = Mapping[str, frozenset[str]]
"""By type whose new instances find no place now: the types whose old instances take it; empty: none does."""


@dataclass(frozen=True, slots=True)
class Stage:
    """One step. counts: replicas by type for now. doing: what it does, in words. left: instances still to start or end.

    under_way: whether it is short of the plan, so that another step follows.
    """

    counts: Mapping[str, int]
    doing: str = ""
    left: int = 0
    under_way: bool = False


def next_counts(
    plan: Counts, holdings: Holdings, limits: Limits, rate: RateEstimate, in_the_way: InTheWay | None = None
) -> Stage:
    """The step for now.

    plan: the counts in force, within the limits. holdings: of every type of which anything is there or planned. rate:
    see `rate_estimate`. Equal types of another name get the same step, but for ties.
    """
    held = {name: holdings.get(name, Instances()) for name in sorted({*plan, *holdings})}
    move = _Transition({name: n for name, n in plan.items() if n > 0}, held, limits, rate, in_the_way or {})
    now = {name: one.replicas for name, one in held.items()}
    kept = within_limits(move.plan, held, limits, rate)
    cut = dict(kept)
    going = move.retired(kept)
    counts = move.grown(going)
    broken = {} if move.is_moving(counts) else move.broken(counts)
    counts = {name: n - broken.get(name, 0) for name, n in counts.items()}
    doing = move.words(now, cut, going, counts, broken)
    return Stage(counts, doing, move.left(), any(n != move.plan.get(t, 0) for t, n in counts.items()))


@dataclass(frozen=True, slots=True)
class _Transition:
    plan: Counts
    held: Holdings
    limits: Limits
    rate: RateEstimate
    in_the_way: InTheWay

    def wanted(self, name: str) -> int:
        return self.plan.get(name, 0)

    def retired(self, kept: Mapping[str, int]) -> dict[str, int]:
        """Without the old instances that are not needed any more."""
        placed = all(self.held[name].placed >= n for name, n in self.plan.items())
        kept = {
            name: max(min(n, self.held[name].ready if placed else self.held[name].placed), min(n, self.wanted(name)))
            for name, n in kept.items()
        }
        if not self.is_enough(kept):
            return kept
        for name in sorted((n for n in kept if kept[n] > self.wanted(n)), key=lambda n: (self._worth(kept, n), n)):
            kept[name] = self._fewest(kept, name)
        return kept

    def is_enough(self, counts: Counts) -> bool:
        """Whether what is ready of these replicas carries what the plan carries."""
        ready = ready_of(counts, self.held)
        if all(ready[name] >= n for name, n in self.plan.items()):
            return True
        needed = self.rate(self.plan)
        return needed > 0 and self.rate(ready) >= needed * (1 - NOTICEABLE)

    def _fewest(self, kept: Mapping[str, int], name: str) -> int:
        """The fewest instances of a type that are enough beside the others."""
        low, high = self.wanted(name), kept[name]
        while low < high:
            middle = (low + high) // 2
            low, high = (low, middle) if self.is_enough({**kept, name: middle}) else (middle + 1, high)
        return low

    def _worth(self, counts: Mapping[str, int], name: str) -> float:
        """Rate that one instance less loses, for each micro-dollar."""
        ready = ready_of(counts, self.held)
        less = {**ready, name: max(ready[name] - 1, 0)}
        return (self.rate(ready) - self.rate(less)) / max(self.held[name].each, 1)

    def grown(self, kept: Mapping[str, int]) -> dict[str, int]:
        """With as many new instances as the limits hold beside all that is there, what carries most first."""
        counts = dict(kept)
        if self._blocked():
            return counts
        while new := [name for name in counts if counts[name] < self.wanted(name) and self._affords(counts, name)]:
            everything = {**counts, **{name: self.wanted(name) for name in new}}
            if self.limits.hold(*self._committed(everything)):
                return everything
            first = max(new, key=lambda name: (self._gain(counts, name), -self.held[name].each))
            counts[first] += 1
        return counts

    def _blocked(self) -> bool:
        """What costs nobody knows how much leaves nobody knows how much."""
        return self.limits.budget is not None and any(one.most and one.price is None for one in self.held.values())

    def _affords(self, counts: Mapping[str, int], name: str) -> bool:
        priced = self.limits.budget is None or self.held[name].price is not None
        return priced and self.limits.hold(*self._committed({**counts, name: counts[name] + 1}))

    def _committed(self, counts: Counts) -> tuple[int, int]:
        """Cost and number of all that is there, was requested before, or is now."""
        cost = total = 0
        for name, held in self.held.items():
            more = max(0, counts.get(name, 0) - max(held.replicas, held.live))
            cost += held.committed + more * (held.price or 0)
            total += held.most + more
        return cost, total

    def _gain(self, counts: Mapping[str, int], name: str) -> float:
        more = {**counts, name: counts[name] + 1}
        return (self.rate(more) - self.rate(counts)) / max(self.held[name].each, 1)

    def is_moving(self, counts: Counts) -> bool:
        """Whether a step is under way that may make room by itself."""
        changed = any(n != self.held[name].replicas for name, n in counts.items() if name not in self.in_the_way)
        return changed or any(self._launching(name, counts) for name in self.plan)

    def _launching(self, name: str, counts: Counts) -> bool:
        """Whether planned instances are on their way; those that find no place are not."""
        held, asked = self.held[name], min(counts[name], self.wanted(name))
        return held.ready < (min(asked, held.placed) if name in self.in_the_way else asked)

    def broken(self, counts: Counts) -> dict[str, int]:
        """Old instances that go first, by type, where there is no room: those that leave the most rate."""
        spare = {name: n - self.wanted(name) for name, n in counts.items() if n > self.wanted(name)}
        stuck = [name for name in self.in_the_way if self.wanted(name) > self.held[name].placed]
        leaving = any(one.leaving for one in self.held.values())
        options = [{old: 1} for name in stuck if not leaving for old in self.in_the_way[name] if old in spare]
        missing = [name for name in self.plan if counts[name] < self.wanted(name) and name not in self.in_the_way]
        if missing and (unknown := {n: k for n, k in spare.items() if self._is_unknown(n)}):
            return unknown
        if not self._blocked():
            shortages = [self._shortage(counts, name) for name in missing]
            if not any(cost <= 0 and total <= 0 for cost, total in shortages):
                options += [option for shortage in shortages for option in self._rooms(counts, spare, shortage)]
        if not options:
            return {}
        return max(options, key=lambda option: (self._left(counts, option), -sum(option.values())))

    def _is_unknown(self, name: str) -> bool:
        return self.limits.budget is not None and self.held[name].price is None

    def _left(self, counts: Counts, gone: Counts) -> float:
        return self.rate(ready_of({name: n - gone.get(name, 0) for name, n in counts.items()}, self.held))

    def _shortage(self, counts: Counts, name: str) -> tuple[int, int]:
        """Money and number that one more instance lacks once all that leaves is gone; 0 or less: none."""
        cost = sum(n * self.held[t].each for t, n in counts.items()) + (self.held[name].price or 0)
        budget, total = self.limits.budget, self.limits.total
        return (
            0 if budget is None else cost - budget,
            0 if total is None else sum(counts.values()) + 1 - total,
        )

    def _rooms(self, counts: Counts, spare: Counts, shortage: tuple[int, int]) -> list[dict[str, int]]:
        """Ways to make so much room: of each type alone, else of all, what carries least for its money first."""
        cost, total = shortage
        alone = {name: max(-(-cost // max(self.held[name].each, 1)), total) for name in spare}
        single = [{name: n} for name, n in alone.items() if n <= spare[name]]
        if single:
            return single
        gone: dict[str, int] = {}
        for name in sorted(spare, key=lambda n: (self._worth(counts, n), n)):
            while (cost > 0 or total > 0) and gone.get(name, 0) < spare[name]:
                gone[name] = gone.get(name, 0) + 1
                cost, total = cost - self.held[name].each, total - 1
        return [gone] if cost <= 0 and total <= 0 else []

    def left(self) -> int:
        """Instances that are still to become ready, or to end."""
        return sum(
            max(0, self.wanted(name) - one.ready)
            + max(0, max(one.replicas, one.live) - self.wanted(name))
            + one.terminating
            for name, one in self.held.items()
        )

    def words(self, now: Counts, cut: Counts, going: Counts, counts: Counts, broken: Counts) -> str:
        """What the step does, or waits for."""
        launching = {n: min(counts[n], self.wanted(n)) - self.held[n].ready for n in self.plan}
        beyond = {n: counts[n] - self.wanted(n) for n in counts}
        said = [
            ("ending {}: the limits hold no more", _less(now, cut)),
            ("ending {}: what is ready carries as much as the plan", _less(cut, going)),
            ("starting {}", _less(counts, going)),
            ("ending {} first: there is no room for their successors beside them", broken),
        ]
        parts = [text.format(described(some)) for text, some in said if described(some)]
        if parts:
            return "; ".join(parts)
        if described(launching):
            keeps = f"; {described(beyond)} stay until then" if described(beyond) else ""
            return f"waiting until {described(launching)} more are ready{keeps}"
        leaving = {name: one.leaving for name, one in self.held.items()}
        return f"waiting until {described(leaving)} have ended" if described(leaving) else "waiting for room"


def described(counts: Counts) -> str:
    """Positive counts as ``2xg4dn.xlarge and 1xr5n.large``; empty: none."""
    return " and ".join(f"{n}x{name}" for name, n in sorted(counts.items()) if n > 0)


def _less(before: Counts, after: Counts) -> dict[str, int]:
    return {name: n - after.get(name, 0) for name, n in before.items() if n > after.get(name, 0)}
