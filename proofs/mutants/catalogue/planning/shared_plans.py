"""Bugs of plans under sharing: resources that are not counted, and slow-downs that are not."""

from __future__ import annotations

from typing import Final

from mutants.changes import DropElement, Replace, always, never
from mutants.mutant import Mutant

_ROW: Final = "tests/unit/planning/test_compute_row.py"
_TENANCY: Final = "tests/unit/planning/test_tenancy.py"
_LEAST_COST: Final = "test_least_cost_fills_the_compute_that_is_free_and_goes_to_another_type"
_WITHOUT_COMPUTE: Final = Replace("$pool.free.all", "$pool.free.all[:3]")

SHARED_PLANS: Final = (
    Mutant(
        "flow drops the compute row",
        "hetserve.planning.flow.programs.program",
        "_Builder._limit_rows",
        _WITHOUT_COMPUTE,
        _ROW,
        _LEAST_COST,
    ),
    Mutant(
        "the checker counts no compute",
        "hetserve.planning.check",
        "_pool_violations",
        DropElement('("GPU compute", ...)'),
        "tests/unit/planning/test_check.py",
        "test_each_broken_promise_is_found",
    ),
    Mutant(
        "plans take the times alone where GPUs are shared",
        "hetserve.planning.inputs",
        "_option",
        never("$offer.shares"),
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
        "_shared",
        always("$instance_type.metadata.name in $rule.undeclared"),
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
)
