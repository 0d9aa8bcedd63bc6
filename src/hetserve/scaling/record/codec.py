"""Values as canonical JSON, exactly, by the type hints of their fields; what does not fit is named by its field."""

from __future__ import annotations

import json
from collections import Counter
from functools import cache
from typing import Any, Final

from pydantic import ConfigDict, TypeAdapter, ValidationError
from pydantic.alias_generators import to_camel

Json = Any
_CONFIG: Final = ConfigDict(alias_generator=to_camel, extra="forbid", strict=True, ser_json_inf_nan="constants")
"""Floats have the shortest digits that read back the same; JSON has no number for infinite ones, but a constant."""
_SHOWN: Final = 60
_REMEDY: Final = "take the record again, as it was written"


class MalformedError(ValueError):
    """A record that cannot be read: field, value, remedy."""

    def __init__(self, field: str, value: object, wanted: str) -> None:
        shown = repr(value)
        shown = shown if len(shown) <= _SHOWN else f"{shown[:_SHOWN]}..."
        super().__init__(f"{field}: {shown} {wanted}; {_REMEDY}")


def text_of(value: Any, hint: Any) -> str:
    """A value as JSON, keys in the order of its fields: equal values have equal texts.

    Of a union, the members must differ in their fields. Raises PydanticSerializationError for a value that the hint
    does not allow.
    """
    return _adapter(hint).dump_json((value,), by_alias=True, warnings="error").decode()[1:-1]


def content_of(value: Any, hint: Any) -> Json:
    """A value as JSON that people may read: what is no finite number is text."""
    return json.loads(text_of(value, hint), parse_constant=str)


def value_of(text: str, hint: Any, field: str) -> Any:
    """The value that was written as this text. field: its name in errors. Raises MalformedError."""
    try:
        (value,) = _adapter(hint).validate_json(f"[{text}]")
    except ValidationError as error:
        raise _malformed(error, field) from None
    return value


@cache
def _adapter(hint: Any) -> TypeAdapter[tuple[Any]]:
    """A tuple, as the adapter of a dataclass takes no settings."""
    return TypeAdapter(tuple[hint], config=_CONFIG)


def _malformed(error: ValidationError, field: str) -> MalformedError:
    """Of the errors, the one with the fewest beside it: those of a union's other members are many."""
    errors = error.errors(include_url=False, include_context=False)
    beside = Counter(one["loc"][:-1] for one in errors)
    first = min(errors, key=lambda one: beside[one["loc"][:-1]])
    place = field + "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in first["loc"][1:])
    match first["type"]:
        case "missing" | "missing_argument":
            return MalformedError(place, None, "is missing")
        case "unexpected_keyword_argument":
            return MalformedError(place, first["input"], "is not known: is it of another hetserve?")
    words = first["msg"].replace("Input should be", "must be").replace("Value error,", "cannot be:")
    return MalformedError(place, first["input"], words)
