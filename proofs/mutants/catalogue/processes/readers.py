"""Bugs of who may read the probe ports."""

from __future__ import annotations

from typing import Final

from mutants.changes import DropStatement, Replace, always, never
from mutants.mutant import Mutant

REVIEWS: Final = "hetserve_shell.kube.reviews"
VERDICTS: Final = "hetserve_shell.kube.reviews"
LIMITS: Final = "hetserve_shell.http.limits"
PROBE_URL: Final = "hetserve.cli.cluster.probe_url"
ASKED: Final = "tests/unit/shell_kit/test_reviews.py"
LAWS: Final = "tests/properties/test_verdict_laws.py"
PORT: Final = "tests/unit/shell_kit/test_probes.py"
READS: Final = "tests/unit/cli/test_probe_port_readers.py"

READERS: Final = (
    Mutant(
        "a guarded path is answered without the check",
        LIMITS,
        "Guarded.asked",
        DropStatement("await self.check($path.decode('latin-1'), $credentials)"),
        PORT,
        "test_a_guarded_path_is_answered_after_the_check_alone",
    ),
    Mutant(
        "a token that the API server does not know is one",
        REVIEWS,
        "Reviews._user",
        never('$status.get("authenticated") is not True'),
        ASKED,
        "test_an_odd_answer_lets_nobody_through",
    ),
    Mutant(
        "a refusal of the API server is read as a yes",
        REVIEWS,
        "Reviews._access",
        always('$status.get("allowed") is True and not $status.get("denied")'),
        ASKED,
        "test_a_right_to_one_path_is_none_to_another",
    ),
    Mutant(
        "the right to one path is the right to all",
        VERDICTS,
        "key_of",
        Replace("(hashlib.sha256($token.encode()).digest(), $path)", '(hashlib.sha256($token.encode()).digest(), "")'),
        ASKED,
        "test_a_right_to_one_path_is_none_to_another",
    ),
    Mutant(
        "a kept verdict stands for ever",
        VERDICTS,
        "Verdicts.find",
        always("self._clock() < $asked_at + self._stands[$may]"),
        LAWS,
        "test_a_verdict_found_is_the_last_one_kept_and_young_enough",
    ),
    Mutant(
        "a kept verdict is refreshed by a slow answer",
        REVIEWS,
        "Reviews._ask",
        Replace("self._verdicts.keep($key, $verdict, $at)", "self._verdicts.keep($key, $verdict, self._clock())"),
        ASKED,
        "test_a_slow_review_is_as_old_as_its_question",
    ),
    Mutant(
        "an API server that is away opens the port",
        REVIEWS,
        "Reviews._verdict",
        DropStatement("raise HttpError(HTTPStatus.SERVICE_UNAVAILABLE, $words) from None"),
        ASKED,
        "test_without_an_answer_it_is_closed_and_nothing_is_remembered",
    ),
    Mutant(
        "wrong tokens push out who was let through",
        VERDICTS,
        "Verdicts.keep",
        Replace("self._kept[$verdict is None]", "self._kept[True]"),
        LAWS,
        "test_wrong_tokens_push_nobody_out_who_was_let_through",
    ),
    Mutant(
        "the user's token is shown to every machine",
        PROBE_URL,
        "_is_this_machine",
        always('$host == "localhost" or ipaddress.ip_address($host).is_loopback'),
        READS,
        "test_this_machine_is_its_loopback_alone",
    ),
    Mutant(
        "the user's token is shown to a port that does not ask for it",
        PROBE_URL,
        "get_shown",
        Replace("get({})", '(HTTPStatus.UNAUTHORIZED, b"")'),
        READS,
        "test_a_port_that_shows_everything_to_everybody_gets_no_token",
    ),
)
