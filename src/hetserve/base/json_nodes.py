"""Reads JSON as YAML nodes with lines; PyYAML refuses some of JSON: tabs, escaped slashes, surrogate pairs."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from json.decoder import scanstring  # type: ignore[attr-defined]
from typing import Any, Final

import yaml

from hetserve.base.plain_scalars import PLAIN

_BLANK: Final = re.compile(r"[ \t\n\r]*")
_BETWEEN: Final = re.compile(r"([ \t\n\r]|(?<=\n)---(?=\s|$))*")
_WORD: Final = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][-+]?\d+)?|true|false|null", re.ASCII)
_TEXT: Final = "tag:yaml.org,2002:str"


class JsonSyntaxError(yaml.MarkedYAMLError):
    """`problem_mark`: where."""


def compose_json(text: str) -> Iterator[yaml.Node]:
    """Root nodes of the objects in a text. Raises JsonSyntaxError."""
    reader = _JsonReader(text)
    at = reader.skip(0, _BETWEEN)
    while at < len(text):
        node, at = reader.value(at)
        yield node
        at = reader.skip(at, _BETWEEN)


class _JsonReader:
    """Reads values at an index; methods also return the index after."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._line, self._begin, self._seen = 0, 0, 0

    def skip(self, at: int, blank: re.Pattern[str] = _BLANK) -> int:
        found = blank.match(self._text, at)
        return at if found is None else found.end()

    def value(self, at: int) -> tuple[yaml.Node, int]:
        first = self._text[at : at + 1]
        mark = self._mark(at)
        if first == "{":
            return self._many(at, mark, yaml.MappingNode, "}", self._pair)
        if first == "[":
            return self._many(at, mark, yaml.SequenceNode, "]", self.value)
        if first == '"':
            return self._string(at, mark)
        word = _WORD.match(self._text, at)
        if word is None:
            raise self._wrong("no value that JSON knows", at)
        return yaml.ScalarNode(PLAIN, word[0], mark, mark), word.end()

    def _many(
        self, at: int, mark: yaml.Mark, kind: type[yaml.Node], end: str, one: Callable[[int], tuple[Any, int]]
    ) -> tuple[yaml.Node, int]:
        found: list[Any] = []
        at = self.skip(at + 1)
        while self._text[at : at + 1] != end:
            if found:
                at = self.skip(self._past(",", at))
            entry, at = one(at)
            found.append(entry)
            at = self.skip(at)
        tag = "map" if kind is yaml.MappingNode else "seq"
        return kind(f"tag:yaml.org,2002:{tag}", found, mark, mark), at + 1

    def _pair(self, at: int) -> tuple[tuple[yaml.Node, yaml.Node], int]:
        key, at = self._string(at, self._mark(at))
        at = self.skip(self._past(":", self.skip(at)))
        value, at = self.value(at)
        return (key, value), at

    def _string(self, at: int, mark: yaml.Mark) -> tuple[yaml.Node, int]:
        try:
            found, end = scanstring(self._text, self._past('"', at))
        except json.JSONDecodeError as error:
            raise self._wrong(error.msg, error.pos) from None
        return yaml.ScalarNode(_TEXT, found, mark, mark), end

    def _past(self, sign: str, at: int) -> int:
        if self._text[at : at + 1] != sign:
            raise self._wrong(f"expected {sign!r}", at)
        return at + 1

    def _mark(self, at: int) -> yaml.Mark:
        """Line and column; call with rising indexes."""
        if at > self._seen:
            lines = self._text.count("\n", self._seen, at)
            if lines:
                self._line, self._begin = self._line + lines, self._text.rindex("\n", self._seen, at) + 1
            self._seen = at
        return yaml.Mark("", at, self._line, at - self._begin, None, 0)

    def _wrong(self, problem: str, at: int) -> JsonSyntaxError:
        return JsonSyntaxError(None, None, problem, self._mark(at))
