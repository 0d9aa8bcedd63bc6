"""Certificates that follow their files: a new leaf is served, and a new trust holds, without a restart."""

from __future__ import annotations

import asyncio
import logging
import ssl
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Final

from hetserve.base.files import UnreadableError, read_text
from hetserve.base.units import Seconds
from hetserve_shell.http.http2 import PROTOCOL
from hetserve_shell.tls.certificates import Certificate, day, read_certificates

log = logging.getLogger(__name__)

MOST: Final = 1 << 20
"""Bytes of a file: as much as a Secret holds."""
SKEW: Final = 300.0
"""Seconds by which the issuer's clock may be ahead of ours."""


class CertificateError(OSError):
    """A file cannot serve; names the file, what is wrong and the remedy."""


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """PEM files. certificate: the server's, then those between it and its authority.

    authorities: of the clients; None: these need no certificate.
    """

    certificate: Path
    key: Path
    authorities: Path | None

    def all(self) -> tuple[Path, ...]:
        return (self.certificate, self.key, *([] if self.authorities is None else [self.authorities]))


@dataclass(frozen=True, slots=True)
class Identity:
    """Files that were read and hold together.

    context: for new connections. authorities: fingerprint of the trust. ends: the server's certificate [s since 1970].
    """

    context: ssl.SSLContext
    authorities: bytes
    ends: Seconds


def read_identity(files: TlsFiles, now: Seconds) -> Identity:
    """Reads and checks the files at the time `now` [s since 1970]. Raises CertificateError."""
    own, trusted = _text(files.certificate), ""
    _text(files.key)
    chain = _certificates(files.certificate, own)
    _check_time(files.certificate, chain[:1], now)
    if files.authorities is not None:
        trusted = _text(files.authorities)
        authorities = _certificates(files.authorities, trusted)
        if all(one.not_after <= now for one in authorities):
            _check_time(files.authorities, authorities, now)
    return Identity(_context(files, trusted), sha256(trusted.encode()).digest(), chain[0].not_after)


def _context(files: TlsFiles, trusted: str) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_3  # Go, and so every scheduler, speaks it
    # A resumed session would not show its certificate again: each connection shows one that holds now.
    context.num_tickets = 0
    context.set_alpn_protocols((PROTOCOL, "http/1.1"))
    try:
        # Without a password the library would ask for one on the terminal.
        context.load_cert_chain(files.certificate, files.key, password=lambda: "")
    except (ssl.SSLError, OSError, ValueError) as error:
        raise CertificateError(_key_message(files, error)) from None
    if trusted:
        context.verify_mode = ssl.CERT_REQUIRED
        try:
            context.load_verify_locations(cadata=trusted)
        except ssl.SSLError as error:
            raise CertificateError(f"{files.authorities}: holds no usable authority: {_reason(error)}") from None
    return context


def _key_message(files: TlsFiles, error: Exception) -> str:
    reason = _reason(error)
    if "KEY_VALUES_MISMATCH" in reason or "KEY_TYPE_MISMATCH" in reason:
        return f"{files.key}: is not the key of the certificate in {files.certificate}; put the pair that was issued"
    return f"{files.key}: cannot be used ({reason}); it must be an unencrypted private key in PEM"


def _text(path: Path) -> str:
    try:
        content = read_text(str(path), MOST)
    except UnreadableError as error:
        raise CertificateError(f"{error}; mount the Secret that holds it, or correct the setting") from None
    if not content.strip():
        raise CertificateError(f"{path}: is empty; it must hold PEM")
    return content


def _certificates(path: Path, text: str) -> tuple[Certificate, ...]:
    try:
        found = read_certificates(text)
    except ValueError as error:
        raise CertificateError(f"{path}: {error}; it must hold certificates in PEM") from None
    if not found:
        raise CertificateError(f"{path}: holds no certificate; it must hold PEM (-----BEGIN CERTIFICATE-----)")
    return found


def _check_time(path: Path, found: tuple[Certificate, ...], now: Seconds) -> None:
    for one in found:
        who = ", ".join(one.names) or "its certificate"
        if one.not_after <= now:
            raise CertificateError(f"{path}: {who} ended on {day(one.not_after)}; issue a new one")
        if one.not_before > now + SKEW:
            message = f"{path}: {who} holds from {day(one.not_before)} on, and it is {day(now)}; set the clock right"
            raise CertificateError(message)


def _reason(error: Exception) -> str:
    return str(getattr(error, "reason", None) or getattr(error, "strerror", None) or error)


EVERY: Final = 1.0
"""Seconds between looks at the files."""
_Stamp = tuple[tuple[int, int, int] | None, ...]


@dataclass(slots=True)
class Rotation:
    """The identity in force, from files that may change at any time.

    on_trust: called after other authorities are in force. wall: clock [s since 1970]. Making one raises
    CertificateError.
    """

    files: TlsFiles
    on_trust: Callable[[], None] = lambda: None
    wall: Callable[[], float] = time.time
    failing: str = ""
    """Why the files on disk are not in force; empty if they are."""
    _identity: Identity = field(init=False)
    _stamp: _Stamp = field(init=False, default=())
    _doubtful: bool = field(init=False, default=False)
    """Whether the last look could not use the files."""

    def __post_init__(self) -> None:
        self._stamp = self._look()
        self._identity = read_identity(self.files, Seconds(self.wall()))

    @property
    def context(self) -> ssl.SSLContext:
        """For the next connection."""
        return self._identity.context

    async def run(self) -> None:
        """Looks at the files for ever."""
        while True:
            await asyncio.sleep(EVERY)
            self.look()

    def look(self) -> None:
        """Takes the files if they changed; where they cannot serve, what is in force stays."""
        stamp = self._look()
        if stamp == self._stamp and not self._doubtful:
            return
        try:
            identity = read_identity(self.files, Seconds(self.wall()))
        except CertificateError as error:
            self._doubt(str(error), stamp)
        else:
            if stamp == self._look():
                self._take(identity, stamp)

    def _doubt(self, message: str, stamp: _Stamp) -> None:
        """Files may be replaced one after the other: what two looks show counts."""
        if stamp == self._stamp and message != self.failing:
            self.failing = message
            log.error("%s; the certificates read before stay in force", message)
        self._stamp, self._doubtful = stamp, True

    def _take(self, identity: Identity, stamp: _Stamp) -> None:
        trust = identity.authorities != self._identity.authorities
        self._identity, self._stamp, self._doubtful, self.failing = identity, stamp, False, ""
        until = day(identity.ends)
        log.info("new certificates are in force, the server's until %s%s", until, " (other authorities)" * trust)
        if trust:
            self.on_trust()

    def _look(self) -> _Stamp:
        stamps = list[tuple[int, int, int] | None]()
        for path in self.files.all():
            try:
                found = path.stat()
            except OSError:
                stamps.append(None)
            else:
                stamps.append((found.st_mtime_ns, found.st_size, found.st_ino))
        return tuple(stamps)
