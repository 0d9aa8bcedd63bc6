"""Import circles: modules that import each other, directly or through others."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from pathlib import PurePosixPath
from typing import Final

from house.source import Source

BASES: Final = ("src", "operator", "scheduler_extender", "shell_kit", "twin", "e2e", "proofs", "tests/support")
"""Folders on the import path."""

Imports = Mapping[str, frozenset[str]]


def circles(imports: Imports) -> list[tuple[str, ...]]:
    """Strongly connected components of two modules or more, the largest first."""
    reached = {module: _reached(module, imports) for module in imports}
    components = {tuple(sorted(other for other in reached[module] if module in reached[other])) for module in imports}
    return sorted((c for c in components if len(c) > 1), key=lambda c: (-len(c), c))


def imports_of(sources: Iterable[Source]) -> Imports:
    """Which modules of `sources` each imports, anywhere in it.

    `from package import name` imports package.name if that is a module.
    """
    modules = {module_name(source.path): source for source in sources}
    return {
        name: frozenset(_known(target, modules) for target in _targets(name, source)) - {""}
        for name, source in modules.items()
    }


def module_name(path: str) -> str:
    base = next((f"{base}/" for base in BASES if path.startswith(f"{base}/")), "")
    parts = PurePosixPath(path.removeprefix(base)).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _targets(name: str, source: Source) -> Iterator[str]:
    package = name if source.path.endswith("/__init__.py") else name.rpartition(".")[0]
    for node in source.nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            parents = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            origin = ".".join([*parents, *([node.module] if node.module else [])])
            yield from (f"{origin}.{alias.name}" for alias in node.names)


def _known(target: str, modules: Mapping[str, Source]) -> str:
    """The longest prefix that is a module of the project; empty: none."""
    while target and target not in modules:
        target = target.rpartition(".")[0]
    return target


def _reached(start: str, imports: Imports) -> frozenset[str]:
    found: set[str] = set()
    waiting = [start]
    while waiting:
        module = waiting.pop()
        if module not in found:
            found.add(module)
            waiting.extend(imports[module])
    return frozenset(found)
