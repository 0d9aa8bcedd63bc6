"""Modules by dotted name, definitions by qualified name, and places of code."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOTS: Final = ("src", "scheduler_extender", "shell_kit", "operator", "twin")
"""Folders that modules are imported from."""
_NOT_RUN: Final = frozenset({"annotation", "returns", "type_comment"})

Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


@dataclass(frozen=True, slots=True)
class Slot:
    """A field of `owner`, or element `index` of a list."""

    owner: ast.AST
    field: str
    index: int | None

    @property
    def node(self) -> ast.AST:
        value = getattr(self.owner, self.field)
        found: ast.AST = value if self.index is None else value[self.index]
        return found

    def put(self, *nodes: ast.AST) -> None:
        """Replaces the node; by exactly one if the field is no list."""
        if self.index is None:
            (node,) = nodes
            setattr(self.owner, self.field, node)
        else:
            getattr(self.owner, self.field)[self.index : self.index + 1] = nodes


def module_file(tree: Path, module: str) -> Path | None:
    """None if there is none."""
    stem = module.replace(".", "/")
    files = (tree / root / name for root in ROOTS for name in (f"{stem}.py", f"{stem}/__init__.py"))
    return next((file for file in files if file.is_file()), None)


def modules(tree: Path) -> dict[str, Path]:
    """By dotted name."""
    found = {}
    for root in ROOTS:
        for file in sorted((tree / root).rglob("*.py")):
            parts = file.relative_to(tree / root).with_suffix("").parts
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = file
    return found


def definitions(tree: ast.AST, prefix: str = "") -> Iterator[tuple[str, Definition]]:
    """With qualified names, nested ones included."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, Definition):
            yield f"{prefix}{node.name}", node
            yield from definitions(node, f"{prefix}{node.name}.")
        elif not isinstance(node, ast.expr):  # which holds none, and is most of a module
            yield from definitions(node, prefix)


def slots(scope: ast.AST) -> Iterator[Slot]:
    """Without annotations and docstrings."""
    for name in (name for name in scope._fields if name not in _NOT_RUN):
        value = getattr(scope, name, None)
        nodes = [(None, value)] if isinstance(value, ast.AST) else enumerate(value) if isinstance(value, list) else ()
        for index, node in nodes:
            if isinstance(node, ast.AST) and not (index == 0 and is_docstring(scope, node)):
                yield Slot(scope, name, index)
                yield from slots(node)


def is_docstring(scope: ast.AST, node: ast.AST) -> bool:
    return (
        isinstance(scope, Definition)
        and isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )
