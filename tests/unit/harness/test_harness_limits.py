"""Every time limit of the tests has a name in one place, where the machine's slowness scales it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from harness.components import ROOT

PLACES: Final = {"wait_until": 1, "ready": 1, "reaches": 2, "becomes": 2, "decides": 1, "sees": 1, "wait_ready": 2}
"""Positions of the limits in calls of these names."""
WAITING: Final = frozenset({*PLACES, "run", "communicate", "wait_for_bound", "wait_for_condition", "wait_for_refusal"})
"""Calls whose keyword `timeout` is a limit."""

MAY_LIMIT: Final = re.compile(rf"timeout|\b(?:{'|'.join(PLACES)})\s*\(")
"""A file without it is not parsed."""


def number(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, int | float) and node.value > 0


def limits_of(call: ast.Call) -> Iterator[ast.expr]:
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    if name in PLACES:
        yield from call.args[PLACES[name] : PLACES[name] + 1]
    if name in WAITING:
        yield from (keyword.value for keyword in call.keywords if keyword.arg == "timeout")
    if name == "timeout" and ast.unparse(call.func) in ("asyncio.timeout", "pytest.mark.timeout", "mark.timeout"):
        yield from call.args


def literals(path: Path) -> list[str]:
    text = path.read_text()
    if not MAY_LIMIT.search(text):
        return []
    calls = (node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call))
    return [f"{path.relative_to(ROOT)}:{limit.lineno}" for call in calls for limit in limits_of(call) if number(limit)]


def test_no_time_limit_is_a_number_where_it_is_used() -> None:
    files = [*(ROOT / "e2e").rglob("*.py"), *(ROOT / "tests").rglob("*.py")]
    assert [line for path in sorted(files) for line in literals(path)] == []


def test_a_number_is_seen() -> None:
    call = ast.parse("wait_until(there, 30, 'it')").body[0]
    assert isinstance(call, ast.Expr)
    assert isinstance(call.value, ast.Call)
    assert [number(limit) for limit in limits_of(call.value)] == [True]
