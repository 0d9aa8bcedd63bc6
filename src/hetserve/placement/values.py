"""Frozen values that only the type checker freezes: a frozen dataclass takes 2.5 times as long to make."""

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
