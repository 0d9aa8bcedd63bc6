"""How much is measured."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

TUNING: Final = (1000, 1001)
"""Seeds on which the rivals' settings are chosen; no report uses them."""


@dataclass(frozen=True, slots=True)
class Scale:
    """seeds: of what is reported. tuning: seeds of the sweep. few: of sensitivity. end: seconds; None: the paper's."""

    jobs: int
    seeds: tuple[int, ...] = tuple(range(10))
    few: tuple[int, ...] = tuple(range(3))
    tuning: tuple[int, ...] = TUNING
    end: float | None = None
    quick: bool = False


def quick(jobs: int) -> Scale:
    """One seed of ten minutes, default settings."""
    return Scale(jobs, (0,), (0,), (), 600.0, quick=True)
