"""A model that several variants serve, by type, and by how many items are joined."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from hetserve.dispatch import LatencyModel
from hetserve.dispatch.joining import Variant, VariantModel
from hetserve.dispatch.kernel import ModelArrays
from hetserve.dispatch.latency import fastest_first
from hetserve.profiles import LatencyProfile, LinearProfile, dense
from hetserve.serving.system import FEASIBILITY_PERCENTILE, System

_NOT_SERVED: Final = LinearProfile(intercept=math.inf, slope=math.inf, max_batch=0)  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True, eq=False)
class VariantSystem(System):
    """Instance types that serve one model by its variants.

    Rows of `served` and `predicted` are pairs of type and variant, type by type; their batches are 1, 2, ... items
    together. variants: of rising accuracy. names: of the types. switches [type]: seconds until another variant serves.
    grace: seconds from a query's deadline until its answer is worth nothing.
    """

    variants: tuple[Variant, ...] = ()
    names: tuple[str, ...] = ()
    switches: NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))
    grace: float = 0.0

    def __post_init__(self) -> None:
        if not len(self.order):
            tables = (*self.predicted.arrays[:2], self.served.means, self.served.ratios, self.switches)
            object.__setattr__(self, "order", fastest_first(*(self._by_type(table) for table in tables)))

    def _by_type(self, table: NDArray[np.float64]) -> NDArray[np.float64]:
        return table.reshape(len(self.names), -1)

    @classmethod
    def of_variants(
        cls,
        profiles: Mapping[str, Mapping[str, LatencyProfile]],
        variants: Sequence[Variant],
        slo: float,
        *,
        hard: float | None = None,
        switches: Mapping[str, float] | None = None,
        largest: int | None = None,
    ) -> VariantSystem:
        """System of these types and variants: {type: {variant: its times by the items together}}.

        slo: seconds to the deadline. hard: seconds until an answer is worth nothing; default: the SLO. switches: by
        type, seconds until another variant serves; default: 0. largest: most items together; default: what profiles
        know. Raises ValueError.
        """
        hard = slo if hard is None else hard
        switches = {} if switches is None else switches
        _check(profiles, variants, slo, hard, switches)
        sizes = range(1, _largest(profiles, largest) + 1)
        ranked = _ranked(profiles, variants, sizes)
        rows = [profiles[name].get(one.name, _NOT_SERVED) for name in profiles for one in ranked]
        served, pairs = dense(rows, sizes), tuple(f"{name}/{one.name}" for name in profiles for one in ranked)
        predicted = LatencyModel.of(pairs, sizes, served.means, slo, served.quantiles(FEASIBILITY_PERCENTILE), base=0)
        times = np.array([switches.get(name, 0.0) for name in profiles])
        return cls(served, predicted, _UNORDERED, ranked, tuple(profiles), times, hard - slo)

    @property
    def types(self) -> tuple[str, ...]:
        return self.names

    @property
    def rows_per_type(self) -> int:
        return len(self.variants)

    def model(self, predicted: LatencyModel) -> VariantModel:
        """What a joining policy sees, of these predicted times."""
        mean = predicted.arrays.mean.reshape(len(self.names), len(self.variants), -1)
        return VariantModel(self.names, self.variants, mean, self.switches, self.slo, self.grace)

    def slowed(self, factors: NDArray[np.float64]) -> VariantSystem:
        means = self.served.means * np.repeat(factors, len(self.variants))[:, None]
        return replace(self, served=replace(self.served, means=means))

    def present(self, counts: Mapping[str, int]) -> VariantSystem:
        kinds = np.unique(self.workers(counts))
        rows = (kinds[:, None] * len(self.variants) + np.arange(len(self.variants))).ravel()
        given, served = self.predicted.arrays, self.served
        arrays = ModelArrays._make((*(np.asarray(array)[rows] for array in given[:-1]), given.slo))
        predicted = LatencyModel(tuple(self.predicted.types[k] for k in rows), self.predicted.batches, arrays, base=0)
        order = np.searchsorted(kinds, self.order[np.isin(self.order, kinds)])
        served = replace(served, means=served.means[rows], ratios=served.ratios[rows])
        names = tuple(self.names[kind] for kind in kinds)
        return VariantSystem(served, predicted, order, self.variants, names, self.switches[kinds], self.grace)


_UNORDERED: Final = np.zeros(0, np.int64)


def _check(
    profiles: Mapping[str, Mapping[str, LatencyProfile]],
    variants: Sequence[Variant],
    slo: float,
    hard: float,
    switches: Mapping[str, float],
) -> None:
    names = [one.name for one in variants]
    if not names or len(set(names)) < len(names):
        raise ValueError(f"variants {', '.join(names) or 'none'}: need at least one, and names of their own")
    if not slo <= hard < math.inf:
        raise ValueError(f"hard deadline {hard} s: must be at least the SLO, {slo} s, and finite")
    for type_name, known in profiles.items():
        for unknown in sorted(known.keys() - set(names)):
            raise ValueError(f"{type_name}: no variant {unknown}; there are: {', '.join(names)}")
        if not known:
            raise ValueError(f"{type_name}: has no latency of a variant; there are: {', '.join(names)}")
    for name in sorted(set(names).difference(*profiles.values())):
        raise ValueError(f"variant {name}: no instance type has its latency")
    for type_name, seconds in switches.items():
        if type_name not in profiles or not (math.isfinite(seconds) and seconds >= 0):
            raise ValueError(f"switch time {seconds} s of {type_name}: need at least 0, of {', '.join(profiles)}")


def _largest(profiles: Mapping[str, Mapping[str, LatencyProfile]], given: int | None) -> int:
    bounds = [given] if given is not None else [one.max_batch for known in profiles.values() for one in known.values()]
    known = [bound for bound in bounds if bound is not None]
    if len(known) < len(bounds) or max(known) < 1:
        raise ValueError(f"largest {given}: must be the most items together, at least 1: a profile has no limit")
    return max(known)


def _ranked(
    profiles: Mapping[str, Mapping[str, LatencyProfile]], variants: Sequence[Variant], sizes: range
) -> tuple[Variant, ...]:
    """By rising accuracy; of equal ones the faster is the later, types as they are named by nobody."""

    def times(one: Variant) -> list[list[float]]:
        found = [[profile.get(one.name, _NOT_SERVED).mean(n) for n in sizes] for profile in profiles.values()]
        return sorted([-math.inf if mean is None else -mean for mean in row] for row in found)

    return tuple(sorted(variants, key=lambda one: (one.accuracy, one.utility, times(one))))
