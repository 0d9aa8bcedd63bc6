"""Bugs of two operators, and of the fence between them."""

from __future__ import annotations

from typing import Final

from mutants.changes import DropStatement, Replace, always, never
from mutants.mutant import Mutant

LAWS: Final = "tests/properties/test_operator_fence_laws.py"
FENCE: Final = "tests/unit/operator/test_operator_fence.py"
KNOWN: Final = "tests/unit/operator/test_operator_reads_as_new_as_it_knows.py"
ENDS: Final = "tests/unit/operator/test_operator_charges_what_ends.py"
CONTROLLER: Final = "hetserve_operator.work.controller"

OPERATORS: Final = (
    Mutant(
        "two operators: no fence",
        "hetserve.reconcile.deployments.diff",
        "fence_first",
        always("not isinstance(work.request, Change)"),
        LAWS,
        "test_a_deposed_leaders_growth_is_refused_once_the_next_leader_has_changed_anything",
    ),
    Mutant(
        "two operators: an apply that names no resourceVersion",
        "hetserve_operator.work.apply",
        "Writer._apply",
        Replace("{**$meta, 'uid': request.uid, 'resourceVersion': request.resource_version}", "{**$meta}"),
        LAWS,
        "test_a_deposed_leaders_growth_is_refused_once_the_next_leader_has_changed_anything",
    ),
    Mutant(
        "two operators: a change without an answer is not fenced",
        CONTROLLER,
        "Controller._send",
        DropStatement("memory.fence.lapse()"),
        LAWS,
        "test_a_growth_without_an_answer_is_refused_once_its_sender_has_changed_anything_else",
    ),
    Mutant(
        "two operators: the stamp of a term is written twice",
        "hetserve_operator.leadership",
        "OperatorLeadership.new_stamp",
        Replace("next(self._stamps)", "0"),
        FENCE,
        "test_a_stamp_is_never_drawn_twice",
    ),
    Mutant(
        "two operators: a write of an earlier term is sent",
        "hetserve_operator.leadership",
        "OperatorLeadership.refusal",
        always("term is not None and self.term() == term"),
        FENCE,
        "test_a_process_that_is_ending_sends_no_further_write",
    ),
    Mutant(
        "two operators: a creation that lands late costs money",
        "hetserve.reconcile.deployments.diff",
        "_changes",
        Replace("with_replicas(target.manifest, 0)", "with_replicas(target.manifest, target.staged)"),
        FENCE,
        "test_a_deployment_is_created_without_replicas_and_scaled_by_the_next_apply",
    ),
    Mutant(
        "a list may be older than our own writes",
        "hetserve_operator.revisions",
        "ListedRevisions.wrote",
        DropStatement("self.note($kind, $revision)"),
        KNOWN,
        "test_what_we_have_written_is_seen_though_the_cache_is_behind",
    ),
    Mutant(
        "pods that end are missed where nobody has told who took them",
        "hetserve_operator.watch.observe",
        "Observer._own",
        never("$seen.show($found)"),
        ENDS,
        "test_instances_that_were_taken_are_paid_until_they_are_gone",
    ),
)
