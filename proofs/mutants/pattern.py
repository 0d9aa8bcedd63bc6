"""Python source with placeholders, compared with syntax trees.

`$name` matches any expression, equal ones each time; `...` one expression or, in lists, any number. Keyword arguments
match in any order, comparisons from either side, assignments with or without a type.
"""

from __future__ import annotations

import ast
import copy
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

Captures = Mapping[str, Sequence[ast.AST]]
"""By placeholder; of `...` everything."""

REST: Final = "..."
_PLACEHOLDER: Final = re.compile(r"\$(\w+)")
_PREFIX: Final = "placeholder_"
_NOT_COMPARED: Final = frozenset({"kind", "type_comment"})
_MIRRORED: Final[Mapping[type[ast.cmpop], type[ast.cmpop]]] = {
    ast.Eq: ast.Eq,
    ast.NotEq: ast.NotEq,
    ast.Is: ast.Is,
    ast.IsNot: ast.IsNot,
    ast.Lt: ast.Gt,
    ast.LtE: ast.GtE,
    ast.Gt: ast.Lt,
    ast.GtE: ast.LtE,
}


@dataclass(frozen=True, slots=True)
class Pattern:
    """One expression or statement (`kind`).

    Raises SyntaxError for another text, or a placeholder for an attribute's name.
    """

    text: str
    kind: type[ast.AST] = ast.expr
    tree: ast.AST = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        trees = parse(self.text)
        if len(trees) != 1:
            raise SyntaxError(f"{len(trees)} statements, not one: {self.text}")
        tree: ast.AST = trees[0]
        if self.kind is ast.expr:
            if not isinstance(tree, ast.Expr):
                raise SyntaxError(f"not an expression: {self.text}")
            tree = tree.value
        if placeholders(self.text) != {REST if _is_rest(node) else _placeholder(node) for node in ast.walk(tree)} - {
            None
        }:
            raise SyntaxError(f"a placeholder that is no expression: {self.text}")
        object.__setattr__(self, "tree", tree)

    def match(self, node: ast.AST) -> Captures | None:
        """None: other code."""
        matching = _Matching()
        return matching.found if isinstance(node, self.kind) and matching.same(self.tree, node) else None


def parse(text: str) -> list[ast.stmt]:
    return ast.parse(_PLACEHOLDER.sub(rf"{_PREFIX}\1", text)).body


def placeholders(text: str) -> frozenset[str]:
    """`...` included."""
    return frozenset(_PLACEHOLDER.findall(text)) | ({REST} if REST in text else frozenset())


def filled(tree: ast.AST, captures: Captures) -> ast.AST:
    """A copy with captured code."""
    found: ast.AST = _Filling(captures).visit(copy.deepcopy(tree))
    return found


class _Filling(ast.NodeTransformer):
    def __init__(self, captures: Captures) -> None:
        self._captures = captures

    def visit_Name(self, node: ast.Name) -> ast.AST:
        name = _placeholder(node)
        return node if name is None else copy.deepcopy(self._captures[name][0])

    def visit_Constant(self, node: ast.Constant) -> Any:
        if not _is_rest(node):
            return node
        captured = [copy.deepcopy(one) for one in self._captures[REST]]
        return captured[0] if len(captured) == 1 else captured

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        captured: list[Any] = list(node.args)
        node.args = [one for one in captured if not isinstance(one, ast.keyword)]
        node.keywords += [one for one in captured if isinstance(one, ast.keyword)]
        return node


class _Matching:
    """One comparison; `found` fills up."""

    def __init__(self) -> None:
        self.found: dict[str, Sequence[ast.AST]] = {}

    def same(self, pattern: Any, node: Any) -> bool:
        if not isinstance(pattern, ast.AST):
            return type(pattern) is type(node) and bool(pattern == node)
        if (name := _placeholder(pattern)) is not None:
            return isinstance(node, ast.expr) and self._bind(name, node)
        if _is_rest(pattern):
            self.found[REST] = [node]
            return isinstance(node, ast.expr)
        if isinstance(pattern, ast.Assign) and isinstance(node, ast.AnnAssign) and node.value is not None:
            node = ast.Assign(targets=[node.target], value=node.value)
        return type(pattern) is type(node) and self._same_parts(pattern, node)

    def _same_parts(self, pattern: ast.AST, node: ast.AST) -> bool:
        if isinstance(pattern, ast.Call) and isinstance(node, ast.Call):
            return self._same_call(pattern, node)
        if isinstance(pattern, ast.Compare) and isinstance(node, ast.Compare):
            return self._same_comparison(pattern, node)
        return self._same_fields(pattern, node)

    def _same_fields(self, pattern: ast.AST, node: ast.AST) -> bool:
        return all(
            self._same_list(wanted, getattr(node, name))
            if isinstance(wanted, list)
            else self.same(wanted, getattr(node, name, None))
            for name, wanted in ast.iter_fields(pattern)
            if name not in _NOT_COMPARED
        )

    def _same_list(self, wanted: Sequence[ast.AST], nodes: Sequence[ast.AST], also: Sequence[ast.AST] = ()) -> bool:
        """`also`: what `...` matches beside them."""
        at = next((at for at, one in enumerate(wanted) if _is_rest(one)), None)
        if at is not None and len(nodes) >= len(wanted) - 1:
            end = len(nodes) - (len(wanted) - at - 1)
            self.found[REST] = [*nodes[at:end], *also]
            wanted, nodes = [*wanted[:at], *wanted[at + 1 :]], [*nodes[:at], *nodes[end:]]
        return len(wanted) == len(nodes) and all(map(self.same, wanted, nodes))

    def _same_call(self, pattern: ast.Call, node: ast.Call) -> bool:
        left = {keyword.arg: keyword for keyword in node.keywords}
        given = [(keyword.value, left.pop(keyword.arg, None)) for keyword in pattern.keywords]
        return (
            (not left or any(map(_is_rest, pattern.args)))
            and self.same(pattern.func, node.func)
            and all(found is not None and self.same(wanted, found.value) for wanted, found in given)
            and self._same_list(pattern.args, node.args, list(left.values()))
        )

    def _same_comparison(self, pattern: ast.Compare, node: ast.Compare) -> bool:
        before = dict(self.found)
        if self._same_fields(pattern, node):
            return True
        mirrored = _MIRRORED.get(type(node.ops[0])) if len(node.ops) == 1 else None
        if mirrored is None:
            return False
        self.found = before
        return self._same_fields(pattern, ast.Compare(node.comparators[0], [mirrored()], [node.left]))

    def _bind(self, name: str, node: ast.expr) -> bool:
        known = self.found.setdefault(name, [node])
        return ast.unparse(known[0]) == ast.unparse(node)


def _placeholder(node: ast.AST) -> str | None:
    return node.id.removeprefix(_PREFIX) if isinstance(node, ast.Name) and node.id.startswith(_PREFIX) else None


def _is_rest(node: ast.AST) -> bool:
    value = node.value if isinstance(node, ast.Expr) else node
    return isinstance(value, ast.Constant) and value.value is Ellipsis
