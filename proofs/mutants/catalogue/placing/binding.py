"""Bugs of the bind verb: requests whose answers are late, lost or refused."""

from __future__ import annotations

from typing import Final

from mutants.changes import DropKey, Replace, never
from mutants.mutant import Mutant

BIND: Final = "hetserve_extender.verbs.bind_sender"
STATES: Final = "hetserve_extender.verbs.binding"

FAULT: Final = "tests/modelcheck/test_single_faults.py"
VERB: Final = "tests/unit/extender/test_bind_verb.py"

BINDING: Final = (
    Mutant(
        "no UID check in bind",
        STATES,
        "binding",
        DropKey('"uid"'),
        VERB,
        "test_bind_is_one_call_with_uid_and_gpu",
    ),
    Mutant(
        "a bind begun again is settled as the old one",
        STATES,
        "BindStateMachine",
        never("$ledger.booking(...) is not $booking"),
        FAULT,
        "test_a_bind_lost_again_while_others_are_looked_up_is_not_settled_as_the_old_one",
    ),
    Mutant(
        "bind ends with its caller",
        BIND,
        "BindSender.bind",
        Replace("asyncio.wait(($task,), timeout=$limit)", "asyncio.wait_for($task, $limit)"),
        VERB,
        "test_a_caller_that_hangs_up_does_not_stop_the_bind",
    ),
    Mutant(
        "a lost answer frees the GPU",
        STATES,
        "BindStateMachine._sent",
        Replace("Settling(..., lost=True)", "Settling(..., lost=False)"),
        FAULT,
        "test_a_bind_without_an_answer_keeps_its_gpu",
    ),
    Mutant(
        "a refusal frees what an earlier bind may take",
        STATES,
        "BindStateMachine",
        Replace("$status == 409 or $decided.in_doubt", "$status == 409"),
        FAULT,
        "test_a_refused_bind_frees_nothing_that_an_earlier_one_may_take",
    ),
    Mutant(
        "a failed bind frees another's",
        STATES,
        "BindStateMachine",
        never("$held.confirmed"),
        "tests/adversarial/test_binds_in_doubt.py",
        "test_a_failed_bind_does_not_free_what_the_watch_showed_bound_meanwhile",
    ),
)
