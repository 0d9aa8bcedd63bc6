"""A record as a JSON document, and packed into text for a ConfigMap."""

from __future__ import annotations

import base64
import json
import lzma
from datetime import UTC, datetime
from typing import Any, Final

from hetserve.scaling.record.codec import MalformedError, text_of, value_of
from hetserve.scaling.record.record import DecisionRecord

KIND: Final = "ScalingDecisionRecord"
FORMAT: Final = 2
"""Grows when a reader of the former could mistake the new one; a field with a default may be added without."""
MOST_BYTES: Final = 16 << 20
"""Of a document: more is refused before it is read."""
_PRESET: Final = 1
"""Of lzma: takes 9 MiB of memory; a higher one makes a record 10 % smaller, and takes ten times that."""


def document_text(record: DecisionRecord) -> str:
    """The record as JSON; exact."""
    return f'{{"kind":"{KIND}","format":{FORMAT},"record":{text_of(record, DecisionRecord)}}}'


def record_in(document: Any) -> DecisionRecord:
    """The record of a document. Raises MalformedError: field, value, remedy."""
    if not isinstance(document, dict) or document.get("kind") != KIND:
        found = document.get("kind") if isinstance(document, dict) else document
        raise MalformedError("kind", found, f"must be {KIND}")
    if document.get("format") != FORMAT or isinstance(document["format"], bool):
        raise MalformedError("format", document.get("format"), f"must be {FORMAT}: this hetserve reads no other")
    try:
        text = json.dumps(document.get("record"))
    except (TypeError, ValueError, RecursionError) as error:
        raise MalformedError("record", document["record"], f"is not JSON: {error}") from None
    record = value_of(text, DecisionRecord, "record")
    assert isinstance(record, DecisionRecord)  # noqa: S101  by its hint
    _check_time(record.at)
    return record


def _check_time(at: float) -> None:
    try:
        datetime.fromtimestamp(at, UTC)
    except (ValueError, OverflowError, OSError):
        raise MalformedError("record.at", at, "must be the Unix seconds of a time within the years 1 to 9999") from None


def packed(record: DecisionRecord) -> str:
    """The document, compressed and as base64: ``base64 -d | xz -d`` unpacks it."""
    return base64.b64encode(lzma.compress(document_text(record).encode(), preset=_PRESET)).decode()


def unpacked(text: str) -> DecisionRecord:
    """The record of packed text. Raises MalformedError."""
    return record_in(parsed(_inflated(text)))


def parsed(text: str) -> Any:
    """A document from its text. Raises MalformedError."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise MalformedError("record", text, f"is not JSON: {error}") from None


def _inflated(text: str) -> str:
    try:
        unpacker = lzma.LZMADecompressor(memlimit=MOST_BYTES)
        content = unpacker.decompress(base64.b64decode(text, validate=True), MOST_BYTES).decode()
    except (ValueError, lzma.LZMAError) as error:
        raise MalformedError("record", text, f"is not packed as a record is: {error}") from None
    if not unpacker.eof:
        raise MalformedError("record", text, f"is cut off, or larger than {MOST_BYTES} bytes")
    return content
