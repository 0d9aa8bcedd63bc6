"""Bugs of plans under sharing: resources that are not counted, and slow-downs that are not."""

from __future__ import annotations

from typing import Final

from mutants.changes import DropElement, Replace, always
from mutants.mutant import Mutant

_ROW: Final = "tests/unit/planning/test_gpu_row.py"
_OWN: Final = "tests/unit/planning/test_own_tolerance.py"
_TENANCY: Final = "tests/unit/planning/test_tenancy.py"
_LEAST_COST: Final = "test_least_cost_fills_the_gpus_that_have_a_place_and_goes_to_another_type"
_WITHOUT_GPUS: Final = Replace("$pool.free.all", "$pool.free.all[:3]")

SHARED_PLANS: Final = (
    Mutant(
        "flow drops the row of GPUs",
        "hetserve.planning.flow.programs.program",
        "_Builder._limit_rows",
        _WITHOUT_GPUS,
        _ROW,
        _LEAST_COST,
    ),
    Mutant(
        "the checker counts no GPUs",
        "hetserve.planning.check",
        "_pool_violations",
        DropElement('("GPUs", ...)'),
        "tests/unit/planning/test_check.py",
        "test_each_broken_promise_is_found",
    ),
    Mutant(
        "plans take the times alone where GPUs are shared",
        "hetserve.planning.inputs",
        "_option",
        Replace("$profile if $slowdown is None else slowed($profile, $slowdown / ONE)", "$profile"),
        _TENANCY,
        "test_service_is_planned_as_slow_as_sharing_may_make_it",
    ),
    Mutant(
        "a table of latencies is not slowed",
        "hetserve.profiles.latency",
        "slowed",
        Replace("tuple(Seconds($mean * $factor) for $mean in $profile.means)", "$profile.means"),
        _TENANCY,
        "test_service_is_planned_as_slow_as_sharing_may_make_it",
    ),
    Mutant(
        "an unmeasured profile shares without a booking though nothing of it runs",
        "hetserve.planning.tenancy",
        "_unmeasured",
        always("$kind in $rule.undeclared"),
        _TENANCY,
        "test_an_instance_takes_its_part_of_a_gpu_and_pays_for_it",
    ),
    Mutant(
        "an exclusive instance pays for its part",
        "hetserve.planning.tenancy",
        "exclusive",
        Replace("quantity_to_mib($instance_type.spec.gpu.memory)", "MiB(3072)"),
        _TENANCY,
        "test_an_instance_takes_its_part_of_a_gpu_and_pays_for_it",
    ),
    Mutant(
        "trials take the times alone where GPUs are shared",
        "hetserve.planning.flow.search.judge",
        "Judge._served",
        Replace(
            "{option.name: option.profile for option in $self.table.types}",
            "{one.name: one.own.profile if one.own else one.profile for one in $self.table.types}",
        ),
        _OWN,
        "test_trials_see_times_as_long_as_sharing_may_make_them",
    ),
    Mutant(
        "all of the widest slow-down is stated",
        "hetserve.planning.flow.tolerance",
        "_tolerance",
        Replace("KEPT * $widest", "$widest"),
        _OWN,
        "test_the_tolerance_is_the_last_that_trials_let_pass_less_a_part",
    ),
    Mutant(
        "a tolerance is narrower than sigma",
        "hetserve.planning.flow.tolerance",
        "_tolerance",
        Replace("max($kept, $usual)", "$kept"),
        _OWN,
        "test_the_part_that_is_kept_in_hand_never_makes_a_tolerance_narrower_than_sigma",
    ),
    Mutant(
        "a tolerance that finds no place is planned",
        "hetserve.planning.flow.tolerance",
        "_pays",
        Replace("max($option.slowdown or ONE, $own.least or ONE)", "$option.slowdown or ONE"),
        _OWN,
        "test_a_cheap_type_whose_tolerance_finds_no_place_keeps_no_dearer_one_from_it",
    ),
    Mutant(
        "a service that follows its load takes a tolerance of its own",
        "hetserve.planning.inputs",
        "problem_of",
        Replace('$spec.objective == "MinCost" and $spec.scaling is None', '$spec.objective == "MinCost"'),
        _OWN,
        "test_only_a_fixed_load_that_is_tried_has_a_tolerance_of_its_own",
    ),
    Mutant(
        "what an instance adds to others' times is free",
        "hetserve.planning.prices",
        "largest_share",
        Replace("Fraction($adds, $left) if $left else Fraction(1)", "Fraction(0)"),
        _TENANCY,
        "test_an_instance_takes_its_part_of_a_gpu_and_pays_for_it",
    ),
    Mutant(
        "what an instance adds to copies that stay apart is paid",
        "hetserve.planning.prices",
        "largest_share",
        Replace("$terms.greatest if $copies else $terms.others", "$terms.greatest"),
        _TENANCY,
        "test_what_it_does_to_copies_of_itself_is_paid_where_they_may_share",
    ),
    Mutant(
        "a budget that is too low is answered at the installation's slow-down",
        "hetserve.planning.registry",
        "_tolerant",
        Replace("$made if $made.reason == $usual.reason == Reason.BUDGET_TOO_LOW else $usual", "$usual"),
        _OWN,
        "test_a_budget_that_is_too_low_names_what_one_instance_costs_at_its_own_tolerance",
    ),
    Mutant(
        "a tolerance makes compute dearer",
        "hetserve.planning.prices",
        "largest_share",
        Replace("Fraction($terms.share, $terms.tolerance)", "Fraction($terms.share, ONE)"),
        _TENANCY,
        "test_an_instance_takes_its_part_of_a_gpu_and_pays_for_it",
    ),
)
