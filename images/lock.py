"""What of requirements.lock a component needs. Runs in the build stage: the standard library only."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).parents[1]
OF_COMPONENTS: Final = {
    "operator": ("operator",),
    "extender": ("extender",),
    "cli": ("cluster", "planning"),
    "router": ("router",),
    "worker": ("worker",),
}
"""Extras of the distribution that a component's image holds."""
PYTHON: Final = "3.11"
"""That of the base images, and of the tests."""

_NAME: Final = re.compile(r"^(?P<name>[A-Za-z0-9][\w.-]*)(\[(?P<extras>[\w, -]+)\])?", re.ASCII)
_VIA: Final = "    # via "


@dataclass(frozen=True)
class Pin:
    """One requirement of the lock.

    name: normalized. text: its lines, with marker and hashes. via: normalized names of what asks for it.
    """

    name: str
    text: str
    via: frozenset[str]


def normalized(name: str) -> str:
    """The form in which names of distributions are compared."""
    return re.sub(r"[-_.]+", "-", name).lower()


def pins(lock: str) -> list[Pin]:
    """The requirements of a lock with annotations in lines, as `make lock` writes it."""
    found = []
    for block in re.split(r"\n(?=\S)", lock.strip()):
        lines = block.splitlines()
        asking = [line.removeprefix(_VIA) for line in lines if line.startswith(_VIA)]
        via = {normalized(asker.partition(" ")[0]) for line in asking for asker in line.split(", ")}
        if not via:
            raise ValueError(f"requirements.lock: {lines[0]!r} names nothing that needs it: run make lock")
        text = "\n".join(line for line in lines if not line.startswith(_VIA))
        found.append(Pin(normalized(_parsed(block)["name"]), text, frozenset(via)))
    return found


def wanted(project: dict[str, Any], extras: Iterable[str]) -> frozenset[str]:
    """Names that the project asks for with these extras, and with its own extras that these name.

    project: the table of that name in pyproject.toml. Raises KeyError for an extra that it does not have.
    """
    own, names = normalized(project["name"]), set[str]()
    texts = [*project["dependencies"], *(f"{own}[{extra}]" for extra in extras)]
    while texts:
        named = _parsed(texts.pop())
        if normalized(named["name"]) != own:
            names.add(normalized(named["name"]))
            continue
        for extra in (named["extras"] or "").split(","):
            texts += project["optional-dependencies"][extra.strip()]
    return frozenset(names)


def _parsed(text: str) -> re.Match[str]:
    named = _NAME.match(text)
    if named is None:
        raise ValueError(f"{text.splitlines()[0]!r} is no requirement: run make lock")
    return named


def closure(lock: Iterable[Pin], names: Iterable[str]) -> list[Pin]:
    """The pins of these names and of all that they need, in the lock's order. Raises ValueError for a name without one.

    A distribution that asks for another only with an extra brings it too: more than needed, never less.
    """
    held = list(lock)
    found, new = set[str](), {normalized(name) for name in names}
    if missing := new - {pin.name for pin in held}:
        raise ValueError(f"requirements.lock has no {', '.join(sorted(missing))}: run make lock")
    while new:
        found |= new
        new = {pin.name for pin in held if pin.via & new} - found
    return [pin for pin in held if pin.name in found]


def of_component(component: str) -> list[Pin]:
    """The pins that a component's image installs."""
    project, lock = _read()
    return closure(lock, wanted(project["project"], OF_COMPONENTS[component]))


def of_the_build() -> list[Pin]:
    """The pins that build the wheel."""
    project, lock = _read()
    return closure(lock, (_parsed(text)["name"] for text in project["build-system"]["requires"]))


def _read() -> tuple[dict[str, Any], list[Pin]]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    return project, pins((ROOT / "requirements.lock").read_text(encoding="utf-8"))
