"""Bugs of mutual TLS: who is let in, and what files are taken."""

from __future__ import annotations

from typing import Final

from mutants.changes import DropStatement, Replace
from mutants.mutant import Mutant

TLS: Final = "hetserve_shell.http.tls"
IDENTITY: Final = "hetserve_shell.tls.rotation"
ROTATION: Final = "hetserve_shell.tls.rotation"
SERVER: Final = "tests/unit/extender/test_http_tls.py"
STREAMS: Final = "hetserve_shell.http.http2"
FRAMES: Final = "hetserve_shell.http.frames"
OVER_STREAMS: Final = "tests/unit/extender/test_http_streams.py"
LIMITS: Final = "tests/unit/extender/test_http_stream_limits.py"
FILES: Final = "tests/unit/shell_kit/test_certificates.py"

CERTIFICATES: Final = (
    Mutant(
        "a client without a certificate is let in",
        IDENTITY,
        "_context",
        Replace("ssl.CERT_REQUIRED", "ssl.CERT_OPTIONAL"),
        SERVER,
        "test_nobody_without_a_certificate_that_holds_is_heard",
    ),
    Mutant(
        "any name that the authority signed may call",
        ROTATION,
        "Rotation.accept",
        Replace("self.names and not self.names & set($peer.names)", "False"),
        SERVER,
        "test_nobody_without_a_certificate_that_holds_is_heard",
    ),
    Mutant(
        "a session may be resumed without a certificate",
        IDENTITY,
        "_context",
        DropStatement("$context.num_tickets = 0"),
        SERVER,
        "test_an_older_tls_and_a_resumed_session_are_refused",
    ),
    Mutant(
        "what was let in by an authority that is gone stays",
        ROTATION,
        "Rotation._take",
        Replace("$identity.authorities != self._identity.authorities", "False"),
        SERVER,
        "test_other_authorities_let_their_clients_in_and_ask_all_anew",
    ),
    Mutant(
        "a certificate that ends keeps its connection",
        TLS,
        "TlsTransport._shake_hands",
        DropStatement("self._until = asyncio.get_running_loop().call_later($stays, self._inner.finish)"),
        SERVER,
        "test_a_certificate_that_ends_ends_its_connection_after_the_answer",
    ),
    Mutant(
        "a certificate that has ended is served",
        IDENTITY,
        "_check_time",
        Replace("$one.not_after <= $now", "False"),
        FILES,
        "test_files_that_cannot_serve_are_named_with_a_remedy",
    ),
    Mutant(
        "files in the midst of a change are an error",
        ROTATION,
        "Rotation._doubt",
        Replace("$stamp == self._stamp and $words != self.failing", "$words != self.failing"),
        FILES,
        "test_files_that_cannot_serve_leave_what_is_in_force_and_are_told_once",
    ),
    Mutant(
        "an authority of the same name and another key is taken for the issuer",
        "hetserve_shell.tls.certificates",
        "Certificate.issued_by",
        Replace("self.issuer_key == $other.key", "True"),
        FILES,
        "test_an_authority_of_the_same_name_and_another_key_issued_nothing",
    ),
    Mutant(
        "over HTTP/2: who gives requests up at once starts any number of binds",
        STREAMS,
        "Http2Connection._full",
        Replace("self._running >= self._server.limits.streams", "False"),
        OVER_STREAMS,
        "test_giving_requests_up_starts_no_more_work_than_streams_would",
    ),
    Mutant(
        "over HTTP/2: a last answer ends nothing",
        STREAMS,
        "Http2Connection._answer",
        DropStatement("self._end_with_these()"),
        OVER_STREAMS,
        "test_an_answer_that_is_the_last_says_so_and_what_comes_later_can_be_asked_for_elsewhere",
    ),
    Mutant(
        "over HTTP/2: an answer that nobody takes is kept for ever",
        STREAMS,
        "Http2Connection._check_exchanges",
        Replace("$now >= $exchange.since + $limits.unread", "False"),
        LIMITS,
        "test_an_answer_that_the_client_does_not_take_is_given_up_and_holds_up_no_other",
    ),
    Mutant(
        "over HTTP/2: memory of requests that are given up is never given back",
        STREAMS,
        "Http2Connection._forget",
        DropStatement("self._release($exchange)"),
        OVER_STREAMS,
        "test_requests_that_are_given_up_are_forgotten",
    ),
    Mutant(
        "over HTTP/2: who takes an answer byte by byte holds it for ever",
        STREAMS,
        "Http2Connection._send",
        Replace("$exchange.sent >= $exchange.noted + PROGRESS", "$exchange.sent > $exchange.noted"),
        LIMITS,
        "test_an_answer_that_is_taken_byte_by_byte_is_given_up",
    ),
    Mutant(
        "over HTTP/2: answers that nobody takes have no bound together",
        "hetserve_shell.http.exchange",
        "Unsent.keep",
        Replace("self.used > self.limit", "False"),
        LIMITS,
        "test_answers_that_nobody_takes_are_bounded_over_all_connections",
    ),
    Mutant(
        "over HTTP/2: a read is heard to its end, whoever waits",
        FRAMES,
        "Frames.turn",
        Replace("$done < TURN", "True"),
        LIMITS,
        "test_a_read_of_many_frames_is_heard_in_turns",
    ),
)
