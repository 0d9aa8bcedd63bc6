"""Bounds how deeply JSON is nested: a pod template has no schema, and who walks one recurses."""

from __future__ import annotations

import re
from typing import Any, Final

DEEPEST: Final = 100
"""Levels that a value may have; objects of Kubernetes have a tenth of them."""
_AROUND: Final = 10
"""Levels around such a value in an answer, at most: a list, its items, an object, its spec."""
_SHOWN: Final = 60
_TOKENS: Final = re.compile(rb'"(?:[^"\\]++|\\.)*+"|[\[{\]}]', re.DOTALL)

_Step = tuple[Any, str]
"""The step before, or None, and what follows of the path."""


def shallow(text: bytes, deepest: int = DEEPEST + _AROUND) -> bytes:
    """JSON with null in place of what lies below so many levels. For a text that is too deep to be decoded."""
    kept: list[bytes] = []
    depth = end = 0
    for token in _TOKENS.finditer(text):
        mark = token[0]
        if mark in b"[{":
            if depth == deepest:
                kept += [text[end : token.start()], b"null"]
            depth += 1
        elif mark in b"]}":
            depth -= 1
            if depth == deepest:
                end = token.end()
    return b"".join(kept) if depth > deepest else b"".join([*kept, text[end:]])


def too_deep(value: object, deepest: int = DEEPEST) -> str | None:
    """Start of the path to something below so many levels, such as `.spec[0].a`; None: there is nothing."""
    layer: list[tuple[_Step | None, object]] = [(None, value)]
    for _ in range(deepest):
        layer = [((step, name), child) for step, found in layer for name, child in _children(found)]
    below = next((step for step, found in layer if isinstance(found, dict | list)), None)
    return None if below is None else _path(below)


def _children(value: object) -> list[tuple[str, object]]:
    if isinstance(value, dict):
        return [(f".{key}", child) for key, child in value.items()]
    return [(f"[{index}]", child) for index, child in enumerate(value)] if isinstance(value, list) else []


def _path(step: _Step | None) -> str:
    parts: list[str] = []
    while step is not None:
        step, part = step
        parts.append(part)
    path = "".join(reversed(parts))
    return path if len(path) <= _SHOWN else f"{path[: _SHOWN - 3]}..."
