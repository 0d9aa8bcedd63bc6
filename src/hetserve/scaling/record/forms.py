"""How values are written as JSON: by the type hints of their fields, so that no field can be left out."""

from __future__ import annotations

import dataclasses
import math
import re
import types
import typing
from collections.abc import Mapping
from enum import Enum
from functools import cache
from typing import Any, Final, Literal

from hetserve.demand.mix import BatchMix
from hetserve.planning.plan import Plan
from hetserve.profiles import LatencyProfile, LinearProfile, Spread, TableProfile

KIND: Final = "$kind"
"""Says of which class an object is, where several are possible. No field begins with $."""
REFERENCE: Final = "$shared"
"""Refers to a value that is written once."""
ONCE: Final = (LinearProfile, TableProfile, Spread, BatchMix, Plan)
"""Classes whose values are large and occur often: equal ones are written once."""
NOT_FINITE: Final = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}
"""Floats that JSON has no number for."""
_PROTOCOLS: Final[Mapping[Any, tuple[type, ...]]] = {LatencyProfile: (LinearProfile, TableProfile)}


@dataclasses.dataclass(frozen=True, slots=True)
class Field:
    """A field of a dataclass. key: in JSON. required: it has no default."""

    name: str
    key: str
    hint: Any
    required: bool


@cache
def fields_of(kind: type) -> tuple[Field, ...]:
    """What a value of a dataclass is made of; derived fields are left out."""
    hints = typing.get_type_hints(kind)
    return tuple(
        Field(one.name, _key(one.name), hints[one.name], _is_required(one))
        for one in dataclasses.fields(kind)
        if one.init
    )


def _is_required(one: dataclasses.Field[Any]) -> bool:
    return one.default is dataclasses.MISSING and one.default_factory is dataclasses.MISSING


def _key(name: str) -> str:
    """``least_total`` as ``leastTotal``."""
    return re.sub(r"_([a-z0-9])", lambda found: found[1].upper(), name)


@cache
def plain(hint: Any) -> Any:
    """The hint without the names that NewType gives."""
    while hasattr(hint, "__supertype__"):
        hint = hint.__supertype__
    return hint


@cache
def choices(hint: Any) -> tuple[Any, ...]:
    """What a union or a protocol may be; of any other hint, the hint itself."""
    hint = plain(hint)
    if hint in _PROTOCOLS:
        return _PROTOCOLS[hint]
    if isinstance(hint, types.UnionType) or typing.get_origin(hint) is typing.Union:
        return tuple(choice for each in typing.get_args(hint) for choice in choices(each))
    return (hint,)


def is_tuple(hint: Any) -> bool:
    return typing.get_origin(hint) is tuple


def element_hints(hint: Any, length: int) -> tuple[Any, ...] | None:
    """Hints of a tuple's elements; None: a tuple of this length is none of the hint."""
    wanted = typing.get_args(hint)
    if len(wanted) == 2 and wanted[1] is Ellipsis:
        return (wanted[0],) * length
    return wanted if len(wanted) == length else None


def is_mapping(hint: Any) -> bool:
    return typing.get_origin(hint) is Mapping


def literals(hint: Any) -> tuple[Any, ...] | None:
    """The values of a Literal; None for another hint."""
    return typing.get_args(hint) if typing.get_origin(hint) is Literal else None


def is_enum(hint: Any) -> bool:
    return isinstance(hint, type) and issubclass(hint, Enum)


def is_object(hint: Any) -> bool:
    return isinstance(hint, type) and dataclasses.is_dataclass(hint)
