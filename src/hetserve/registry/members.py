"""A registry: the members of a family by name."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Generic, Protocol, TypeVar


def load(where: str) -> Any:
    """The function at `package.module:function`. Raises ImportError or AttributeError."""
    module, _, function = where.partition(":")
    return getattr(import_module(module), function)


class Named(Protocol):
    @property
    def name(self) -> str: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """One member of a family.

    where: `package.module:function`. about: for the tables in docs/.
    """

    name: str
    where: str
    about: str

    def load(self) -> Any:
        """The function, imported on first use. Raises ImportError or AttributeError."""
        return load(self.where)


M = TypeVar("M", bound=Named)


class Registry(Generic[M]):
    """Members by name, in the order of help and docs."""

    def __init__(self, *members: M) -> None:
        self._members = {member.name: member for member in members}

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._members)

    def names_of(self, holds: Callable[[M], bool]) -> tuple[str, ...]:
        return tuple(member.name for member in self if holds(member))

    def __iter__(self) -> Iterator[M]:
        return iter(self._members.values())

    def __contains__(self, name: object) -> bool:
        return name in self._members

    def __getitem__(self, name: str) -> M:
        """Raises KeyError."""
        return self._members[name]


def make(members: Registry[Any], family: str, name: str, settings: Mapping[str, Any]) -> Any:
    """What the factory of a member makes by these settings. family: for errors.

    Raises ValueError for an unknown name or a setting out of range, TypeError for an unknown or missing setting.
    """
    if name not in members:
        raise ValueError(f"unknown {family} {name!r}; there are: {', '.join(members.names)}")
    factory = members[name].load()
    known = inspect.signature(factory).parameters
    for unknown in sorted(settings.keys() - known.keys()):
        there = f"there are: {', '.join(known)}" if known else "it has none"
        raise TypeError(f"{family} {name} has no setting {unknown}; {there}")
    return factory(**settings)
