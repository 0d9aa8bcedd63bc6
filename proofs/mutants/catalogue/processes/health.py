"""Bugs of what tells how a service and an installation are."""

from __future__ import annotations

from typing import Final

from mutants.changes import Replace, always, never
from mutants.mutant import Mutant

STANDING: Final = "hetserve.cli.health.standing"
JUDGEMENT: Final = "hetserve.cli.health.judgement"
WORKLOADS: Final = "hetserve.cli.health.workloads"
WAIT: Final = "tests/unit/cli/test_wait_command.py"
DOCTOR: Final = "tests/unit/cli/test_doctor_command.py"
ON_COMPONENTS: Final = "tests/unit/cli/test_doctor_on_components.py"

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
        "nobody looks whether the second scheduler runs",
        JUDGEMENT,
        "_components",
        Replace("$one.component != SCHEDULER or $one.settings is not False", "$one.component != SCHEDULER"),
        DOCTOR,
        "test_each_fault_is_named_once_with_why_and_what_to_do",
    ),
    Mutant(
        "the second scheduler's Lease is looked for by another name",
        WORKLOADS,
        "_election",
        never("$component == SCHEDULER and $settings is not None"),
        ON_COMPONENTS,
        "test_the_schedulers_lease_is_the_one_of_its_configuration",
    ),
    Mutant(
        "a component whose version nothing says is of ours",
        JUDGEMENT,
        "_versions",
        Replace("$named[$one.version]", "$named[$one.version or __version__]"),
        DOCTOR,
        "test_a_version_that_nothing_says_is_not_taken_for_ours",
    ),
    Mutant(
        "an update whose pods wait is not seen beside ready ones",
        WORKLOADS,
        "_deployment",
        Replace("$ready >= $wanted and not $behind", "$ready >= $wanted"),
        ON_COMPONENTS,
        "test_an_update_whose_pods_wait_is_seen_beside_the_ready_ones_of_before",
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
