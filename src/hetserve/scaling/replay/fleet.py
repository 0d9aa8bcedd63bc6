"""Instances in virtual time: launched, serving after their launch time, gone; old ones leave when new ones serve."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hetserve.base.units import MicroDollarsPerHour
from hetserve.planning.plan import Counts
from hetserve.planning.problem import TypeOption

_HOUR = 3600


@dataclass(slots=True)
class Span:
    """The life of an instance [s]: paid from `launched` to `left`, serving from `ready` on. left: infinite: it runs."""

    type: str
    launched: float
    ready: float
    left: float = math.inf

    @property
    def served(self) -> bool:
        """Whether it came to serve."""
        return self.ready < self.left


class Fleet:
    """The instances of a service. It is brought to counts step by step, as an operator would."""

    def __init__(self, types: Sequence[TypeOption], budget: MicroDollarsPerHour | None = None) -> None:
        self._types = {option.name: option for option in types}
        self._budget = budget
        self.spans: list[Span] = []

    def here(self, name: str) -> list[Span]:
        """Instances of a type that have not left, those that serve longest first."""
        return sorted((s for s in self.spans if s.type == name and s.left == math.inf), key=lambda s: s.ready)

    def counts(self, now: float, *, ready: bool) -> dict[str, int]:
        """Instances by type at `now` [s]: all that have not left, or only those that serve."""
        return {name: sum(not ready or s.ready <= now for s in self.here(name)) for name in self._types}

    def served_since(self, now: float) -> float | None:
        """When the last of those that serve at `now` began to [s]; None: none serves."""
        return max((s.ready for s in self.spans if s.left == math.inf and s.ready <= now), default=None)

    def hourly(self) -> int:
        """Micro-dollars/h of all that have not left."""
        return sum(len(self.here(name)) * option.price for name, option in self._types.items())

    def towards(self, counts: Counts, now: float) -> None:
        """Goes as far towards these counts as is possible now.

        Launching instances that are too many leave at once. Serving ones leave when all that are wanted serve, or if
        the budget has no room for both.
        """
        wanted = dict(counts)
        for name in self._types:
            for span in [s for s in self.here(name)[wanted.get(name, 0) :] if s.ready > now]:
                span.left = now
        self._make_room(wanted, now)
        for name, option in self._types.items():
            for _ in range(wanted.get(name, 0) - len(self.here(name))):
                if self._budget is None or self.hourly() + option.price <= self._budget:
                    self.spans.append(Span(name, now, now + option.launch_time))
        if all(len([s for s in self.here(name) if s.ready <= now]) >= n for name, n in wanted.items()):
            for name in self._types:
                for span in self.here(name)[wanted.get(name, 0) :]:
                    span.left = now

    def _make_room(self, wanted: Mapping[str, int], now: float) -> None:
        """Ends surplus instances, the dearest first, while what is to be launched exceeds the budget beside them."""
        if self._budget is None:
            return
        missing = sum(max(n - len(self.here(name)), 0) * self._types[name].price for name, n in wanted.items())
        for name in sorted(self._types, key=lambda name: (-self._types[name].price, name)):
            for span in self.here(name)[wanted.get(name, 0) :]:
                if self.hourly() + missing > self._budget:
                    span.left = now

    def dollars(self, begin: float, end: float) -> float:
        """What the instances cost from begin to end [s]."""
        paid = 0.0
        for span in self.spans:
            alive = min(span.left, end) - max(span.launched, begin)
            paid += max(alive, 0.0) * self._types[span.type].price
        return paid / _HOUR / 1e6
