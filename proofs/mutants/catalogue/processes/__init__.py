"""Bugs of processes: who leads, who may ask, who is well."""

from __future__ import annotations

from typing import Final

from mutants.catalogue.processes.certificates import CERTIFICATES
from mutants.catalogue.processes.health import HEALTH
from mutants.catalogue.processes.leaders import LEADERS
from mutants.catalogue.processes.operators import OPERATORS
from mutants.catalogue.processes.readers import READERS

PROCESSES: Final = (
    *LEADERS,
    *OPERATORS,
    *HEALTH,
    *CERTIFICATES,
    *READERS,
)
