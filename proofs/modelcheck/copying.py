"""What a process remembers, as bytes; constant values are kept once and named by number."""

from __future__ import annotations

import io
import pickle
from typing import Any, Final

import numpy as np

from hetserve.placement import Booking, Gpu, GpuRequest, NodeInventory, PodView
from hetserve.placement.ledger.index import GpuIndex, Occupancy

_SHARED = (Booking, Gpu, GpuRequest, NodeInventory, PodView)
_ARRAYS: Final = (np.int64, np.int64, np.bool_, np.bool_, np.bool_, np.int64, np.int64)
"""Types of the arrays that begin an `Occupancy`."""
_structures: dict[tuple[Any, ...], GpuIndex] = {}
_values: list[Any] = []
_numbers: dict[Any, int] = {}


class _Pickler(pickle.Pickler):
    def reducer_override(self, value: Any) -> Any:
        if isinstance(value, GpuIndex):
            return _index, _written(value)
        if not isinstance(value, _SHARED):
            return NotImplemented
        number = _numbers.get(value)
        if number is None:
            number = _numbers[value] = len(_values)
            _values.append(value)
        return shared, (number,)


def shared(number: int) -> Any:
    return _values[number]


def _written(index: GpuIndex) -> tuple[Any, ...]:
    """Key of the GPUs of an index, and what bookings have changed."""
    key = (tuple(index.nodes), index.unreadable)
    _structures.setdefault(key, index)
    occupancy = index.occupancy()
    arrays: Any = occupancy[: len(_ARRAYS)]
    return key, [array.tobytes() for array in arrays], occupancy[len(_ARRAYS) :]


def _index(key: tuple[Any, ...], written: list[bytes], tables: tuple[Any, ...]) -> GpuIndex:
    arrays: list[Any] = [np.frombuffer(data, dtype=kind).copy() for data, kind in zip(written, _ARRAYS, strict=True)]
    return _structures[key].occupied(Occupancy(*arrays, *tables))


def dumps(memory: Any) -> bytes:
    buffer = io.BytesIO()
    _Pickler(buffer, protocol=pickle.HIGHEST_PROTOCOL).dump(memory)
    return buffer.getvalue()


def loads(snapshot: bytes) -> Any:
    return pickle.loads(snapshot)  # noqa: S301  (our own bytes)
