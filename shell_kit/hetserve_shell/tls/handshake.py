"""Whether two sides of mutual TLS let each other in: tried before either runs, by handshakes in memory."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from hetserve.base.certificates import Certificate, read_certificates
from hetserve.base.units import Seconds
from hetserve_shell.http.tls import RefusedError, peer_name
from hetserve_shell.tls.identity import CertificateError, TlsFiles, read_identity
from hetserve_shell.tls.rotation import Rotation

ROUNDS: Final = 4
"""Turns of both ends that a handshake of TLS 1.3 takes at most, one for an answer that is asked for again included."""
NO_CHECK_TIME: Final = 0x200000
"""X509_V_FLAG_NO_CHECK_TIME of OpenSSL, which Python's module does not name."""
NOT_SIGNED: Final = frozenset({2, 7, 18, 19, 20, 21})
"""OpenSSL's codes for a chain that leads to none of the authorities, or whose signatures are another key's."""
ENDED: Final = 10
OTHER_NAMES: Final = frozenset({62, 64})


@dataclass(frozen=True, slots=True)
class Sides:
    """Files of server and client. server_name: DNS name by which the client knows the server. client_names: of which
    the client's certificate must have one; empty: whoever the server's authorities signed.
    """

    server: TlsFiles
    client: TlsFiles
    server_name: str
    client_names: frozenset[str] = frozenset()


def problems(sides: Sides, now: Seconds) -> list[str]:
    """What keeps the sides apart at the time `now` [s since 1970], each with file, fault and remedy; none: nothing."""
    unusable = [words for files in (sides.server, sides.client) for words in _unusable(files, now)]
    if unusable:
        return unusable
    rotation = Rotation(sides.server, sides.client_names, wall=lambda: now)
    client = _client(sides.client)
    # One that begins by less than clocks may differ holds soon.
    if any(_leaf(files).not_before > now for files in (sides.server, sides.client)):
        rotation.context.verify_flags |= NO_CHECK_TIME
        client.verify_flags |= NO_CHECK_TIME
    return [*_of_server(sides, rotation, client), *_of_client(sides, rotation, client)]


def first_end(sides: Sides) -> Seconds:
    """When the first of both certificates ends [s since 1970], of files in which `problems` finds nothing."""
    return min(_leaf(files).not_after for files in (sides.server, sides.client))


def _unusable(files: TlsFiles, now: Seconds) -> Iterator[str]:
    try:
        read_identity(files, now)
    except CertificateError as error:
        yield str(error)


def _leaf(files: TlsFiles) -> Certificate:
    return read_certificates(files.certificate.read_text("ascii", "replace"))[0]


def _client(files: TlsFiles) -> ssl.SSLContext:
    """What the client connects with, judging as Go does."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_cert_chain(files.certificate, files.key)
    context.load_verify_locations(files.authorities)
    context.hostname_checks_common_name = False
    # To Go each certificate of the bundle is an authority, one between as well.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    return context


def _of_server(sides: Sides, rotation: Rotation, client: ssl.SSLContext) -> Iterator[str]:
    """What the client has against the server's certificate."""
    error = _shake_hands(rotation.context, client, sides.server_name).at_client
    if error is None:
        return
    if getattr(error, "verify_code", None) in OTHER_NAMES:
        known = ", ".join(_leaf(sides.server).names) or "nobody"
        yield (
            f"{sides.server.certificate}: has no DNS name {sides.server_name}, it is for {known}; "
            f"issue one with subjectAltName DNS:{sides.server_name}"
        )
    else:
        yield _refusal(sides.server, sides.client, error, "server")


def _of_client(sides: Sides, rotation: Rotation, client: ssl.SSLContext) -> Iterator[str]:
    """What the server has against the client's certificate; the client trusts whatever server from here on."""
    client.check_hostname, client.verify_mode = False, ssl.CERT_NONE
    ends = _shake_hands(rotation.context, client, sides.server_name)
    if ends.at_server is not None:
        yield _refusal(sides.client, sides.server, ends.at_server, "client")
        return
    try:
        rotation.accept(peer_name(ends.server))
    except RefusedError as error:
        yield f"{sides.client.certificate}: {error}; issue one with such a common or DNS name"


def _refusal(of: TlsFiles, by: TlsFiles, error: ssl.SSLError, use: str) -> str:
    code = getattr(error, "verify_code", None)
    if code in NOT_SIGNED:
        return f"{by.authorities}: does not hold who signed {of.certificate}; put that authority into it"
    if code == ENDED:  # not the leaf, which was looked at before
        return f"{of.certificate}: who signed it has ended, in this file or in {by.authorities}; renew that authority"
    why = getattr(error, "verify_message", "") or error.reason
    return (
        f"{of.certificate}: does not hold before {by.authorities}: {why}; issue one that does, for the usage {use} auth"
    )


@dataclass(frozen=True, slots=True)
class _Ends:
    """After a handshake: the server's end, and why an end refuses what the other shows."""

    server: ssl.SSLObject
    at_server: ssl.SSLError | None
    at_client: ssl.SSLError | None


def _shake_hands(server: ssl.SSLContext, client: ssl.SSLContext, name: str) -> _Ends:
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    one = server.wrap_bio(to_server, to_client, server_side=True)
    other = client.wrap_bio(to_client, to_server, server_hostname=name)
    for _ in range(ROUNDS):
        at_client, at_server = _turn(other), _turn(one)
        if at_client or at_server:
            return _Ends(one, None if at_client else at_server, at_client)
    return _Ends(one, None, None)


def _turn(end: ssl.SSLObject) -> ssl.SSLError | None:
    """Why an end goes on no more."""
    try:
        end.do_handshake()
    except ssl.SSLWantReadError:
        return None
    except ssl.SSLError as error:
        return error
    return None
