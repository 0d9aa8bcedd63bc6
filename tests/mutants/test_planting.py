"""A bug is planted by the meaning of the code: rewording leaves it in place, and a place that is not one is refused."""

from __future__ import annotations

import ast
from pathlib import Path
from textwrap import dedent

import pytest

from mutants.changes import Change, DropElement, DropKey, DropStatement, Insert, Replace, always, never
from mutants.mutant import Mutant
from mutants.planting import PlantingError, planted

ORIGINAL = """
class Ledger:
    def observe(self, pod, node):
        if pod.finished and node != self.node:
            self.release(pod, reason="finished", at=node)

    def release(self, pod, reason, at): ...
"""

REWORDINGS = {
    "comments and a docstring": '''
        class Ledger:
            """Books."""
            def observe(self, pod, node):
                """Not this: pod.finished and node != self.node."""
                # nor this: if pod.finished and node != self.node:
                if pod.finished and node != self.node:  # here
                    self.release(pod, reason="finished", at=node)
            def release(self, pod, reason, at): ...
        ''',
    "a renamed local": """
        class Ledger:
            def observe(self, seen, where):
                if seen.finished and where != self.node:
                    self.release(seen, reason="finished", at=where)
            def release(self, pod, reason, at): ...
        """,
    "types, async and edits beside": """
        class Ledger:
            async def observe(self, pod: PodView, node: str) -> None:
                log.info("finished")
                if self.ready() and (pod.finished and node != self.node):
                    self.count += 1
                    self.release(pod, reason="finished", at=node)
            def release(self, pod, reason, at): ...
        """,
}

ROBUST = {
    "a condition": (always("$pod.finished and $node != self.node"), "if True", "if self.ready() and True"),
    "a call": (Replace("self.release(..., reason='finished')", "self.keep(...)"), "self.keep("),
    "a statement": (DropStatement("self.release(...)"), "pass"),
}

CHANGES: dict[str, tuple[str, Change, str]] = {
    "placeholders keep what they matched": ("f(a, b)", Replace("f($x, $y)", "f($y, $x)"), "f(b, a)"),
    "the rest of a call stays": (
        "f(a, b, *c, d=1, e=2)",
        Replace("f(..., d=1)", "f(..., d=3)"),
        "f(a, b, *c, d=3, e=2)",
    ),
    "some of many operands": ("x = a == 409 or b or c", Replace("$a == 409 or ...", "b"), "x = b"),
    "a condition that never holds": ("if not a.b: c()", never("$a.b"), "if not False: c()"),
    "a statement with a type": ("x: int = f()\ny = 2", DropStatement("x = f()"), "pass\ny = 2"),
    "a key of a dict": ("x = {'a': 1, **b, 'c': 2}", DropKey("'c'"), "x = {'a': 1, **b}"),
    "an element of a list": ("x = [{'a': 1, 'b': c}, d]", DropElement("{'a': 1, 'b': ...}"), "x = [d]"),
    "statements after another": ("a -= b\nc()", Insert("d($x)", after="a -= $x"), "a -= b\nd(b)\nc()"),
}


def mutant(change: Change, function: str = "Ledger.observe", module: str = "shop.ledger") -> Mutant:
    return Mutant("no books", module, function, change, "tests/test_ledger.py", "test_books")


def tree(folder: Path, source: str, module: str = "shop.ledger") -> Path:
    path = folder / "src" / f"{module.replace('.', '/')}.py"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(dedent(source))
    return folder


def in_function(code: str) -> str:
    return "def function():\n" + "\n".join(f"    {line}" for line in code.splitlines())


@pytest.mark.parametrize("reworded", REWORDINGS.values(), ids=REWORDINGS.keys())
@pytest.mark.parametrize("robust", ROBUST.values(), ids=ROBUST.keys())
def test_rewording_leaves_a_bug_its_place(
    reworded: str, robust: tuple[Change, *tuple[str, ...]], tmp_path: Path
) -> None:
    change, *expected = robust

    _, text = planted(mutant(change), tree(tmp_path, reworded))

    assert any(code in text for code in expected), text


@pytest.mark.parametrize(("code", "change", "changed"), CHANGES.values(), ids=CHANGES.keys())
def test_a_change_changes_its_place_and_nothing_else(code: str, change: Change, changed: str, tmp_path: Path) -> None:
    _, text = planted(mutant(change, "function"), tree(tmp_path, in_function(code)))

    assert ast.dump(ast.parse(text)) == ast.dump(ast.parse(in_function(changed)))


def refused(change: Change, source: str, folder: Path, function: str = "Ledger.observe") -> str:
    with pytest.raises(PlantingError) as error:
        planted(mutant(change, function), tree(folder, source))
    return str(error.value)


def test_two_places_are_refused_with_both(tmp_path: Path) -> None:
    source = "class Ledger:\n    def observe(self, pod):\n        if pod.finished:\n            return not pod.finished"

    said = refused(never("$pod.finished"), source, tmp_path)

    assert "line 3: pod.finished" in said
    assert "line 4: pod.finished" in said


def test_a_module_that_moved_is_refused_with_where_its_function_is_now(tmp_path: Path) -> None:
    tree(tmp_path, ORIGINAL, "shop.books.accounts")

    with pytest.raises(PlantingError, match=r"shop\.books\.accounts"):
        planted(mutant(never("$pod.finished")), tmp_path)
