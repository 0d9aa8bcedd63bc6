"""What a server of mutual TLS is made of: its certificate and key, and the authorities of its clients."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Final

from hetserve.base.units import Seconds
from hetserve_shell.http.http2 import PROTOCOL
from hetserve_shell.tls.certificates import Certificate, day, read_certificates

MOST: Final = 1 << 20
"""Bytes of a file: as much as a Secret holds."""
SKEW: Final = 300.0
"""Seconds by which the issuer's clock may be ahead of ours."""


class CertificateError(ValueError):
    """A file cannot serve; names the file, what is wrong and the remedy."""


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """PEM files. certificate: the server's, then those between it and its authority. authorities: of the clients."""

    certificate: Path
    key: Path
    authorities: Path

    def all(self) -> tuple[Path, Path, Path]:
        return self.certificate, self.key, self.authorities


@dataclass(frozen=True, slots=True)
class Identity:
    """Files that were read and hold together.

    context: for new connections. authorities: fingerprint of the trust. ends: by certificate (`server`, `ca`), when the
    first of its file ends [s since 1970].
    """

    context: ssl.SSLContext
    authorities: bytes
    ends: Mapping[str, Seconds]


def read_identity(files: TlsFiles, now: Seconds) -> Identity:
    """Reads and checks the files at the time `now` [s since 1970]. Raises CertificateError."""
    own, trusted = _text(files.certificate), _text(files.authorities)
    _text(files.key)
    chain, authorities = _certificates(files.certificate, own), _certificates(files.authorities, trusted)
    _check_time(files.certificate, chain[:1], now)
    living = tuple(one for one in authorities if one.not_after > now)
    if not living:
        _check_time(files.authorities, authorities, now)
    ends = {"server": chain[0].not_after, "ca": min(one.not_after for one in living)}
    return Identity(_context(files, trusted), sha256(trusted.encode()).digest(), ends)


def _context(files: TlsFiles, trusted: str) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_3  # Go, and so every scheduler, speaks it
    context.verify_mode = ssl.CERT_REQUIRED
    # A resumed session would not show its certificate again: each connection shows one that holds now.
    context.num_tickets = 0
    context.set_alpn_protocols([PROTOCOL, "http/1.1"])
    try:
        # Without a password the library would ask for one on the terminal.
        context.load_cert_chain(files.certificate, files.key, password=lambda: "")
    except (ssl.SSLError, OSError, ValueError) as error:
        raise CertificateError(_key_words(files, error)) from None
    try:
        context.load_verify_locations(cadata=trusted)
    except ssl.SSLError as error:
        raise CertificateError(f"{files.authorities}: holds no usable authority: {_reason(error)}") from None
    return context


def _key_words(files: TlsFiles, error: Exception) -> str:
    reason = _reason(error)
    if "KEY_VALUES_MISMATCH" in reason or "KEY_TYPE_MISMATCH" in reason:
        return f"{files.key}: is not the key of the certificate in {files.certificate}; put the pair that was issued"
    return f"{files.key}: cannot be used ({reason}); it must be an unencrypted private key in PEM"


def _text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            content = file.read(MOST + 1)
    except OSError as error:
        words = f"{path}: cannot be read: {error.strerror}; mount the Secret that holds it, or correct the setting"
        raise CertificateError(words) from None
    if not content.strip():
        raise CertificateError(f"{path}: is empty; it must hold PEM")
    if len(content) > MOST:
        raise CertificateError(f"{path}: is larger than {MOST >> 20} MiB; it must hold PEM")
    return content.decode("ascii", "replace")


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
            words = f"{path}: {who} holds from {day(one.not_before)} on, and it is {day(now)}; set the clock right"
            raise CertificateError(words)


def _reason(error: Exception) -> str:
    return str(getattr(error, "reason", None) or getattr(error, "strerror", None) or error)
