"""Which services an instance type concerns, as their last passes found."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from hetserve.demand.observed import Demand
from hetserve.reconcile.snapshot import Interest
from hetserve_operator.workqueue import Key


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
