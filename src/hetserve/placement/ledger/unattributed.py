"""Pods that have GPUs of a node of which nobody knows which they are: while one is there, the node takes no new pods.

Which listed GPU such a pod runs on nobody knows, so that any of them may be taken.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from enum import Enum
from typing import Final, NamedTuple

UNLISTED_GPU: Final = "pods on the node hold GPUs that its inventory does not list; it takes new pods once they end"
DEVICE_PLUGIN: Final = "pods on the node hold GPUs through {}, and nobody knows which; it takes new pods once they end"
UNREADABLE_POD: Final = "pods on the node cannot be read, nor which GPUs they hold; it takes new pods once they end: {}"
_SHOWN: Final = 3
_LONG: Final = 80


class Cause(Enum):
    """Why it is not known which GPUs a pod has; the value is a word for programs."""

    UNLISTED = "unlisted"
    DEVICE_PLUGIN = "device-plugin"
    UNREADABLE = "unreadable"


class Stranger(NamedTuple):
    """One cause, with the resource of the device plugin, or the pod that cannot be read."""

    cause: Cause
    name: str = ""


UNLISTED: Final = (Stranger(Cause.UNLISTED),)


def first_cause(strangers: Collection[Stranger]) -> Cause:
    """The cause that is told of a node that has several: always the same of the same ones."""
    found = {one.cause for one in strangers}
    return next(cause for cause in Cause if cause in found)


def words(cause: Cause, strangers: Iterable[Stranger]) -> str:
    """What is said of nodes that are closed for a cause; `strangers` are theirs, whatever their causes."""
    names = sorted({one.name for one in strangers if one.cause is cause})
    if cause is Cause.DEVICE_PLUGIN:
        return DEVICE_PLUGIN.format(few(names))
    return UNREADABLE_POD.format(few(names)) if cause is Cause.UNREADABLE else UNLISTED_GPU


def few(names: Collection[str]) -> str:
    """Some names: what is said is repeated for every node that is refused, and events are cut."""
    shown = [name if len(name) <= _LONG else f"{name[: _LONG - 3]}..." for name in list(names)[:_SHOWN]]
    return ", ".join(shown) if len(names) <= _SHOWN else f"{', '.join(shown)} and {len(names) - _SHOWN} more"
