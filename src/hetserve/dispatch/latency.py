"""Predicted service times of one model on several instance types."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hetserve.dispatch.kernel import ModelArrays


@dataclass(frozen=True, slots=True, eq=False)
class LatencyModel:
    """Service times as the dispatcher predicts them; arrays are read-only.

    types: names. batches: strictly increasing; a batch in between counts as the larger. base: index of the type with
    C_j = 1.
    """

    types: tuple[str, ...]
    batches: NDArray[np.int64]
    arrays: ModelArrays
    base: int

    @classmethod
    def of(
        cls,
        types: Sequence[str],
        batches: Sequence[int],
        mean: NDArray[np.float64],
        slo: float,
        safe: NDArray[np.float64] | None = None,
        base: int | None = None,
    ) -> LatencyModel:
        """Model from mean and safe (default: mean) service times [type, batch] in seconds; infinity: not servable.

        base: index; default: the first of `fastest_first` (Kairos section 5.1). Raises ValueError, with type and
        batch, for a time that is not positive.
        """
        sizes = np.asarray(batches, dtype=np.int64)
        mean = np.array(mean, dtype=np.float64)
        safe = mean.copy() if safe is None else np.array(safe, dtype=np.float64)
        _validate(types, sizes, mean, safe, slo)
        base = int(fastest_first(mean)[0]) if base is None else base
        within = (mean <= slo).sum(axis=1, dtype=np.int64)
        arrays = ModelArrays(mean, safe, _coefficients(mean, base), within, float(slo))
        for array in (sizes, *arrays[:-1]):
            assert isinstance(array, np.ndarray)  # noqa: S101  all but the SLO
            array.flags.writeable = False
        return cls(tuple(types), sizes, arrays, base)

    def size_of(self, batch: int) -> int:
        """Index of a batch, rounded up; ValueError below 1 or beyond the largest."""
        index = int(np.searchsorted(self.batches, batch))
        if batch < 1 or index == len(self.batches):
            raise ValueError(f"batch {batch}: must be between 1 and {self.batches[-1]}")
        return index


def fastest_first(*tables: NDArray[np.float64]) -> NDArray[np.int64]:
    """Types by their time at the largest batch, ties at smaller ones, then by the next table: never by name or place.

    tables: [type, batch, ...], not negative. Types that still tie are alike, and keep their order.
    """

    def figures(kind: int) -> list[bytes]:
        # Doubles that are not negative order like their bytes, which compare faster than lists.
        return [table[kind, ::-1].astype(">f8").tobytes() for table in tables]

    return np.array(sorted(range(len(tables[0])), key=figures), dtype=np.int64)


def _coefficients(mean: NDArray[np.float64], base: int) -> NDArray[np.float64]:
    """Kairos's C_j: the base's latency divided by the type's at the largest batch that both serve."""
    out = np.empty(len(mean))
    for j, row in enumerate(mean):
        both = np.flatnonzero(np.isfinite(row) & np.isfinite(mean[base]))
        out[j] = mean[base, both[-1]] / row[both[-1]] if len(both) else 1.0
    return out


def _validate(
    types: Sequence[str],
    batches: NDArray[np.int64],
    mean: NDArray[np.float64],
    safe: NDArray[np.float64],
    slo: float,
) -> None:
    shape = (len(types), len(batches))
    if 0 in shape or mean.shape != shape or safe.shape != shape:
        raise ValueError(f"service times must be {shape[0]} types x {shape[1]} batches, at least one each")
    if batches[0] < 1 or np.any(np.diff(batches) <= 0):
        raise ValueError("batches must be at least 1 and strictly increasing")
    if not (np.isfinite(slo) and slo > 0):
        raise ValueError(f"slo {slo}: must be a positive number of seconds")
    for label, table in (("mean", mean), ("safe", safe)):
        bad = np.argwhere(~(table > 0))
        if len(bad):
            i, j = bad[0]
            raise ValueError(f"{label} latency of {types[i]} at batch {batches[j]} is {table[i, j]}: must be positive")
