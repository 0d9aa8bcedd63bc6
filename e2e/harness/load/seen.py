"""What is seen of a play: a moment each second, with what Prometheus and the API server said then.

What could not be asked, or had no answer, is None: it is not zero.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

Ready = tuple[tuple[str, int], ...]
"""Ready instances by type, sorted, without zeros."""

_HOUR: Final = 3600.0


@dataclass(frozen=True, slots=True)
class Instances:
    """Pods of one type. leaving: deleted and not gone."""

    ready: int = 0
    launching: int = 0
    leaving: int = 0

    @property
    def paid(self) -> int:
        return self.ready + self.launching + self.leaving


@dataclass(frozen=True, slots=True)
class Told:
    """A decision as the service's status tells it. at: seconds of the play."""

    at: float
    action: str
    reason: str
    before: str
    after: str
    message: str

    @property
    def is_change(self) -> bool:
        return self.before != self.after


@dataclass(frozen=True, slots=True)
class Queries:
    """Queries since the play's begin. in_time: within the SLO, of those that ended."""

    received: float
    ended: float
    in_time: float

    @property
    def late(self) -> float:
        return max(self.ended - self.in_time, 0.0)

    @property
    def late_share(self) -> float | None:
        """None: none ended."""
        return self.late / self.ended if self.ended else None

    def since(self, before: Queries) -> Queries:
        """Those after a moment before."""
        return Queries(
            self.received - before.received, self.ended - before.ended, max(self.in_time - before.in_time, 0.0)
        )


@dataclass(frozen=True, slots=True)
class Moment:
    """at: seconds of the play. rate: of the trace, load: measured, planned_for: that the plan in force was made for
    [queries/s]. cost: micro-dollars/h of all pods. lag: seconds by which the twin is behind.
    """

    at: float
    rate: float | None = None
    load: float | None = None
    planned_for: float | None = None
    cost: int | None = None
    queries: Queries | None = None
    instances: Mapping[str, Instances] | None = None
    lag: float | None = None

    @property
    def ready(self) -> Ready | None:
        """None: the pods are not known."""
        if self.instances is None:
            return None
        return tuple((name, one.ready) for name, one in sorted(self.instances.items()) if one.ready)


def spent(moments: Sequence[Moment], speed: float) -> int:
    """Micro-dollars over the time of the trace: each known price holds until the next moment.

    speed: seconds of the trace in a second.
    """
    return round(sum((m.cost or 0) * (n.at - m.at) * speed / _HOUR for m, n in pairwise(moments)))


def unknown_seconds(moments: Sequence[Moment]) -> float:
    """Seconds of the play in which the price was not known: they are not in what was spent."""
    return sum(n.at - m.at for m, n in pairwise(moments) if m.cost is None)


def total(moments: Iterable[Moment]) -> Queries:
    """Queries of the play as last known."""
    known = [moment.queries for moment in moments if moment.queries is not None]
    return known[-1] if known else Queries(0, 0, 0)


def lately(moments: Sequence[Moment], seconds: float) -> Queries | None:
    """Queries of the last seconds; None: not known."""
    known = [(moment.at, moment.queries) for moment in moments if moment.queries is not None]
    if not known:
        return None
    end, last = known[-1]
    before = [queries for at, queries in known if at <= end - seconds]
    return last.since(before[-1]) if before else last


def late_by(moments: Sequence[Moment], seconds: float) -> list[tuple[float, float, float]]:
    """(begin, end, share of late queries) of stretches of at least so many seconds in which queries ended."""
    found, before = [], (0.0, Queries(0, 0, 0))
    for at, queries in ((moment.at, moment.queries) for moment in moments if moment.queries is not None):
        if at - before[0] < seconds:
            continue
        share = queries.since(before[1]).late_share
        if share is not None:
            found.append((before[0], at, share))
        before = (at, queries)
    return found


def merged(known: Sequence[Told], newer: Iterable[Told]) -> list[Told]:
    """All decisions once, the oldest first: a status keeps the last few only."""
    fresh = dict.fromkeys((*known, *newer))
    return sorted(fresh, key=lambda told: told.at)
