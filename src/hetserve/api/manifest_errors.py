"""Validation errors as lines: field, value, what would be right."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from hetserve.base.units import DURATION_PATTERN, MONEY_PATTERN, QUANTITY_PATTERN, RATIO_PATTERN
from hetserve.registry.joining_policies import JOINING_POLICIES

_PATTERNS = {
    DURATION_PATTERN: "is not a duration; write for example 350ms, 1.5s or 2m",
    MONEY_PATTERN: 'is not a price in $/h; write for example "0.526", below 1000000, with at most 6 decimals',
    RATIO_PATTERN: 'is not a decimal number such as "0.57" or "1.08": no sign, at most 6 digits before the point and '
    "6 after",
    QUANTITY_PATTERN: "is not a quantity; write for example 500m, 2 or 4Gi",
}
_MONEY_FIELDS = ("hourly",)
_SHOWN = 60
FieldPath = tuple[int | str, ...]


def field_errors(error: ValidationError) -> Iterator[str]:
    return (line for _, line in located_errors(error))


def located_errors(error: ValidationError) -> Iterator[tuple[FieldPath, str]]:
    """(path of the field, line) per error."""
    for detail in error.errors(include_url=False):
        path = _path(detail["loc"])
        yield detail["loc"], f"{path}: {_message(detail)}" if path else _message(detail)


def _path(location: FieldPath) -> str:
    path = ""
    for part in location:
        path += f"[{part}]" if isinstance(part, int) else f".{part}" if path else str(part)
    return path


def _message(detail: ErrorDetails) -> str:
    value = detail["input"]
    match detail["type"]:
        case "missing":
            text = "is required"
        case "extra_forbidden":
            text = f"is not a field of this object (value {_shown(value)}); check the spelling"
        case "string_type":
            text = _not_text(str(detail["loc"][-1]), value)
        case "string_pattern_mismatch":
            pattern = detail["ctx"]["pattern"]
            text = f"{_shown(value)} {_PATTERNS.get(pattern, 'must match ' + pattern)}"
            if detail["loc"][-1] == "policy" and value in JOINING_POLICIES.names:
                text += "; policies that join queries are for hetserve simulate alone"
        case "model_type" | "model_attributes_type" | "dict_type":
            text = f"{_shown(value)} must be a mapping of fields"
        case "list_type":
            text = f"{_shown(value)} must be a list"
        case "too_short":
            least = detail["ctx"]["min_length"]
            text = f"{_shown(value)} must have at least {least} {'entry' if least == 1 else 'entries'}"
        case "literal_error":
            text = f"{_shown(value)} must be one of {detail['ctx']['expected']}"
        case "value_error":
            rule = str(detail["ctx"]["error"])
            text = f"{_shown(value)} {rule}" if isinstance(value, str | int | float) else rule
        case _:
            text = f"{_shown(value)} {_plain(detail['msg'])}"
    return text


def _not_text(field: str, value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return f"{_shown(value)} must be text"
    if field in _MONEY_FIELDS:
        return f'{value!r} is a number; money is decimal text, so that no cent is rounded: put it in quotes, "{value}"'
    return f'{value!r} is a number; put it in quotes, "{value}", with its unit if it has one'


def _plain(message: str) -> str:
    text = message.removeprefix("Input should be ").removeprefix("Value error, ")
    return text if text == message else f"must be {text}"


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN else text[: _SHOWN - 3] + "..."
