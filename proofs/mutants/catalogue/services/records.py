"""Bugs of decision records: what they leave out, and what a replay believes."""

from __future__ import annotations

from typing import Final

from mutants.changes import Replace, always, never
from mutants.mutant import Mutant

APPLY: Final = "hetserve_operator.work.apply"
CODEC: Final = "hetserve.scaling.record.codec"
CONTROLLER: Final = "hetserve_operator.work.controller"
DOCUMENT: Final = "hetserve.scaling.record.record"
EVENTS: Final = "hetserve.reconcile.events"
RECORD: Final = "hetserve.scaling.record.record"
REPLAY: Final = "hetserve.scaling.record.replay"
RING: Final = "hetserve.scaling.record.ring"

ANNOUNCED: Final = "tests/unit/reconcile/test_scaling_events.py"
LAWS: Final = "tests/properties/test_decision_record_laws.py"
RECORDED: Final = "tests/unit/scaling/test_decision_records.py"
WRITTEN: Final = "tests/unit/operator/test_decision_records_are_written.py"

RECORDS: Final = (
    Mutant(
        "a record is read whatever its format",
        DOCUMENT,
        "record_in",
        never("document.get('format') != FORMAT or isinstance(document['format'], bool)"),
        RECORDED,
        "test_what_is_wrong_is_named_by_field_value_and_remedy",
    ),
    Mutant(
        "equal questions have other texts with a whole number",
        CODEC,
        "text_of",
        Replace("_adapter(hint).dump_json", "TypeAdapter(tuple[Any], config=_CONFIG).dump_json"),
        RECORDED,
        "test_equal_questions_have_equal_texts_whoever_writes_a_whole_number",
    ),
    Mutant(
        "a recorded answer is believed",
        REPLAY,
        "_why_recorded",
        always("as_recorded"),
        RECORDED,
        "test_a_replay_asks_planners_anew_and_finds_the_answer_that_was_tampered_with",
    ),
    Mutant(
        "a replay asks where no planner had answered",
        REPLAY,
        "_Again._answered",
        never("known is not None"),
        RECORDED,
        "test_where_no_planner_had_answered_the_record_is_taken_and_named",
    ),
    Mutant(
        "a replay tries what was not tried",
        REPLAY,
        "_Again._anew",
        always("known is None or not known.untried"),
        RECORDED,
        "test_untried_plans_are_made_untried_again",
    ),
    Mutant(
        "numbers that are equal in part are taken for the same",
        REPLAY,
        "differing",
        never("repr(recorded) != repr(now)"),
        RECORDED,
        "test_a_replay_names_each_field_of_the_decision_that_differs",
    ),
    Mutant(
        "decisions to hold are recorded",
        RECORD,
        "decided_on_record",
        never("not decision.changes"),
        RECORDED,
        "test_only_changes_are_recorded",
    ),
    Mutant(
        "a ring grows beyond its size",
        RING,
        "appended",
        never("size > most_bytes or len(kept) == MOST_ENTRIES"),
        RECORDED,
        "test_a_ring_drops_the_oldest_and_counts_on",
    ),
    Mutant(
        "a record that is too large is kept whole",
        RING,
        "appended",
        never("entry.size > most_bytes"),
        RECORDED,
        "test_a_record_that_alone_is_too_large_is_kept_without_facts",
    ),
    Mutant(
        "the ConfigMap of somebody else is taken over",
        APPLY,
        "Writer._write_decisions",
        never("found is not None and not is_ours(found, str(request.owner['uid']))"),
        WRITTEN,
        "test_the_config_map_of_somebody_else_is_left_alone",
    ),
    Mutant(
        "a late record undoes another",
        APPLY,
        "Writer._write_ring",
        Replace("('uid', 'resourceVersion')", "('uid',)"),
        WRITTEN,
        "test_a_record_that_comes_late_does_not_undo_another",
    ),
    Mutant(
        "a record that is refused fails the reconciliation",
        CONTROLLER,
        "Controller._record",
        Replace(
            "(ApiStatusError, ApiUnreachableError, NameTakenError, NotLeadingError)",
            "(ApiUnreachableError, NameTakenError, NotLeadingError)",
        ),
        WRITTEN,
        "test_a_record_that_is_refused_holds_nothing_up",
    ),
    Mutant(
        "each look announces a decision again",
        EVENTS,
        "_decided",
        never("newest in (before.get('lastDecisions') or ())"),
        ANNOUNCED,
        "test_a_decision_that_the_status_had_is_no_news",
    ),
)
