"""The bugs by subject, and the test that must catch each.

Kept are bugs that cost money, over-commit a GPU, miss an SLO or lose a write:
`placing`: what the ledger books and frees, binds in doubt, GPUs that others give, shared GPUs, and whose model it is;
`planning`: what a plan pays for, serves in time and is checked for, its budget, and the slow-down of shared GPUs;
`processes`: the fences between two leaders, and reads that are older than our own writes;
`services`: what is taken for the load, when instances are added, kept and removed, budget cuts, and lost records;
  what the serving engine loses or serves twice; what a router sends again, holds or trusts wrongly.
"""

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
