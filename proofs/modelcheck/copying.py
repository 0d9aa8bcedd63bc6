"""What a process remembers, as bytes; constant values are kept once and named by number."""

from __future__ import annotations

import io
import pickle
from collections.abc import Mapping
from copy import copy
from typing import Any, Final

import numpy as np

from hetserve.objects.gpu_sharing import SharingTerms, Tenant
from hetserve.placement.ledger.bookings import Booking
from hetserve.placement.ledger.index import GpuIndex
from hetserve.placement.ledger.inventory import Gpu, NodeInventory
from hetserve.placement.ledger.terms import TermColumns
from hetserve.placement.pods.requests import GpuRequest
from hetserve.placement.pods.view import PodView

_SHARED = (Booking, Gpu, GpuRequest, NodeInventory, PodView, SharingTerms)
_ARRAYS: Final = ("free", "pods", "free_compute", "declared", "accounted", "idle", "open", "usable")
_NUMBERS: Final = 5
"""Of these are numbers, the others masks."""
_TABLES: Final = ("accounts", "content", "_unattributed", "_holders")
"""What else bookings change in an index."""
Tenants = Mapping[int, tuple[Tenant, ...]]
"""Pods on terms by row."""
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
    arrays = [getattr(index, name).tobytes() for name in _ARRAYS]
    return key, arrays, [getattr(index, name) for name in _TABLES], index.terms.rows()


def _index(
    key: tuple[Any, ...], written: list[bytes], tables: list[Any], tenants: Mapping[int, tuple[Tenant, ...]]
) -> GpuIndex:
    """An index over the same GPUs with other bookings, which it does not copy."""
    made = copy(_structures[key])
    for number, (name, data) in enumerate(zip(_ARRAYS, written, strict=True)):
        kind = np.int64 if number < _NUMBERS else np.bool_
        setattr(made, name, np.frombuffer(data, dtype=kind).copy())
    for name, table in zip(_TABLES, tables, strict=True):
        setattr(made, name, table)
    made.terms = TermColumns.of(len(made.gpus))
    for row, here in tenants.items():
        for tenant in here:
            made.terms.book(row, tenant, 1)
    return made


def dumps(memory: Any) -> bytes:
    buffer = io.BytesIO()
    _Pickler(buffer, protocol=pickle.HIGHEST_PROTOCOL).dump(memory)
    return buffer.getvalue()


def loads(snapshot: bytes) -> Any:
    return pickle.loads(snapshot)  # noqa: S301  (our own bytes)
