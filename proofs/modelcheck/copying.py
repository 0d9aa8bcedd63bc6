"""Snapshots of worlds as bytes. Values that never change are kept once and named by number: a copy shares them."""

from __future__ import annotations

import io
import pickle
from typing import Any

from hetserve.placement import Booking, Gpu, GpuRequest, NodeInventory, PodView
from modelcheck.extender import NodeEvent, PodEvent
from modelcheck.truth import PodTruth

_SHARED = (Booking, Gpu, GpuRequest, NodeInventory, PodView, PodTruth, PodEvent, NodeEvent)
_values: list[Any] = []
_numbers: dict[Any, int] = {}


class _Pickler(pickle.Pickler):
    def reducer_override(self, value: Any) -> Any:
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


def dumps(world: Any) -> bytes:
    buffer = io.BytesIO()
    _Pickler(buffer, protocol=pickle.HIGHEST_PROTOCOL).dump(world)
    return buffer.getvalue()


def loads(snapshot: bytes) -> Any:
    return pickle.loads(snapshot)  # noqa: S301  (our own bytes)
