"""Bugs of the operator's side of sharing: terms in templates and records, room, and what runs as it was recorded."""

from __future__ import annotations

from typing import Final

from mutants.changes import Replace, always, never
from mutants.mutant import Mutant

SHARES: Final = "tests/unit/operator/test_operator_shares.py"
WAITING: Final = "tests/unit/operator/test_operator_shares_upgrade.py"
UPGRADE: Final = "tests/unit/operator/test_upgrade_of_percent_plans.py"
SCALED: Final = "tests/unit/operator/test_upgrade_of_scaled_services.py"
OWN: Final = "tests/unit/operator/test_own_tolerances_are_recorded.py"
PLACES: Final = "tests/unit/operator/test_own_tolerances_find_places.py"
BUILD: Final = "tests/unit/reconcile/test_reconcile_build.py"
FACTS: Final = "tests/unit/reconcile/test_reconcile_facts.py"
ROOM: Final = "tests/properties/test_room_is_what_the_ledger_takes.py"
LEDGER: Final = "test_room_is_counted_where_the_ledger_takes_an_instance"
BOOKINGS: Final = "hetserve.reconcile.plans.bookings"
CAPACITY: Final = "hetserve.reconcile.cluster.capacity"
KEPT: Final = "hetserve.reconcile.cluster.kept_terms"
TEMPLATE: Final = "hetserve.reconcile.deployments.build"

SHARING: Final = (
    Mutant(
        "sharing: the template drops the request of compute",
        TEMPLATE,
        "gpu_resources",
        Replace("memory | {names.RESOURCE_GPU_COMPUTE: str(gpu.compute)}", "memory"),
        SHARES,
        "test_a_measured_service_shares_on_terms_and_the_plan_says_so",
    ),
    Mutant(
        "sharing: the memory of whole GPUs and time slices is limited too",
        TEMPLATE,
        "_pod_template",
        Replace("memory_limit and offer.gpu.mps", "memory_limit"),
        BUILD,
        "test_no_memory_is_limited_without_mps_or_of_a_whole_gpu",
    ),
    Mutant(
        "sharing: a smaller measurement loosens what runs",
        KEPT,
        "kept_terms",
        Replace("max(held.share, wanted.share)", "wanted.share"),
        SHARES,
        "test_looser_terms_change_no_template_while_the_counts_stay",
    ),
    Mutant(
        "sharing: the wider tolerance is kept",
        KEPT,
        "kept_terms",
        Replace("min(held.tolerance, wanted.tolerance)", "held.tolerance"),
        OWN,
        "test_another_load_restarts_the_instance_only_where_it_tolerates_less",
    ),
    Mutant(
        "sharing: another sigma changes a plan in force",
        BOOKINGS,
        "rules_in_force",
        Replace("sigmas.keys() == {rule.max_slowdown}", "True"),
        SHARES,
        "test_a_recorded_plan_keeps_its_tolerance_where_the_installation_sets_another",
    ),
    Mutant(
        "sharing: another sigma changes a plan that records its own",
        BOOKINGS,
        "rules_in_force",
        Replace("recorded.max_slowdown is None", "True"),
        OWN,
        "test_another_sigma_restarts_nothing_beside_a_type_without_instances",
    ),
    Mutant(
        "sharing: a plan of percent is made anew at an upgrade",
        BOOKINGS,
        "rules_in_force",
        never("recorded.gpus.booked"),
        UPGRADE,
        "test_an_upgrade_changes_neither_plan_nor_deployment_nor_pod",
    ),
    Mutant(
        "sharing: new instances of a plan of percent book percent",
        "hetserve.reconcile.plans.decision",
        "_decide",
        Replace("not _leaves(wanted, recorded)", "True"),
        SCALED,
        "test_what_runs_stays_until_the_load_leaves_its_band",
    ),
    Mutant(
        "sharing: a plan of the other kind ends what finds no place in it",
        "hetserve.reconcile.plans.decision",
        "_is_placed",
        never("made.total < wanted.total"),
        UPGRADE,
        "test_instances_of_percent_do_not_give_way_to_fewer_on_terms",
    ),
    Mutant(
        "sharing: a lost measurement takes the terms",
        BOOKINGS,
        "rule_of",
        Replace("gpus.terms", "{}"),
        SHARES,
        "test_instances_keep_their_bookings_where_a_profile_loses_its_measurement",
    ),
    Mutant(
        "sharing: a plan with shared GPUs before the extender counts pairs",
        "hetserve.reconcile.plans.plan_selection",
        "choose",
        Replace("not context.counts_pairs", "False"),
        WAITING,
        "test_no_plan_with_shared_gpus_is_made_before_the_extender_counts_pairs",
    ),
    Mutant(
        "sharing: room ignores who tolerates whom",
        CAPACITY,
        "GpuRoom._pairs",
        always("_tolerate(tenants := (*tenants, tenant))"),
        ROOM,
        LEDGER,
    ),
    Mutant(
        "sharing: room ignores that kinds never mix",
        CAPACITY,
        "GpuRoom._pairs",
        never("self.undeclared or self.compute < WHOLE_COMPUTE"),
        ROOM,
        LEDGER,
    ),
    Mutant(
        "sharing: room for an instance beside a copy that it keeps away from",
        CAPACITY,
        "GpuRoom.takes",
        never("self.copies and not instance.copies"),
        SHARES,
        "test_copies_on_one_gpu_stay_where_they_are_to_be_apart_and_find_no_other",
    ),
    Mutant(
        "sharing: room ignores percent that is booked",
        CAPACITY,
        "GpuRoom.takes",
        always("self.compute >= instance.compute"),
        ROOM,
        LEDGER,
    ),
    Mutant(
        "sharing: no GPU is too narrow for a tolerance",
        CAPACITY,
        "ClusterCapacity._with_least",
        always("fact.room != 0"),
        PLACES,
        "test_a_gpu_that_takes_it_at_its_tolerance_alone_is_a_place",
    ),
    Mutant(
        "sharing: what is kept is tried at sigma",
        "hetserve.reconcile.plans.plan_selection",
        "_checked",
        Replace("context.kept.declared", "context.declared"),
        PLACES,
        "test_a_load_that_needs_less_tolerance_than_its_gpu_gives_is_refused_and_what_runs_stays",
    ),
    Mutant(
        "sharing: a plan that nothing has tried binds its tolerance",
        BOOKINGS,
        "_kept",
        never("provisional"),
        OWN,
        "test_the_tolerance_is_the_same_whether_or_not_an_untried_plan_came_first",
    ),
    Mutant(
        "sharing: whole GPUs are shared without a booking",
        BOOKINGS,
        "undeclared_types",
        Replace("found - had_whole", "found"),
        SHARES,
        "test_instances_with_whole_gpus_never_begin_to_share_without_a_booking",
    ),
    Mutant(
        "sharing: a whole GPU costs nothing",
        "hetserve.reconcile.rollout",
        "_paid",
        never("part.whole"),
        SHARES,
        "test_exclusive_instances_are_paid_whole_until_they_are_gone",
    ),
)
