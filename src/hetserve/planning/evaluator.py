"""What a configuration really holds: the one interface of all planners that try configurations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from hetserve.planning.plan import Counts


class Evaluator(Protocol):
    """Queries/s that a configuration holds within the SLO; any callable will do.

    It may simulate, measure a cluster or look up what was measured; asked twice, it must answer the same.
    """

    def __call__(self, counts: Counts, /) -> float:
        """Queries/s of these counts, 0 where no rate passes."""
        ...


@dataclass(frozen=True, slots=True)
class Measurements:
    """Evaluator of what was measured: counts, in any order of types and without zeros if one likes, to queries/s."""

    rates: Mapping[Counts, float]

    def __call__(self, counts: Counts, /) -> float:
        """Raises KeyError for a configuration that was not measured; it is not worth 0."""
        wanted = held(counts)
        for key, rate in self.rates.items():
            if held(key) == wanted:
                return rate
        raise KeyError(f"no measurement of {dict(wanted)}")


def held(counts: Counts) -> Counts:
    """Counts without zeros, by name: equal for equal configurations."""
    return tuple(sorted((name, count) for name, count in counts if count))
