"""Bugs of processes that lead: the fences between two of them, and reads that are too old."""

from __future__ import annotations

from typing import Final

from mutants.catalogue.processes.leaders import LEADERS
from mutants.catalogue.processes.operators import OPERATORS

PROCESSES: Final = (
    *LEADERS,
    *OPERATORS,
)
