"""The table of promises: each file of tests whose docstring begins with "Promise", and the tiers of its tests."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from harness.components import ROOT

WORD: Final = "Promise"
MARK: Final = "pytest.mark.deep"
FOLDERS: Final = ("e2e", "tests")
QUICK, SOME, MANY, DEEP = "make test", "some in each", "few examples, then many", "make test-deep"


@dataclass(frozen=True)
class Kept:
    """A promise, the file that keeps it, and how many of its tests are in which tier."""

    promise: str
    path: Path
    tiers: Counter[str]


def tier_of(test: ast.FunctionDef | ast.AsyncFunctionDef, deep: set[str]) -> str:
    """By the decorators: of a law the tier says how many examples it tries. deep: names of cases that are."""
    marks = [ast.unparse(decorator) for decorator in test.decorator_list]
    if MARK in marks:
        return DEEP
    names = {one.id for mark in test.decorator_list for one in ast.walk(mark) if isinstance(one, ast.Name)}
    if any(MARK in mark for mark in marks) or names & deep:
        return SOME
    return MANY if any(mark.startswith("given(") for mark in marks) else QUICK


def kept_by(path: Path) -> Kept | None:
    """None: the file makes no promise."""
    tree = ast.parse(path.read_text())
    about = (ast.get_docstring(tree) or "").partition("\n\n")[0]
    if not about.startswith(WORD):
        return None
    assigned = [one for one in tree.body if isinstance(one, ast.Assign | ast.AnnAssign) and MARK in ast.unparse(one)]
    deep = {name.id for one in assigned for name in ast.walk(one) if isinstance(name, ast.Name)}
    tests = [one for one in tree.body if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef)]
    whole = "pytestmark" in deep
    tiers = Counter(DEEP if whole else tier_of(test, deep - {"pytest"}) for test in tests if "test_" in test.name[:5])
    return Kept(" ".join(about.partition(": ")[2].split()), path.relative_to(ROOT), tiers)


def promises() -> list[Kept]:
    """In the order of their files, scenarios first; what needs real containers is not among them."""
    files = (path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("test_*.py")))
    return [kept for path in files if "kind" not in path.parts and (kept := kept_by(path)) is not None]


def rows() -> Iterator[Sequence[str]]:
    """Of the table in docs/tests.md."""
    yield "promise", "kept by", "tests by tier"
    for kept in promises():
        tiers = ", ".join(f"{count} {tier}" for tier, count in sorted(kept.tiers.items()))
        yield kept.promise[:1].upper() + kept.promise[1:], f"[{kept.path.name}](../{kept.path})", tiers
