"""How much is measured."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

TUNING: Final = (1000,)
"""Seeds on which the rivals' settings are chosen; no report uses them."""

SEEDS: Final = 10
FEW: Final = 3


@dataclass(frozen=True, slots=True)
class Scale:
    """seeds: of what is reported. tuning: seeds of the sweep. few: of sensitivity. end: seconds; None: the paper's."""

    jobs: int
    seeds: tuple[int, ...]
    few: tuple[int, ...]
    tuning: tuple[int, ...] = TUNING
    end: float | None = None
    quick: bool = False


def whole(jobs: int, seeds: int) -> Scale:
    """The sections in full. seeds: how many are reported."""
    return Scale(jobs, tuple(range(seeds)), tuple(range(min(seeds, FEW))))


def quick(jobs: int) -> Scale:
    """One seed of ten minutes, default settings."""
    return Scale(jobs, (0,), (0,), (), 600.0, quick=True)
