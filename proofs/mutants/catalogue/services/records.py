"""Bugs of decision records: lost writes."""

from __future__ import annotations

from typing import Final

from mutants.changes import Replace, never
from mutants.mutant import Mutant

APPLY: Final = "hetserve_operator.work.apply"

WRITTEN: Final = "tests/unit/operator/test_decision_records_are_written.py"

RECORDS: Final = (
    Mutant(
        "the ConfigMap of somebody else is taken over",
        APPLY,
        "Writer._write_decisions",
        never("found is not None and not is_ours(found, str(request.owner['uid']))"),
        WRITTEN,
        "test_the_config_map_of_somebody_else_is_left_alone",
    ),
    Mutant(
        "a late record undoes another",
        APPLY,
        "Writer._write_ring",
        Replace("('uid', 'resourceVersion')", "('uid',)"),
        WRITTEN,
        "test_a_record_that_comes_late_does_not_undo_another",
    ),
)
