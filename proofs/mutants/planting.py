"""Plants a bug into a tree of source, if it has exactly one place."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from difflib import SequenceMatcher, get_close_matches
from pathlib import Path
from typing import Final

from mutants.mutant import Mutant
from mutants.pattern import REST
from mutants.source import Definition, Slot, definitions, module_file, modules, slots

_MOST_NAMED: Final = 5
_LONGEST: Final = 110


class PlantingError(Exception):
    """Not exactly one place: the mutant must follow the code."""


def plant(mutant: Mutant, tree: Path) -> None:
    """Raises PlantingError."""
    path, text = planted(mutant, tree)
    path.write_text(text)


def planted(mutant: Mutant, tree: Path) -> tuple[Path, str]:
    """(file below `tree`, its source with the bug). Raises PlantingError."""
    path, module = planted_module(mutant, tree)
    return path, ast.unparse(module) + "\n"


def planted_module(mutant: Mutant, tree: Path) -> tuple[Path, ast.Module]:
    """As `planted`, not yet written as text, which takes longer than all the rest."""
    path = module_file(tree, mutant.module)
    if path is None:
        raise PlantingError(_no_module(mutant, tree))
    module = ast.parse(path.read_text())
    named = [node for name, node in definitions(module) if name == mutant.function]
    if len(named) != 1:
        raise PlantingError(_no_function(mutant, module, len(named), tree))
    places = list(mutant.change.places(named[0]))
    if len(places) != 1:
        raise PlantingError(_no_place(mutant, tree, named[0], places))
    mutant.change.apply(places[0])
    ast.fix_missing_locations(named[0])
    return path, module


def _no_module(mutant: Mutant, tree: Path) -> str:
    known = modules(tree)
    return _message(
        f"{mutant.name}: there is no module {mutant.module}",
        {
            f"modules with {mutant.function}": _defining(mutant.function, known),
            "functions with the code to change": _elsewhere(mutant, tree),
            "modules with such a name": get_close_matches(mutant.module, known, n=_MOST_NAMED),
        },
    )


def _no_function(mutant: Mutant, module: ast.Module, count: int, tree: Path) -> str:
    names = [name for name, _ in definitions(module)]
    last = mutant.function.rpartition(".")[2]
    alike = [name for name in names if name.rpartition(".")[2] == last]
    return _message(
        f"{mutant.name}: {mutant.module} defines {mutant.function} {count} times, not once",
        {
            "names like it in the module": [*alike, *get_close_matches(mutant.function, set(names) - set(alike))],
            f"modules with {mutant.function}": _defining(mutant.function, modules(tree)),
            "functions with the code to change": _elsewhere(mutant, tree),
        },
    )


def _no_place(mutant: Mutant, tree: Path, scope: Definition, places: list[Slot]) -> str:
    return _message(
        f"{mutant.name}: {mutant.module}, {mutant.function} has {len(places)} places for {mutant.change}, not one",
        {"places": [_shown(slot) for slot in places]}
        if places
        else {
            "most like it": _most_alike(mutant, scope),
            "functions with the code to change": _elsewhere(mutant, tree),
        },
    )


def _most_alike(mutant: Mutant, scope: Definition) -> list[str]:
    """The most similar first."""
    pattern = mutant.change.pattern
    matcher = SequenceMatcher(b=pattern.text.replace("$", ""), autojunk=False)

    def likeness(slot: Slot) -> float:
        matcher.set_seq1(_text(slot))
        return matcher.ratio()

    candidates = [slot for slot in slots(scope) if isinstance(slot.node, pattern.kind)]
    return [_shown(slot) for slot in sorted(candidates, key=likeness, reverse=True)]


def _elsewhere(mutant: Mutant, tree: Path) -> list[str]:
    """Functions of the package with the code, those of the module first."""
    if mutant.change.pattern.text == REST:
        return []
    package = mutant.module.partition(".")[0]
    known = {name: path for name, path in modules(tree).items() if name.partition(".")[0] == package}
    found = []
    for module in sorted(known, key=lambda name: (name != mutant.module, name)):
        names = [name for name, node in definitions(ast.parse(known[module].read_text())) if _fits(mutant, node)]
        innermost = [name for name in names if not any(other.startswith(f"{name}.") for other in names)]
        found += [f"{module}, {name}" for name in innermost]
    return found


def _fits(mutant: Mutant, scope: Definition) -> bool:
    return any(mutant.change.places(scope))


def _defining(function: str, known: dict[str, Path]) -> list[str]:
    """Modules that define a function or class."""
    last = function.rpartition(".")[2]
    texts = ((name, path.read_text()) for name, path in known.items())
    return [name for name, text in texts if last in text and function in dict(definitions(ast.parse(text)))]


def _shown(slot: Slot) -> str:
    return f"line {getattr(slot.node, 'lineno', '?')}: {_text(slot)[:_LONGEST]}"


def _text(slot: Slot) -> str:
    return ast.unparse(slot.node).partition("\n")[0]


def _message(problem: str, hints: dict[str, Iterable[str]]) -> str:
    lines = [problem]
    for title, found in hints.items():
        some = list(dict.fromkeys(found))[:_MOST_NAMED]
        lines += [f"  {title}:", *(f"    {one}" for one in some)] if some else []
    return "\n".join(lines)
