"""Reads fields of unchecked objects: an error names the field and its value."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final, TypeGuard

from hetserve.base.units import Seconds

LONGEST_NAME: Final = 253
_SHOWN: Final = 60
MOST_ITEMS: Final = 1000
"""Entries of a list that are read one by one; real lists have a few."""
LISTS: Final = (list, tuple)


class InvalidObjectError(ValueError):
    """An object that cannot be read; the text names the field, the value and what would be right."""


def mapping(value: object, *path: str) -> Mapping[str, Any]:
    """The object at a path of fields; absent: empty."""
    if type(value) is dict:
        return value
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise InvalidObjectError(f"{'.'.join(path)}: {short(value)} is not an object")
    return value


def few(value: object, field: str) -> None:
    if isinstance(value, LISTS) and len(value) > MOST_ITEMS:
        raise InvalidObjectError(f"{field}: {len(value)} entries; at most {MOST_ITEMS} are read")


def objects(value: object, field: str) -> Sequence[Mapping[str, Any]]:
    if value is None:
        return ()
    if not is_list_of_objects(value):
        raise InvalidObjectError(f"{field}: {short(value)} is not a list of objects")
    return value


def is_list_of_objects(value: object) -> TypeGuard[Sequence[Mapping[str, Any]]]:
    if type(value) is list and set(map(type, value)) <= {dict}:
        return True
    return isinstance(value, LISTS) and all(isinstance(item, Mapping) for item in value)


def text(value: object, field: str) -> str | None:
    """A text; absent and empty: None."""
    if value is None or value == "":
        return None
    if not isinstance(value, str):
        raise InvalidObjectError(f"{field}: {short(value)} is not a text")
    return value


def required(value: object, field: str) -> str:
    """A text that must be there and must not be long."""
    found = text(value, field)
    if found is None:
        raise InvalidObjectError(f"{field} is missing")
    if len(found) > LONGEST_NAME:
        raise InvalidObjectError(f"{field}: {short(found)} has more than {LONGEST_NAME} characters")
    return found


def integer(value: object, field: str) -> int:
    if value is None:
        return 0
    if not isinstance(value, int) or isinstance(value, bool):
        raise InvalidObjectError(f"{field}: {short(value)} is not a whole number")
    return value


def timestamp(value: object, field: str) -> Seconds:
    if value is None:
        return Seconds(0.0)
    try:
        return Seconds(datetime.fromisoformat(str(value)).timestamp())
    except ValueError:
        raise InvalidObjectError(f"{field}: {value!r} is not a time") from None


def short(value: object) -> str:
    if isinstance(value, str) and len(value) > _SHOWN:  # before repr: it may have megabytes
        value = value[:_SHOWN]
    elif isinstance(value, list | tuple | Mapping) and len(value) > _SHOWN:
        return f"a {type(value).__name__} of {len(value)} entries"
    shown = repr(value)
    return shown if len(shown) <= _SHOWN else shown[: _SHOWN - 3] + "..."
