"""Shared class names, and private names of the product that tests use."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from house.imports import module_name
from house.source import Source

BY_STRING: Final = frozenset({"setattr", "getattr", "delattr", "hasattr"})
"""Functions that take an attribute's name as a string, pytest's included."""


@dataclass(frozen=True, slots=True)
class Access:
    """`path:line` and the name."""

    place: str
    name: str


@dataclass(frozen=True, slots=True)
class Private:
    """Private names of the product, its top packages, and attributes of the tests' classes."""

    names: frozenset[str]
    packages: frozenset[str]
    inherited: frozenset[str]


def shared_class_names(sources: Iterable[Source]) -> dict[str, list[str]]:
    """Class names with several definitions, and the module of each."""
    modules: dict[str, list[str]] = defaultdict(list)
    for source in sources:
        for node in source.nodes:
            if isinstance(node, ast.ClassDef):
                modules[node.name].append(module_name(source.path))
    return {name: sorted(found) for name, found in sorted(modules.items()) if len(found) > 1}


def private_accesses(tests: Iterable[Source], product: Iterable[Source]) -> list[Access]:
    """Private names of the product that tests import, read or replace.

    Attributes compare by name. One of a class of the same file is the test's own, as is one of `self` that any class of
    the tests defines.
    """
    tests, product = tuple(tests), tuple(product)
    private = Private(
        names=frozenset(name for source in product for name in _defined(source)),
        packages=frozenset(module_name(source.path).split(".")[0] for source in product),
        inherited=frozenset(name for source in tests for name in _attributes(source)),
    )
    return [Access(f"{source.path}:{line}", name) for source in tests for line, name in sorted(_used(source, private))]


def _defined(source: Source) -> Iterator[str]:
    return filter(_is_private, _attributes(source) | _bound(source.tree.body))


def _attributes(source: Source) -> set[str]:
    """Methods, class attributes and what is assigned to `self`."""
    names = set()
    for node in source.nodes:
        if isinstance(node, ast.ClassDef):
            names |= _bound(node.body)
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and _is_self(node.value):
            names.add(node.attr)
    return names


def _bound(body: Iterable[ast.stmt]) -> set[str]:
    """Names bound by the statements of a module or class, except by an import."""
    names = set()
    for statement in body:
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(statement.name)
        else:
            stores = (node for node in ast.walk(statement) if isinstance(node, ast.Name))
            names |= {node.id for node in stores if isinstance(node.ctx, ast.Store)}
    return names


def _used(source: Source, private: Private) -> Iterator[tuple[int, str]]:
    foreign = private.names - _attributes(source)
    for node in source.nodes:
        if isinstance(node, ast.Attribute) and node.attr in foreign:
            if not (_is_self(node.value) and node.attr in private.inherited):
                yield node.lineno, node.attr
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in private.packages:
            yield from ((node.lineno, alias.name) for alias in node.names if _is_private(alias.name))
        elif isinstance(node, ast.Call) and _called(node) in BY_STRING:
            yield from ((node.lineno, name) for name in _strings(node) if name in foreign)


def _called(call: ast.Call) -> str:
    function = call.func
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def _strings(call: ast.Call) -> Iterator[str]:
    """Last names of the first two string arguments, such as `_now` of "package.module._now"."""
    for argument in call.args[:2]:
        if isinstance(argument, ast.Constant) and isinstance(argument.value, str):
            yield argument.value.rpartition(".")[2]


def _is_self(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id == "self"


def _is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__") and name != "_"
