"""Reads what a certificate says of itself: who it is for, and from when until when. Signatures are not looked at."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from hetserve.base.units import Seconds

_PEM: Final = re.compile(r"-----BEGIN CERTIFICATE-----\s(.*?)-----END CERTIFICATE-----", re.DOTALL)
_SEQUENCE, _OID, _UTC_TIME, _CONTEXT_0, _CONTEXT_3, _DNS_NAME = 0x30, 0x06, 0x17, 0xA0, 0xA3, 0x82
_COMMON_NAME: Final = b"\x55\x04\x03"
_SUBJECT_NAMES: Final = b"\x55\x1d\x11"
_LONG: Final = 0x80


@dataclass(frozen=True, slots=True)
class Certificate:
    """An X.509 certificate. names: the subject's common name and DNS names. not_before, not_after: [s since 1970]."""

    names: tuple[str, ...]
    not_before: Seconds
    not_after: Seconds


def read_certificates(pem: str) -> tuple[Certificate, ...]:
    """The certificates of a PEM text, in their order; other blocks are passed over. Raises ValueError."""
    found = []
    for number, match in enumerate(_PEM.finditer(pem), start=1):
        try:
            found.append(_certificate(base64.b64decode("".join(match[1].split()), validate=True)))
        except (binascii.Error, IndexError, UnicodeDecodeError, ValueError) as error:
            raise ValueError(f"certificate {number} cannot be read: {error or 'it is cut off'}") from None
    return tuple(found)


def day(moment: Seconds) -> str:
    """A time of a certificate [s since 1970] as people write it: 2027-03-01 12:00 UTC."""
    return datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%d %H:%M UTC")


def _certificate(der: bytes) -> Certificate:
    tag, whole, _ = _element(der, 0)
    _expect(tag == _SEQUENCE)
    tag, signed, _ = _element(whole, 0)
    _expect(tag == _SEQUENCE)
    parts = list(_elements(signed))
    if parts[0][0] == _CONTEXT_0:  # version 1 leaves it out
        del parts[0]
    validity, subject = parts[3][1], parts[4][1]
    begin, end = [_time(kind, value) for kind, value in _elements(validity)]
    extensions = dict(_extensions(next((value for kind, value in parts[6:] if kind == _CONTEXT_3), b"")))
    names = (*_common_names(subject), *_dns_names(extensions.get(_SUBJECT_NAMES, b"")))
    return Certificate(tuple(dict.fromkeys(names)), begin, end)


def _common_names(subject: bytes) -> Iterator[str]:
    for _, one in _elements(subject):
        for _, attribute in _elements(one):
            (_, kind), (_, value) = _elements(attribute)
            if kind == _COMMON_NAME:
                yield value.decode()


def _dns_names(extension: bytes) -> Iterator[str]:
    for _, names in _elements(extension):
        for kind, value in _elements(names):
            if kind == _DNS_NAME:
                yield value.decode("ascii")


def _extensions(explicit: bytes) -> Iterator[tuple[bytes, bytes]]:
    for _, every in _elements(explicit):
        for _, extension in _elements(every):
            (kind, oid), *_, (_, value) = _elements(extension)
            _expect(kind == _OID)
            yield oid, value


def _time(kind: int, value: bytes) -> Seconds:
    text = value.decode("ascii")
    if kind == _UTC_TIME:  # two digits of the year: 1950 to 2049
        text = ("20" if int(text[:2]) < 50 else "19") + text
    return Seconds(datetime.strptime(text, "%Y%m%d%H%M%SZ").replace(tzinfo=UTC).timestamp())


def _elements(content: bytes) -> Iterator[tuple[int, bytes]]:
    at = 0
    while at < len(content):
        tag, value, at = _element(content, at)
        yield tag, value


def _element(content: bytes, at: int) -> tuple[int, bytes, int]:
    """(tag, value, where the next one begins) of the DER element at an offset. Raises ValueError or IndexError."""
    tag, size, at = content[at], content[at + 1], at + 2
    if size >= _LONG:
        count = size - _LONG
        size, at = int.from_bytes(content[at : at + count]), at + count
    _expect(at + size <= len(content))
    return tag, content[at : at + size], at + size


def _expect(holds: bool) -> None:
    if not holds:
        raise ValueError("it is no DER of a certificate")
