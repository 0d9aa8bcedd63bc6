"""The bugs by subject, and the test that must catch each."""

from __future__ import annotations

from typing import Final

from mutants.catalogue.placing import PLACING
from mutants.catalogue.planning import PLANNING
from mutants.catalogue.processes import PROCESSES
from mutants.catalogue.services import SERVICES

MUTANTS: Final = (*PLACING, *PLANNING, *SERVICES, *PROCESSES)

_QUICK_FILES: Final = ("tests/unit/placement/test_ledger.py", "tests/adversarial/test_binds_in_doubt.py")

QUICK: Final = tuple(mutant for mutant in MUTANTS if mutant.file in _QUICK_FILES)
"""Those whose tests take about a second each."""
