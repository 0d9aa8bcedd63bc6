"""Bugs of what tells how a service and an installation are."""

from __future__ import annotations

from typing import Final

from mutants.changes import Replace, always
from mutants.mutant import Mutant

STANDING: Final = "hetserve.cli.health.standing"
JUDGEMENT: Final = "hetserve.cli.health.judgement"
WAIT: Final = "tests/unit/cli/test_wait_command.py"
DOCTOR: Final = "tests/unit/cli/test_doctor_command.py"

HEALTH: Final = (
    Mutant(
        "a condition of an earlier spec ends the wait",
        STANDING,
        "standing",
        always('int($condition.get("observedGeneration") or 0) == $generation'),
        WAIT,
        "test_a_condition_counts_where_it_is_about_the_present_generation",
    ),
    Mutant(
        "what could not be checked is well",
        JUDGEMENT,
        "sound",
        Replace("($one.level in (Level.OK, Level.NOTE))", "$one.level is not Level.PROBLEM"),
        DOCTOR,
        "test_each_fault_is_named_once_with_why_and_what_to_do",
    ),
    Mutant(
        "a Lease that has lapsed leads",
        JUDGEMENT,
        "_not_led",
        Replace("$lease.silent > $lease.duration + _LATE", "False"),
        DOCTOR,
        "test_each_fault_is_named_once_with_why_and_what_to_do",
    ),
    Mutant(
        "the status of types and profiles is written though it says the same",
        "hetserve_operator.work.input_statuses",
        "InputStatuses._write",
        Replace("all($before.get($key) == $value for $key, $value in $status.items())", "False"),
        "tests/unit/operator/test_input_statuses.py",
        "test_at_rest_and_in_a_new_term_nothing_is_written_again",
    ),
)
