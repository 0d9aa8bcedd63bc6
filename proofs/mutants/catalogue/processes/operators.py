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
        "a list may be older than the event that woke",
        "hetserve_operator.revisions",
        "WatchedRevisions.reach",
        Replace("max($known, $told)", "0"),
        KNOWN,
        "test_who_is_woken_by_a_watch_sees_why",
    ),
    Mutant(
        "the first look reads from a cache of any age",
        "hetserve_operator.watch.observe",
        "Observer._listed",
        Replace("$seen.reached($kind)", "0"),
        KNOWN,
        "test_the_first_look_wants_the_latest_and_later_ones_what_they_know",
    ),
    Mutant(
        "pods that end are missed where nobody has told who took them",
        "hetserve_operator.watch.observe",
        "Observer._own",
        never("$seen.show($found)"),
        ENDS,
        "test_instances_that_were_taken_are_paid_until_they_are_gone",
    ),
    Mutant(
        "pods are of nobody, as no ReplicaSet is read",
        "hetserve_operator.watch.observe",
        "Observer._sorted",
        Replace("$listed if facts else []", "[]"),
        "tests/unit/operator/test_operator_reads_as_new_as_it_knows.py",
        "test_the_first_look_wants_the_latest_and_later_ones_what_they_know",
    ),
    Mutant(
        "Events are told and never posted",
        "hetserve_operator.work.announcer",
        "Announcer.post",
        DropStatement("await self._events.post(event)"),
        "tests/unit/operator/test_announcer.py",
        "test_a_look_posts_nothing_itself",
    ),
    Mutant(
        "Events of a crowd wait for ever",
        "hetserve_operator.work.announcer",
        "Announcer._may_wait",
        always("self._age(self._waiting[0]) < HELD_FOR"),
        "tests/unit/operator/test_announcer.py",
        "test_events_wait_while_other_work_is_more_urgent_but_not_for_long",
    ),
    Mutant(
        "two operators: a leader that nobody followed looks at everything again",
        "hetserve_operator.main",
        "Operator._begin_term",
        never("resumed"),
        "tests/unit/operator/test_two_operators.py",
        "test_a_leader_that_nobody_has_followed_looks_at_nothing_again_and_exports_what_it_did",
    ),
    Mutant(
        "each process that plans starts before it is needed",
        "hetserve_operator.plans.pool",
        "PlanningPool._serve",
        always("first"),
        "tests/unit/operator/test_operator_planning.py",
        "test_another_process_begins_once_problems_wait_for_a_while",
    ),
    Mutant(
        "a ReplicaSet is of whom an old list shows",
        "hetserve_operator.watch.observe",
        "Observer._owners",
        always("$owner.uid in $there"),
        ENDS,
        "test_replica_sets_that_changed_hands_are_of_who_has_them_now",
    ),
    Mutant(
        "new services hold tried plans up for ever",
        "hetserve_operator.plans.queue",
        "PlannerQueue._released",
        Replace("now - MOST_WAIT", "-inf"),
        "tests/unit/operator/test_untried_plans.py",
        "test_services_that_come_for_minutes_leave_processes_time_for_tried_plans",
    ),
    Mutant(
        "tried plans take all processes from new services",
        "hetserve_operator.plans.queue",
        "PlannerQueue._next",
        Replace("processes - 1", "processes"),
        "tests/unit/operator/test_planner_queue.py",
        "test_of_several_processes_one_is_left_for_untried_plans",
    ),
)
