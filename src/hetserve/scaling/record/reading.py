"""Values from JSON, as they were written; what does not fit is named by its field."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from hetserve.scaling.record.forms import (
    KIND,
    NOT_FINITE,
    ONCE,
    REFERENCE,
    choices,
    element_hints,
    fields_of,
    is_enum,
    is_mapping,
    is_object,
    is_tuple,
    literals,
)

_SHOWN: Final = 60
_REMEDY: Final = "take the record again, as it was written"


class MalformedError(ValueError):
    """A record that cannot be read: field, value, remedy."""

    def __init__(self, field: str, value: object, wanted: str) -> None:
        shown = repr(value)
        shown = shown if len(shown) <= _SHOWN else f"{shown[:_SHOWN]}..."
        super().__init__(f"{field}: {shown} {wanted}; {_REMEDY}")


class ExactReader:
    """Reads values. shared: those that are written once; each may refer to earlier ones. Raises MalformedError."""

    def __init__(self, shared: Sequence[Any]) -> None:
        self._shared: list[Any] = []
        for i, content in enumerate(shared):
            self._shared.append(self._object(content, ONCE, f"shared[{i}]", once=True))

    def value(self, content: Any, hint: Any, field: str) -> Any:
        """The value of a hint. field: of the content, for errors. Raises MalformedError."""
        options = tuple(choice for choice in choices(hint) if choice is not type(None))
        if content is None and len(options) < len(choices(hint)):
            return None
        if is_object(options[0]):
            return self._object(content, options, field)
        return self._of_one(content, options[0], field)

    def _of_one(self, content: Any, hint: Any, field: str) -> Any:
        if is_tuple(hint):
            return self._tuple(content, hint, field)
        if is_mapping(hint):
            if not isinstance(content, dict):
                raise MalformedError(field, content, "must be an object")
            return {key: self.value(one, hint.__args__[1], f"{field}.{key}") for key, one in content.items()}
        allowed = [each.value for each in hint] if is_enum(hint) else literals(hint)
        if allowed is None:
            return _scalar(content, hint, field)
        if content not in allowed:
            raise MalformedError(field, content, f"must be one of {', '.join(map(str, allowed))}")
        return hint(content) if is_enum(hint) else content

    def _tuple(self, content: Any, hint: Any, field: str) -> tuple[Any, ...]:
        if not isinstance(content, list):
            raise MalformedError(field, content, "must be a list")
        hints = element_hints(hint, len(content))
        if hints is None:
            raise MalformedError(field, content, f"must have {len(hint.__args__)} elements")
        pairs = enumerate(zip(content, hints, strict=True))
        return tuple(self.value(one, each, f"{field}[{i}]") for i, (one, each) in pairs)

    def _object(self, content: Any, options: Sequence[type], field: str, *, once: bool = False) -> Any:
        if not isinstance(content, dict):
            raise MalformedError(field, content, "must be an object")
        if not once and REFERENCE in content:
            return self._earlier(content[REFERENCE], options, field)
        kind = _kind(content, options, field) if once or len(options) > 1 else options[0]
        known = {one.key: one for one in fields_of(kind)}
        strange = [key for key in content if key not in known and key != KIND]
        if strange:
            raise MalformedError(
                f"{field}.{strange[0]}", content[strange[0]], "is not known: is it of a later hetserve?"
            )
        missing = [one.key for one in known.values() if one.required and one.key not in content]
        if missing:
            raise MalformedError(f"{field}.{missing[0]}", None, "is missing")
        read = {
            one.name: self.value(content[key], one.hint, f"{field}.{key}")
            for key, one in known.items()
            if key in content
        }
        try:
            return kind(**read)
        except ValueError as error:
            raise MalformedError(field, kind.__name__, f"cannot be: {error}") from None

    def _earlier(self, place: Any, options: Sequence[type], field: str) -> Any:
        if not isinstance(place, int) or isinstance(place, bool) or not 0 <= place < len(self._shared):
            raise MalformedError(f"{field}.{REFERENCE}", place, f"must be below {len(self._shared)}")
        found = self._shared[place]
        if type(found) not in options:
            names = ", ".join(option.__name__ for option in options)
            raise MalformedError(f"{field}.{REFERENCE}", place, f"is a {type(found).__name__}; wanted: {names}")
        return found


def _kind(content: dict[str, Any], options: Sequence[type], field: str) -> type:
    found = next((option for option in options if option.__name__ == content.get(KIND)), None)
    if found is None:
        names = ", ".join(option.__name__ for option in options)
        raise MalformedError(f"{field}.{KIND}", content.get(KIND), f"must be one of {names}")
    return found


def _scalar(content: Any, hint: Any, field: str) -> Any:
    if hint is float and isinstance(content, str) and content in NOT_FINITE:
        return NOT_FINITE[content]
    right = isinstance(content, (int, float) if hint is float else hint)
    if not right or (isinstance(content, bool) and hint is not bool):
        wanted = {float: "a number", int: "a whole number", bool: "true or false"}.get(hint, "text")
        raise MalformedError(field, content, f"must be {wanted}")
    return content
