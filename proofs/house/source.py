"""One Python file: syntax tree, lines of code, prose."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Final

DIRECTIVE: Final = re.compile(r"#\s*(noqa|type:|pragma|fmt:|ruff:|mypy:|!)")
"""Comments for tools."""
NO_CODE: Final = frozenset(
    {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
)


@dataclass(frozen=True)
class Source:
    """By its path in the tree; parsed when first asked."""

    path: str
    text: str

    @cached_property
    def tree(self) -> ast.Module:
        """Raises SyntaxError, which names the file."""
        return ast.parse(self.text, self.path)

    @cached_property
    def nodes(self) -> tuple[ast.AST, ...]:
        return tuple(ast.walk(self.tree))

    @cached_property
    def lines(self) -> list[str]:
        return self.text.splitlines()

    @cached_property
    def docstrings(self) -> tuple[ast.Expr, ...]:
        """Strings that are statements."""
        return tuple(node for node in self.nodes if isinstance(node, ast.Expr) and _is_text(node.value))

    @cached_property
    def comments(self) -> tuple[tokenize.TokenInfo, ...]:
        """Except for tools."""
        return tuple(t for t in self._tokens if t.type == tokenize.COMMENT and not DIRECTIVE.match(t.string))

    @cached_property
    def code(self) -> dict[int, str]:
        """By line number, stripped, without comments and docstrings."""
        numbers = {line for t in self._tokens if t.type not in NO_CODE for line in range(t.start[0], t.end[0] + 1)}
        numbers -= {line for node in self.docstrings for line in _span(node)}
        starts = {t.start[0]: t.start[1] for t in self._tokens if t.type == tokenize.COMMENT}
        stripped = {number: self.lines[number - 1][: starts.get(number)].strip() for number in sorted(numbers)}
        return {number: line for number, line in stripped.items() if line}

    @cached_property
    def import_lines(self) -> frozenset[int]:
        imports = (node for node in self.nodes if isinstance(node, ast.Import | ast.ImportFrom))
        return frozenset(line for node in imports for line in _span(node))

    @cached_property
    def _tokens(self) -> tuple[tokenize.TokenInfo, ...]:
        return tuple(_tokens(self.text))


def _tokens(text: str) -> Iterator[tokenize.TokenInfo]:
    yield from tokenize.generate_tokens(io.StringIO(text).readline)


def _span(node: ast.stmt) -> range:
    return range(node.lineno, (node.end_lineno or node.lineno) + 1)


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)
