"""Reading fields of objects whose types nobody has checked: a wrong type is named with its field and value."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from hetserve.placement.requests import InvalidObjectError
from hetserve.units import Seconds


def mapping(value: object, field: str) -> Mapping[str, Any]:
    """An object; absent counts as empty."""
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise InvalidObjectError(f"{field}: {short(value)} is not an object")
    return value


def items(value: object, field: str) -> Sequence[Mapping[str, Any]]:
    """A list of objects; absent counts as empty."""
    if value is None:
        return ()
    if not isinstance(value, list | tuple) or not all(isinstance(item, Mapping) for item in value):
        raise InvalidObjectError(f"{field}: {short(value)} is not a list of objects")
    return value


def text(value: object, field: str) -> str | None:
    """A text; absent and empty are None."""
    if value is None or value == "":
        return None
    if not isinstance(value, str):
        raise InvalidObjectError(f"{field}: {short(value)} is not a text")
    return value


def required(value: object, field: str) -> str:
    found = text(value, field)
    if found is None:
        raise InvalidObjectError(f"{field} is missing")
    return found


def integer(value: object, field: str) -> int:
    """A whole number; absent is 0."""
    if value is None:
        return 0
    if not isinstance(value, int) or isinstance(value, bool):
        raise InvalidObjectError(f"{field}: {short(value)} is not a whole number")
    return value


def timestamp(value: object, field: str) -> Seconds:
    """Time of day in seconds; absent is 0."""
    if value is None:
        return Seconds(0.0)
    try:
        return Seconds(datetime.fromisoformat(str(value)).timestamp())
    except ValueError:
        raise InvalidObjectError(f"{field}: {value!r} is not a time") from None


def short(value: object) -> str:
    """A value as it may be shown in an error."""
    shown = repr(value)
    return shown if len(shown) <= 60 else shown[:57] + "..."
