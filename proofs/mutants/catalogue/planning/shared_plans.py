"""Bugs of plans under sharing: resources that are not counted, and slow-downs that are not."""

from __future__ import annotations

from typing import Final

from mutants.changes import DropElement, DropStatement, Replace, always, never
from mutants.mutant import Mutant

_ROW: Final = "tests/unit/planning/test_compute_row.py"
_TENANCY: Final = "tests/unit/planning/test_tenancy.py"
_VERDICT: Final = "tests/unit/planning/test_sharing_verdict.py"
_FIT: Final = "tests/unit/profiles/test_sharing_fit.py"
_TOGETHER: Final = "tests/unit/cli/test_simulate_together.py"
_LEAST_COST: Final = "test_least_cost_fills_the_compute_that_is_free_and_goes_to_another_type"
_MOST: Final = "test_most_throughput_takes_what_compute_is_free_beside_what_runs"
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
        "ilp drops the compute row",
        "hetserve.planning.mincost.model",
        "_pool_rows",
        _WITHOUT_COMPUTE,
        _ROW,
        _LEAST_COST,
    ),
    Mutant(
        "the ranking drops the compute row", "hetserve.planning.kbest.space", "_shared", _WITHOUT_COMPUTE, _ROW, _MOST
    ),
    Mutant(
        "homogeneous drops the compute row",
        "hetserve.planning.problem",
        "Problem.most_of",
        Replace("zip($option.demand.all, $pool.free.all, strict=True)", "zip($option.demand.all, $pool.free.all[:3])"),
        _ROW,
        _MOST,
    ),
    Mutant(
        "flow tries neighbours that compute has no room for",
        "hetserve.planning.flow.search.leading",
        "fits",
        _WITHOUT_COMPUTE,
        _ROW,
        "test_counts_beyond_the_compute_are_never_tried",
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
        "plans slow what has its GPU alone",
        "hetserve.planning.inputs",
        "_option",
        always("$offer.shares"),
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
    Mutant(
        "what sharing saves is told from what the cluster has free",
        "hetserve.planning.sharing",
        "compare_sharing",
        Replace("tuple(map(_anywhere, $problem.types, $problem.unshared))", "$problem.types"),
        _VERDICT,
        "test_both_sides_are_those_of_a_cluster_with_room",
    ),
    Mutant(
        "the joint run plays the slowed times",
        "hetserve.cli.capacity.together.play",
        "_shared",
        Replace("serving.system_of($one.alone)", "serving.system_of($one.problem)"),
        _TOGETHER,
        "test_service_times_are_the_profiles_own_and_only_the_prediction_is_slowed",
    ),
    Mutant(
        "plans are placed together by memory alone",
        "hetserve.cli.capacity.together.places",
        "WantedInstance.request",
        Replace("None if $whole or $gpu is None else $gpu.compute or None", "None"),
        _TOGETHER,
        "test_no_gpu_gets_more_than_its_compute_though_memory_is_there",
    ),
    Mutant(
        "a profile without gpuMemory says nothing of it",
        "hetserve.planning.tenancy",
        "gpu_demand",
        Replace(
            "GpuDemand(Tenancy.WHOLE, quantity_to_mib($gpu.memory), why=$why)",
            "GpuDemand(Tenancy.WHOLE, quantity_to_mib($gpu.memory))",
        ),
        _TENANCY,
        "test_an_instance_takes_its_part_of_a_gpu_and_pays_for_it",
    ),
    Mutant(
        "copies faster than one alone show a smaller share",
        "hetserve.profiles.sharing_fit",
        "CopiesRun.share",
        Replace("max($stretch.high, 1.0)", "$stretch.high"),
        _FIT,
        "test_copies_show_no_share_below_one_of_their_number",
    ),
    Mutant(
        "runs that are not alike are fitted",
        "hetserve.profiles.sharing_fit",
        "_refuse_faster",
        never("$ratio.high < _FASTEST"),
        _FIT,
        "test_copies_far_faster_than_one_alone_are_refused",
    ),
    Mutant(
        "a column neighbor is not read, and its lines count as alone",
        "hetserve.profiles.measurements",
        "read_measurements",
        DropStatement("_refuse_misspelled($table)"),
        "tests/unit/profiles/test_measurements.py",
        "test_a_misspelled_column_is_refused_as_its_lines_would_count_as_alone",
    ),
)
