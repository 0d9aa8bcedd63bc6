"""The vocabulary of planted bugs, in terms of `pattern`.

Patterns name what makes the place unique; locals are placeholders.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from mutants.pattern import REST, Captures, Pattern, filled, parse, placeholders
from mutants.source import Definition, Slot, is_docstring, slots


class Change(Protocol):
    @property
    def pattern(self) -> Pattern:
        """The code to change."""
        ...

    def places(self, scope: Definition) -> Iterator[Slot]: ...

    def apply(self, slot: Slot) -> None: ...


@dataclass(frozen=True, slots=True)
class Replace:
    """`by` may use the placeholders of `code`."""

    code: str
    by: str

    def __post_init__(self) -> None:
        _check_placeholders(self.by, self.pattern)
        Pattern(self.by)

    @property
    def pattern(self) -> Pattern:
        return Pattern(self.code)

    def places(self, scope: Definition) -> Iterator[Slot]:
        return _matching(self.pattern, scope)

    def apply(self, slot: Slot) -> None:
        slot.put(filled(Pattern(self.by).tree, _captures(self.pattern, slot)))


def always(condition: str) -> Replace:
    return Replace(condition, "True")


def never(condition: str) -> Replace:
    return Replace(condition, "False")


@dataclass(frozen=True, slots=True)
class DropStatement:
    code: str

    def __post_init__(self) -> None:
        Pattern(self.code, ast.stmt)

    @property
    def pattern(self) -> Pattern:
        return Pattern(self.code, ast.stmt)

    def places(self, scope: Definition) -> Iterator[Slot]:
        return _matching(self.pattern, scope)

    def apply(self, slot: Slot) -> None:
        slot.put(ast.Pass())


@dataclass(frozen=True, slots=True)
class DropElement:
    """Of a list, tuple or set."""

    code: str

    def __post_init__(self) -> None:
        Pattern(self.code)

    @property
    def pattern(self) -> Pattern:
        return Pattern(self.code)

    def places(self, scope: Definition) -> Iterator[Slot]:
        return (slot for slot in _matching(self.pattern, scope) if slot.field == "elts")

    def apply(self, slot: Slot) -> None:
        slot.put()


@dataclass(frozen=True, slots=True)
class DropKey:
    """Of a dict; `key`: the expression, with quotes."""

    key: str

    def __post_init__(self) -> None:
        Pattern(self.key)

    @property
    def pattern(self) -> Pattern:
        return Pattern(self.key)

    def places(self, scope: Definition) -> Iterator[Slot]:
        return (slot for slot in _matching(self.pattern, scope) if slot.field == "keys")

    def apply(self, slot: Slot) -> None:
        Slot(slot.owner, "values", slot.index).put()
        slot.put()


@dataclass(frozen=True, slots=True)
class Insert:
    """Statements after another one, or first; they may use the placeholders of `after`."""

    code: str
    after: str = ""

    def __post_init__(self) -> None:
        _check_placeholders(self.code, self.pattern)
        parse(self.code)

    @property
    def pattern(self) -> Pattern:
        return Pattern(self.after or REST, ast.stmt)

    def places(self, scope: Definition) -> Iterator[Slot]:
        if self.after:
            return _matching(self.pattern, scope)
        first = 1 if is_docstring(scope, scope.body[0]) and len(scope.body) > 1 else 0
        return iter([Slot(scope, "body", first)])

    def apply(self, slot: Slot) -> None:
        captures = _captures(self.pattern, slot) if self.after else {}
        new = [filled(statement, captures) for statement in parse(self.code)]
        slot.put(*((slot.node, *new) if self.after else (*new, slot.node)))


def _matching(pattern: Pattern, scope: ast.AST) -> Iterator[Slot]:
    return (slot for slot in slots(scope) if pattern.match(slot.node) is not None)


def _captures(pattern: Pattern, slot: Slot) -> Captures:
    captures = pattern.match(slot.node)
    if captures is None:
        raise ValueError(f"not a place of `{pattern.text}`: {ast.unparse(slot.node)}")
    return captures


def _check_placeholders(code: str, pattern: Pattern) -> None:
    unknown = placeholders(code) - placeholders(pattern.text)
    if unknown:
        raise ValueError(f"`{code}` uses {', '.join(sorted(unknown))}, which `{pattern.text}` does not match")
