"""The simulated system: real service times, and the dispatcher's predictions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from hetserve.dispatch import LatencyModel
from hetserve.dispatch.kernel import ModelArrays
from hetserve.dispatch.latency import fastest_first
from hetserve.profiles import DenseLatency, LatencyProfile, dense

FEASIBILITY_PERCENTILE: Final = 95.0
"""Quantile by which a policy judges whether a query will be in time."""


@dataclass(frozen=True, slots=True, eq=False)
class System:
    """Instance types that serve one model.

    served: to draw from. predicted: as policies see them. order: of the types, by which ties are broken; default:
    `fastest_first`.
    """

    served: DenseLatency
    predicted: LatencyModel
    order: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))

    def __post_init__(self) -> None:
        arrays = self.predicted.arrays
        if not len(self.order):
            order = fastest_first(arrays.mean, arrays.safe, self.served.means, self.served.ratios)
            object.__setattr__(self, "order", order)

    @classmethod
    def of(
        cls,
        profiles: Mapping[str, LatencyProfile],
        batches: tuple[int, ...],
        slo: float,
        base: str | None = None,
    ) -> System:
        """System of these types (by name) at these batch sizes; slo in seconds.

        base: the type with C_j = 1; default: the fastest at the largest batch.
        """
        served = dense(list(profiles.values()), batches)
        names = tuple(profiles)
        model = LatencyModel.of(
            names,
            batches,
            served.means,
            slo,
            served.quantiles(FEASIBILITY_PERCENTILE),
            None if base is None else names.index(base),
        )
        return cls(served, model)

    def slowed(self, factors: NDArray[np.float64]) -> System:
        """The same, but queries really take so many times as long: [type]. Policies and ties know nothing of it."""
        return replace(self, served=replace(self.served, means=self.served.means * factors[:, None]))

    @property
    def types(self) -> tuple[str, ...]:
        return self.predicted.types

    @property
    def rows_per_type(self) -> int:
        """Rows of the tables that a type has: one for each variant."""
        return 1

    @property
    def slo(self) -> float:
        return self.predicted.arrays.slo

    def workers(self, counts: Mapping[str, int]) -> NDArray[np.int64]:
        """Type of every instance, in `order`: policies break ties by an instance's place.

        Raises ValueError for an unknown type, a negative count, or no instance.
        """
        for name, count in counts.items():
            if name not in self.types or count < 0:
                raise ValueError(f"{count} x {name!r}: need counts of at least 0 of {', '.join(self.types)}")
        out = np.repeat(self.order, [counts.get(self.types[kind], 0) for kind in self.order])
        if not len(out):
            raise ValueError("the configuration has no instance")
        return out

    def present(self, counts: Mapping[str, int]) -> System:
        """Of the types that have instances in these counts: others only take time. Raises as `workers`.

        C_j stay as they are, so the base may be missing: for services without an expected slow-down.
        """
        kinds = np.unique(self.workers(counts))
        given, served = self.predicted.arrays, self.served
        arrays = ModelArrays._make((*(np.asarray(array)[kinds] for array in given[:-1]), given.slo))
        predicted = LatencyModel(tuple(self.types[k] for k in kinds), self.predicted.batches, arrays, base=0)
        order = np.searchsorted(kinds, self.order[np.isin(self.order, kinds)])
        return System(replace(served, means=served.means[kinds], ratios=served.ratios[kinds]), predicted, order)
