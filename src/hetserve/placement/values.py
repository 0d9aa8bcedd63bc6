"""Values that are made many times per pod: frozen by the type checker, not at run time.

A frozen dataclass sets each field by `object.__setattr__`, which takes two and a half times as long; every line that
touches one of ours is type-checked, tests included. They compare and hash by their fields as frozen ones do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dataclasses import dataclass as value
else:
    from dataclasses import dataclass

    def value(*, frozen: bool, slots: bool) -> Any:
        """`dataclass` for the type checker."""
        return dataclass(slots=slots, unsafe_hash=frozen)


__all__ = ["value"]
