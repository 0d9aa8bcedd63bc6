"""What a process remembers, as bytes. Values that never change are kept once and named by number: a copy shares them.

Of a search structure only what bookings change is written; the rest follows from its nodes.
"""

from __future__ import annotations

import io
import pickle
from typing import Any, Final

import numpy as np

from hetserve.placement import Booking, Gpu, GpuRequest, NodeInventory, PodView
from hetserve.placement.ledger.index import GpuIndex

_SHARED = (Booking, Gpu, GpuRequest, NodeInventory, PodView)
_ARRAYS: Final = ("free", "pods", "idle", "open", "usable")
_KINDS: Final = (np.int64, np.int64, np.bool_, np.bool_, np.bool_)
_TABLES: Final = ("_unattributed", "_holders", "content")
_fixed = set(vars(GpuIndex(()))) - {*_ARRAYS, *_TABLES}
_structures: dict[tuple[Any, ...], dict[str, Any]] = {}
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
    """The value with that number."""
    return _values[number]


def _written(index: GpuIndex) -> tuple[Any, ...]:
    """What bookings have changed in an index, after the key of all that they do not."""
    own = vars(index)
    key = (tuple(index.nodes), index.unreadable)
    if key not in _structures:
        _structures[key] = {name: own[name] for name in _fixed}
    return key, [own[name].tobytes() for name in _ARRAYS], [own[name] for name in _TABLES]


def _index(key: tuple[Any, ...], arrays: list[bytes], tables: list[Any]) -> GpuIndex:
    index = GpuIndex.__new__(GpuIndex)
    own, fixed = vars(index), _structures[key]
    own |= fixed
    for name, data, kind in zip(_ARRAYS, arrays, _KINDS, strict=True):
        own[name] = np.frombuffer(data, dtype=kind).copy()
    own |= zip(_TABLES, tables, strict=True)
    return index


def dumps(memory: Any) -> bytes:
    buffer = io.BytesIO()
    _Pickler(buffer, protocol=pickle.HIGHEST_PROTOCOL).dump(memory)
    return buffer.getvalue()


def loads(snapshot: bytes) -> Any:
    return pickle.loads(snapshot)  # noqa: S301  (our own bytes)
