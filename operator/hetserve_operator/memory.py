"""What the operator remembers of services between steps; it may be lost at any time.

Renderings, refusals until their retry, what is fenced, and repairs: repeated foreign changes of a Deployment are
repaired with growing delays, except for changes that exceed the budget.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from hetserve.demand.observed import Demand, Freshness
from hetserve.reconcile.snapshot import Fenced, Interest, Rendered, WriteStatus
from hetserve_operator.revisions import ListedRevisions
from hetserve_operator.workqueue import Key

LANDED_BY: Final = 75.0
"""Seconds after which no request from before can land: the API server ends requests after 60 s."""


@dataclass(slots=True)
class ServiceFence:
    """Stamp and cleared Deployments of one service; times are monotonic seconds.

    A new term draws a new stamp, and so does a change without an answer: the API server ignores a stamp that is
    already there, and then the resourceVersion stays.
    """

    _term: int | None = None
    _stamp: str = ""
    _cleared: set[str] = field(default_factory=set)
    _refused: dict[str, float] = field(default_factory=dict)

    def begin(self, term: int, new_stamp: Callable[[], str]) -> None:
        """Begins anew in another term, or after `lapse`."""
        if self._term != term:
            self._term, self._stamp = term, new_stamp()
            self._cleared, self._refused = set(), {}

    def clear(self, uid: str) -> None:
        """Notes a Deployment that no earlier request can change: it was fenced, or created in this term."""
        self._cleared.add(uid)

    def keep(self, uids: Iterable[str]) -> None:
        """Forgets the Deployments that are gone."""
        self._cleared.intersection_update(uids)

    def refuse(self, uid: str, now: float) -> None:
        """Notes that the API server refuses to fence a Deployment; after LANDED_BY it counts as cleared."""
        self._refused.setdefault(uid, now)

    def lapse(self) -> None:
        """Notes a change without an answer, which may still land."""
        self._term = None

    def fenced(self, now: float) -> Fenced:
        waited = {uid for uid, since in self._refused.items() if now - since >= LANDED_BY}
        return Fenced(self._stamp, frozenset(self._cleared | waited))


RETRY_REFUSED: Final = 30.0
FREE_REPAIRS: Final = 5
LONGEST_HOLD: Final = 60.0
CALM: Final = 300.0
TROUBLES: Final = 3
"""Failed dry runs in a row before the status reports them."""
BETWEEN_CUTS: Final = 5.0
"""Least seconds between two repairs of a Deployment that restore the budget."""
LONGEST_WAIT: Final = 120.0
"""Seconds for which a decision to grow stays with the load that it asked a plan for: a planner's deadline, twice."""
_MOST_RENDERED: Final = 64


@dataclass(slots=True)
class RepairBackoff:
    """Counts repairs of one Deployment since its last calm time, and delays the next."""

    count: int = 0
    last: float = 0.0

    def note(self, now: float) -> None:
        self.count = 1 if self.is_calm(now) else self.count + 1
        self.last = now

    def is_calm(self, now: float) -> bool:
        """Whether the last repair is so long ago that the count starts again."""
        return now - self.last > CALM

    def held_for(self, now: float) -> float:
        """Seconds until the next repair: none for the first few, then 1, 2, 4, ... 60 s after the last."""
        if self.count < FREE_REPAIRS:
            return 0.0
        delay = min(2.0 ** min(self.count - FREE_REPAIRS, 16), LONGEST_HOLD)
        return max(0.0, self.last + delay - now)


