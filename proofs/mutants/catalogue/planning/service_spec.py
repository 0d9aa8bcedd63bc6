"""Bugs of what a service's fields of metrics and scaling mean."""

from __future__ import annotations

from typing import Final

from mutants.changes import Replace
from mutants.mutant import Mutant

INPUTS: Final = "hetserve.planning.inputs"

PLANNED: Final = "tests/unit/planning/test_inputs.py"

SERVICE_SPEC: Final = (
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
