"""What of requirements.lock a component needs. Runs in the build stage: the standard library only."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).parents[1]
OF_COMPONENTS: Final = {
    "operator": ("operator",),
    "extender": ("extender",),
    "cli": ("cluster", "planning"),
}
"""Extras of the distribution that a component's image holds."""
PYTHON: Final = "3.11"
"""That of the base images, and of the tests."""

_PIN: Final = re.compile(r"^(?P<name>[A-Za-z0-9][\w.-]*)==", re.ASCII)
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
    """The requirements of a lock with annotations in lines. Raises ValueError for a pin that nobody asks for."""
    found = []
    for block in re.split(r"\n(?=\S)", lock.strip()):
        named = _PIN.match(block)
        if named is None:
            raise ValueError(f"requirements.lock: {block.splitlines()[0]!r} is no pinned requirement: run make lock")
        lines = block.splitlines()
        via = {
            normalized(asker.partition(" ")[0])
            for line in lines
            if line.startswith(_VIA)
            for asker in line.removeprefix(_VIA).split(", ")
        }
        if not via:
            raise ValueError(f"requirements.lock: {named['name']} names nothing that needs it: run make lock")
        text = "\n".join(line for line in lines if not line.startswith(_VIA))
        found.append(Pin(normalized(named["name"]), text, frozenset(via)))
    return found


def wanted(project: dict[str, Any], extras: Iterable[str]) -> frozenset[str]:
    """Names that the project asks for with these extras. Raises ValueError for an extra that it does not have.

    project: the table of that name in pyproject.toml. An extra that names the project's own extras brings them along.
    """
    own, optional = normalized(project["name"]), project["optional-dependencies"]
    names: set[str] = set()
    left, seen = [*extras], set[str]()
    texts = list(project["dependencies"])
    while left:
        extra = left.pop()
        if extra in seen:
            continue
        if extra not in optional:
            raise ValueError(f"the project has no extra {extra!r}; there are: {', '.join(sorted(optional))}")
        seen.add(extra)
        texts += optional[extra]
        left += [more for text in optional[extra] for more in _own_extras(text, own)]
    for text in texts:
        name = _parsed(text)["name"]
        if normalized(name) != own:
            names.add(normalized(name))
    return frozenset(names)


def _own_extras(text: str, own: str) -> Iterator[str]:
    named = _parsed(text)
    if normalized(named["name"]) == own and named["extras"]:
        yield from (extra.strip() for extra in named["extras"].split(","))


def _parsed(text: str) -> re.Match[str]:
    named = _NAME.match(text)
    if named is None:
        raise ValueError(f"pyproject.toml: {text!r} is no requirement")
    return named


def closure(lock: Iterable[Pin], names: Iterable[str]) -> list[Pin]:
    """The pins of these names and of all that they need, in the lock's order. Raises ValueError for a name without one.

    A distribution that asks for another only with an extra brings it too: more than needed, never less.
    """
    held = list(lock)
    there = {pin.name for pin in held}
    found, new = set[str](), {normalized(name) for name in names}
    missing = new - there
    if missing:
        raise ValueError(f"requirements.lock has no {', '.join(sorted(missing))}: run make lock")
    while new:
        found |= new
        new = {pin.name for pin in held if pin.via & new} - found
    return [pin for pin in held if pin.name in found]


def of_component(component: str, root: Path = ROOT) -> list[Pin]:
    """The pins that a component's image installs. Raises ValueError for a component that has no image."""
    if component not in OF_COMPONENTS:
        raise ValueError(f"component {component!r} has no image; there are: {', '.join(OF_COMPONENTS)}")
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    lock = pins((root / "requirements.lock").read_text(encoding="utf-8"))
    return closure(lock, wanted(project, OF_COMPONENTS[component]))


def of_the_build(root: Path = ROOT) -> list[Pin]:
    """The pins that build the wheel."""
    build = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["build-system"]["requires"]
    return closure(
        pins((root / "requirements.lock").read_text(encoding="utf-8")), (_parsed(text)["name"] for text in build)
    )


def brings_planning(component: str, root: Path = ROOT) -> bool:
    """Whether a component plans, so that its image holds compiled kernels."""
    return any(pin.name == "numba" for pin in of_component(component, root))
