"""Bugs of sharing on terms: a pair, a share or a tolerance forgotten, kinds mixed, sets of tenants not kept up."""

from __future__ import annotations

from typing import Final

from mutants.changes import Replace, always, never
from mutants.mutant import Mutant

RULE: Final = "hetserve.objects.gpu_sharing"
INDEX: Final = "hetserve.placement.ledger.index"
COLUMNS: Final = "hetserve.placement.ledger.terms"

LAWS: Final = "tests/properties/test_pair_laws.py"
AT_ONCE: Final = "test_many_sets_are_counted_at_once_as_each_is_by_the_rule"
FRACTIONS: Final = "test_the_rule_is_the_one_written_out_as_fractions"
UNIT: Final = "tests/unit/placement/test_sharing_on_terms.py"

TERMS: Final = (
    Mutant(
        "terms: the factor of a pair is forgotten",
        RULE,
        "SharingTerms.on",
        Replace("$self._by_model.get($model, $self.others)", "$self.others"),
        UNIT,
        "test_a_factor_of_a_pair_counts_where_it_was_measured_and_the_greatest_for_all_others",
    ),
    Mutant(
        "terms: a pair of two namespaces counts as measured",
        RULE,
        "Tenant.adds_to",
        Replace("$other.model is None or $other.namespace != $self.namespace", "$other.model is None"),
        UNIT,
        "test_a_factor_of_a_pair_counts_where_it_was_measured_and_the_greatest_for_all_others",
    ),
    Mutant(
        "terms: the greatest factor is the one on others",
        RULE,
        "SharingTerms._greatest",
        Replace("max([$self.others, *$self._by_model.values()])", "$self.others"),
        UNIT,
        "test_a_factor_of_a_pair_counts_where_it_was_measured_and_the_greatest_for_all_others",
    ),
    Mutant(
        "terms: the least tolerance is forgotten",
        RULE,
        "booked_percent",
        Replace("max($percents, default=$none)", "min($percents, default=$none)"),
        LAWS,
        FRACTIONS,
    ),
    Mutant(
        "terms: the shares are not summed",
        RULE,
        "slowdowns",
        Replace("max($shares, $added)", "$added"),
        UNIT,
        "test_pods_share_a_gpu_while_none_is_slowed_down_beyond_what_it_tolerates",
    ),
    Mutant(
        "terms: beside a percentage",
        INDEX,
        "GpuIndex.of_its_kind",
        Replace("mask & ($self.terms.pods == $self.pods)", "mask"),
        UNIT,
        "test_kinds_never_mix_on_a_gpu",
    ),
    Mutant(
        "terms: a percentage beside them",
        INDEX,
        "GpuIndex.of_its_kind",
        Replace("mask & ($self.accounted == $self.pods)", "mask & ($self.accounted + $self.terms.pods == $self.pods)"),
        UNIT,
        "test_kinds_never_mix_on_a_gpu",
    ),
    Mutant(
        "terms: a tenant that ends stays counted",
        COLUMNS,
        "TermColumns.book",
        Replace("$self.sets.after($number, $tenant, $sign)", "$self.sets.after($number, $tenant, abs($sign))"),
        UNIT,
        "test_sets_that_are_on_no_gpu_are_forgotten",
    ),
    Mutant(
        "terms: what was read of one newcomer holds for all",
        COLUMNS,
        "TenantSets._of",
        Replace("$self._read.get($newcomer)", "next(iter($self._read.values()), None)"),
        UNIT,
        "test_what_was_read_is_kept_of_a_few_newcomers_and_right_for_all",
    ),
    Mutant(
        "terms: of all sets at once, what the others add is forgotten",
        COLUMNS,
        "TenantSets._count",
        Replace("ONE + $others + $by_newcomer", "ONE + $by_newcomer"),
        UNIT,
        AT_ONCE,
    ),
    Mutant(
        "terms: of all sets at once, the newcomer's own tolerance is forgotten",
        COLUMNS,
        "TenantSets._count",
        Replace("np.maximum($theirs, -($own // $tolerance))", "$theirs"),
        UNIT,
        AT_ONCE,
    ),
    Mutant(
        "terms: of all sets at once, who adds to whom is swapped",
        COLUMNS,
        "TenantSets._pairs",
        Replace("($one.adds_to($two), $two.adds_to($one))", "($two.adds_to($one), $one.adds_to($two))"),
        UNIT,
        AT_ONCE,
    ),
    Mutant(
        "terms: a refusal reads the sets one by one",
        COLUMNS,
        "TenantSets._counted",
        never("len($numbers) > _FEW"),
        UNIT,
        "test_a_refusal_reads_no_set_of_tenants_one_by_one",
    ),
    Mutant(
        "terms: a new index forgets what was read",
        "hetserve.placement.ledger.allocations",
        "Allocations.index",
        Replace("GpuIndex($nodes, $self._sets)", "GpuIndex($nodes)"),
        UNIT,
        "test_what_was_read_of_a_newcomer_outlives_the_index",
    ),
    Mutant(
        "terms: a refusal names a GPU of any node",
        "hetserve.placement.decision.refusals",
        "_slow_text",
        Replace("$masks.alike & $index.offered($nodes)", "$masks.alike & ~$masks.fits"),
        UNIT,
        "test_a_refusal_names_no_gpu_of_a_node_that_has_room",
    ),
    Mutant(
        "terms: pods of two namespaces are recalled as one kind",
        "hetserve_extender.requeue.refused_pods",
        "_kind",
        Replace("($request.namespace, $claim, $excluded)", "($claim, $excluded)"),
        "tests/unit/extender/test_recall.py",
        "test_a_pod_with_terms_is_recalled_though_one_like_it_of_another_namespace_does_not_fit",
    ),
    Mutant(
        "terms: an old log is read with them",
        "hetserve.placement.log.replay",
        "as_then",
        always("$version == VERSION or not isinstance($given, Mapping)"),
        "tests/unit/extender/test_placement_log.py",
        "test_terms_in_a_log_from_before_are_not_read",
    ),
    Mutant(
        "terms: sets are forgotten that are on GPUs",
        COLUMNS,
        "TermColumns._forget",
        Replace("$self.sets.number($tenants)", "0"),
        UNIT,
        "test_sets_that_are_on_no_gpu_are_forgotten",
    ),
    Mutant(
        "terms: a GPU that does not tolerate the pod is chosen",
        COLUMNS,
        "TermColumns.tolerant",
        Replace("$mask & ($percents <= WHOLE_COMPUTE)", "$mask"),
        UNIT,
        "test_pods_share_a_gpu_while_none_is_slowed_down_beyond_what_it_tolerates",
    ),
    Mutant(
        "terms: the ledger reserves what is not tolerated",
        "hetserve.placement.ledger.ledger",
        "Ledger._check_tolerance",
        never("not tolerate($there)"),
        UNIT,
        "test_the_ledger_takes_no_booking_that_slows_a_pod_down_too_much_or_is_of_another_kind",
    ),
    Mutant(
        "terms: read beside any percentage",
        "hetserve.placement.pods.view",
        "_sharing",
        always("$wanted.memory and $wanted.compute == WHOLE_COMPUTE"),
        UNIT,
        "test_terms_that_cannot_be_are_refused_by_field_value_and_remedy",
    ),
    Mutant(
        "terms: an edit is not told",
        "hetserve.placement.ledger.problems",
        "edit_problem",
        never("$pod.request.sharing != $held.request.sharing"),
        UNIT,
        "test_terms_edited_or_lost_after_the_bind_change_nothing_while_the_ledger_lives",
    ),
    Mutant(
        "terms: a reservation on other terms is kept",
        "hetserve.placement.pods.requests",
        "GpuRequest.claim",
        Replace("($memory, $compute, $self.sharing, $gpus, $whole)", "($memory, $compute, $gpus, $whole)"),
        UNIT,
        "test_a_pod_whose_terms_changed_gets_its_gpu_chosen_again",
    ),
    Mutant(
        "terms: an edited label keeps the pair of the old one",
        "hetserve.placement.ledger.bookings",
        "Booking.tenant",
        never("$self.other_models"),
        UNIT,
        "test_a_label_edited_after_the_bind_counts_as_any_model",
    ),
)
