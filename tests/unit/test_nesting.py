from __future__ import annotations

import json
import random
from typing import Any

import pytest

from deep_objects import nested
from hetserve.base.nesting import DEEPEST, shallow, too_deep


@pytest.mark.parametrize(
    ("text", "cut"),
    [
        (b'{"a":[1,{"b":[2]}],"c":3}', b'{"a":[1,null],"c":3}'),
        (b'{"a":"[[[","b":[[1],"]"],"c":"\\"[{"}', b'{"a":"[[[","b":[null,"]"],"c":"\\"[{"}'),
        (b"[[[1],2],3,[[[4]]]]", b"[[null,2],3,[null]]"),
        (b"7", b"7"),
        (b'{"a":[[1', b'{"a":[null'),
    ],
)
def test_what_lies_below_two_levels_becomes_null(text: bytes, cut: bytes) -> None:
    assert shallow(text, 2) == cut


def value(draw: random.Random, levels: int) -> Any:
    if levels == 0 or draw.random() < 0.2:
        return draw.choice([1, None, '"', "\\", '{"', "[{", "]}"])
    children = [value(draw, levels - 1) for _ in range(draw.randrange(3))]
    return children if draw.random() < 0.5 else {f'"{number}[': child for number, child in enumerate(children)}


def cut(found: Any, levels: int) -> Any:
    """The same by recursion over the value."""
    if not isinstance(found, dict | list):
        return found
    if not levels:
        return None
    if isinstance(found, dict):
        return {key: cut(child, levels - 1) for key, child in found.items()}
    return [cut(child, levels - 1) for child in found]


def test_the_text_is_cut_where_its_value_would_be() -> None:
    draw = random.Random(1)  # noqa: S311
    for _ in range(300):
        found, levels = value(draw, 6), draw.randrange(1, 6)
        assert json.loads(shallow(json.dumps(found).encode(), levels)) == cut(found, levels)
        assert (too_deep(found, levels) is None) == (cut(found, levels) == found)


def test_any_depth_is_cut_to_what_is_still_seen_to_be_too_deep() -> None:
    for levels in (DEEPEST + 1, 1000, 200_000):
        found = json.loads(shallow(b'{"items":[{"spec":{"template":' + nested(levels) + b"}}]}"))
        template = found["items"][0]["spec"]["template"]
        assert too_deep(template) is not None
    assert too_deep(json.loads(nested(DEEPEST))) is None


def test_the_path_to_what_is_too_deep_is_named_from_the_top() -> None:
    assert (
        too_deep({"metadata": {}, "spec": {"containers": [{"image": "x", "odd": {}}]}}, 4) == ".spec.containers[0].odd"
    )
    assert str(too_deep(json.loads(nested(300)))).startswith(".a.a.a.a")
    assert len(str(too_deep(json.loads(nested(300))))) == 60
