"""Values as JSON, exactly: floats by their shortest text that reads back the same, money and counts as integers."""

from __future__ import annotations

import dataclasses
import json
import math
import operator
from collections.abc import Collection
from enum import Enum
from typing import Any

from hetserve.scaling.record.forms import (
    KIND,
    ONCE,
    REFERENCE,
    choices,
    element_hints,
    fields_of,
    is_mapping,
    is_tuple,
    literals,
)

Json = Any


def text_of(content: Json) -> str:
    """JSON text without spaces; keys keep their order, so that equal values have equal texts."""
    return json.dumps(content, separators=(",", ":"), allow_nan=False)


class ExactWriter:
    """Writes values. once: classes of which equal values are written once, to `shared`, each with its class."""

    def __init__(self, once: Collection[type] = ONCE) -> None:
        self.shared: list[Json] = []
        self._written_once = once
        self._places: dict[str, int] = {}

    def json(self, value: Any, hint: Any) -> Json:
        """A value as the hint reads it. Raises TypeError for a value that the hint does not allow."""
        options = [choice for choice in choices(hint) if choice is not type(None)]
        if value is None and len(options) < len(choices(hint)):
            return None
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            return self._object(value, options)
        if len(options) != 1:
            raise TypeError(f"{value!r} is none of {options}")
        return self._of_one(value, options[0])

    def _of_one(self, value: Any, hint: Any) -> Json:
        if is_tuple(hint):
            hints = element_hints(hint, len(value))
            if hints is None:
                raise TypeError(f"{value!r} is no {hint}")
            return [self.json(one, each) for one, each in zip(value, hints, strict=True)]
        if is_mapping(hint):
            _, of = hint.__args__
            return {str(key): self.json(one, of) for key, one in value.items()}
        if isinstance(value, Enum):
            return value.value
        if literals(hint) is not None:
            return value
        return _scalar(value, hint)

    def _object(self, value: Any, options: list[Any]) -> Json:
        kind: type = type(value)
        if kind not in options:
            raise TypeError(f"{kind.__name__} is none of {options}")
        content = {one.key: self.json(getattr(value, one.name), one.hint) for one in fields_of(kind)}
        if kind in self._written_once:
            return {REFERENCE: self._place({KIND: kind.__name__, **content})}
        return content if len(options) == 1 else {KIND: kind.__name__, **content}

    def _place(self, content: Json) -> int:
        """Index of a value in `shared`; values with equal texts have one place."""
        place = self._places.setdefault(text_of(content), len(self.shared))
        if place == len(self.shared):
            self.shared.append(content)
        return place


def _scalar(value: Any, hint: Any) -> Json:
    if hint is bool:
        return bool(value)
    if hint is int or (hint is float and isinstance(value, int)):
        return operator.index(value)
    if hint is float:
        number = float(value)
        return number if math.isfinite(number) else repr(number)
    if hint is str and isinstance(value, str):
        return str(value)
    raise TypeError(f"{value!r} is no {hint}")


def in_place(value: Any, hint: Any) -> Json:
    """A value with every part in its place, also what occurs often."""
    return ExactWriter(()).json(value, hint)
