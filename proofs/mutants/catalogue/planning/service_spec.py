"""Bugs of what a service's fields of metrics and scaling mean."""

from __future__ import annotations

from typing import Final

from mutants.changes import Replace
from mutants.mutant import Mutant

INPUTS: Final = "hetserve.planning.inputs"
SOURCE: Final = "hetserve.api.service.demand_source"
SPEC: Final = "hetserve.api.inference_service"

ABSENT: Final = "tests/unit/api/test_scaling_spec.py"
PLANNED: Final = "tests/unit/planning/test_inputs.py"
TABLE: Final = "tests/unit/api/test_specs_as_parsed.py"

SERVICE_SPEC: Final = (
    Mutant(
        "samples get stale within their window",
        SOURCE,
        "MetricsSpec.stale_after_seconds",
        Replace("max(LEAST_STALE_AFTER, self.window_seconds)", "LEAST_STALE_AFTER"),
        ABSENT,
        "test_without_an_age_samples_count_for_two_minutes_or_the_window",
    ),
    Mutant(
        "an absent window is under no rule",
        SOURCE,
        "_stale_after_covers_window",
        Replace("source.window or DEFAULT_WINDOW", "source.window or '1s'"),
        TABLE,
        "test_spec_table",
    ),
    Mutant(
        "a pause of one direction pauses nothing",
        SPEC,
        "InferenceServiceSpec.pauses",
        Replace("('All', direction)", "('All',)"),
        ABSENT,
        "test_a_pause_holds_back_its_direction",
    ),
    Mutant(
        "the expected load hides the one that is measured",
        INPUTS,
        "problem_of",
        Replace(
            "load is None and $given is not None and $rate is not None", "$given is not None and $rate is not None"
        ),
        PLANNED,
        "test_a_load_that_is_given_counts_instead_of_the_expected_one",
    ),
    Mutant(
        "a service's saturation is not asked",
        INPUTS,
        "problem_of",
        Replace("spec.scaling.saturation_share", "settings.saturation_threshold"),
        PLANNED,
        "test_with_scaling_its_saturation_counts_and_else_that_of_the_installation",
    ),
)