@dataclass(slots=True)
class Memory:
    """Memory of one service; times are monotonic seconds. Reading drops expired entries.

    recorded: the status with the plan that the last pass recorded, for the next one. seen: how new its lists were.
    """

    _rendered: dict[str, tuple[float, Rendered]] = field(default_factory=dict)
    _refused: dict[str, tuple[float, str]] = field(default_factory=dict)
    _repairs: dict[str, RepairBackoff] = field(default_factory=dict)
    _cuts: dict[str, float] = field(default_factory=dict)
    _load: tuple[float, Demand] | None = None
    _failed: int = 0
    written: dict[str, str] = field(default_factory=dict)
    recorded: WriteStatus | None = None
    seen: ListedRevisions = field(default_factory=ListedRevisions)
    fence: ServiceFence = field(default_factory=ServiceFence)

    def weighed(self, demand: Demand | None, now: float) -> Demand | None:
        """The demand to decide by: that of before while it waits for a plan of more instances, so that a load which
        rises faster than planners answer does not ask another question each time. Only what is fresh is replaced.
        """
        if self._load is None or demand is None or demand.freshness is not Freshness.FRESH or self._load[0] <= now:
            self._load = None
            return demand
        return self._load[1]

    def keep_load(self, demand: Demand | None, now: float) -> bool:
        """Keeps the demand of a decision that waits for a plan of more instances; None: it does not.

        Returns whether one was kept until now: nobody has decided yet by what was measured since.
        """
        if demand is None:
            kept, self._load = self._load is not None, None
            return kept
        if self._load is None or self._load[1] is not demand:
            self._load = (now + LONGEST_WAIT, demand)
        return False

    def rendered(self, now: float) -> dict[str, Rendered]:
        self._rendered = {digest: entry for digest, entry in self._rendered.items() if entry[0] > now}
        return {digest: rendered for digest, (_, rendered) in self._rendered.items()}

    def refused(self, now: float) -> dict[str, str]:
        self._refused = {key: entry for key, entry in self._refused.items() if entry[0] > now}
        return {key: refusal for key, (_, refusal) in self._refused.items()}

    def held(self, now: float) -> dict[str, float]:
        self._repairs = {name: r for name, r in self._repairs.items() if not r.is_calm(now)}
        return {name: held for name, r in self._repairs.items() if (held := r.held_for(now)) > 0}

    def cut_held(self, now: float) -> dict[str, float]:
        self._cuts = {name: until for name, until in self._cuts.items() if until > now}
        return {name: until - now for name, until in self._cuts.items()}

    def keep_rendered(self, digest: str, rendered: Rendered, now: float) -> None:
        """Remembers a rendering; a refusal only for RETRY_REFUSED, since policies and quotas change."""
        self._failed = 0
        until = float("inf") if rendered.refusal is None else now + RETRY_REFUSED
        self._rendered[digest] = (until, rendered)
        while len(self._rendered) > _MOST_RENDERED:
            del self._rendered[next(iter(self._rendered))]

    def keep_refused(self, key: str, refusal: str, now: float) -> None:
        self._refused[key] = (now + RETRY_REFUSED, refusal)

    def note_repair(self, name: str, now: float) -> None:
        self._repairs.setdefault(name, RepairBackoff()).note(now)

    def fails_again(self) -> bool:
        """Counts a failed dry run; True after TROUBLES in a row."""
        self._failed += 1
        return self._failed >= TROUBLES

    def note_cut(self, name: str, now: float) -> None:
        self._cuts[name] = now + BETWEEN_CUTS

    def wake_after(self, now: float) -> float | None:
        """Seconds until the next refused request may be retried; None if there is none."""
        ends = [until for until, _ in self._refused.values() if until > now]
        ends += [until for until, r in self._rendered.values() if r.refusal is not None and until > now]
        return min(ends) - now if ends else None


class Interests:
    """Interest of each service that has settled. Any other has another pass anyway."""

    def __init__(self) -> None:
        self._of: dict[Key, Interest] = {}
        self._room: dict[str | None, set[Key]] = {}
        self._types: dict[str | None, set[Key]] = {}

    def record(self, key: Key, interest: Interest) -> None:
        """Replaces the interest of a service."""
        if self._of.get(key) == interest:
            return
        self.forget(key)
        self._of[key] = interest
        for found, name in self._kept_by(interest):
            found.setdefault(name, set()).add(key)

    def forget(self, key: Key) -> None:
        """Drops the interest of a deleted service."""
        interest = self._of.pop(key, None)
        if interest is None:
            return
        for found, name in self._kept_by(interest):
            found[name].discard(key)
            if not found[name]:
                del found[name]

    def is_quiet(self, key: Key, demand: Demand) -> bool:
        """Whether a measured load changes nothing for a service."""
        interest = self._of.get(key)
        return interest is not None and interest.dead_band is not None and interest.dead_band.covers(demand)

    @property
    def rooms(self) -> bool:
        """Whether the room of any type counts for any service."""
        return bool(self._room)

    def in_room_of(self, names: Iterable[str]) -> set[Key]:
        """Services for which the room of one of these types counts."""
        return self._room.get(None, set()).union(*(self._room.get(name, ()) for name in names))

    def in_type(self, name: str) -> set[Key]:
        """Services that read a type, whether or not they may use it."""
        return self._types.get(None, set()) | self._types.get(name, set())

    def _kept_by(self, interest: Interest) -> Iterator[tuple[dict[str | None, set[Key]], str | None]]:
        """Where an interest is kept; None: under all types."""
        for found, wanted in ((self._room, interest.room), (self._types, interest.types)):
            yield from ((found, name) for name in ((None,) if wanted is None else wanted))
