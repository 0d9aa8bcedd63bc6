"""A record as a JSON document, and packed into text for a ConfigMap."""

from __future__ import annotations

import base64
import json
import zlib
from datetime import UTC, datetime
from typing import Any, Final

from hetserve.scaling.record.reading import ExactReader, MalformedError
from hetserve.scaling.record.record import DecisionRecord
from hetserve.scaling.record.writing import ExactWriter, text_of

Json = dict[str, Any]
KIND: Final = "ScalingDecisionRecord"
FORMAT: Final = 1
"""Grows when a reader of the former could mistake the new one; a field with a default may be added without."""
MOST_BYTES: Final = 16 << 20
"""Of a document: more is refused before it is read."""


def document_of(record: DecisionRecord) -> Json:
    """The record as JSON; exact."""
    writer = ExactWriter()
    content = writer.json(record, DecisionRecord)
    return {"kind": KIND, "format": FORMAT, "record": content, "shared": writer.shared}


def record_in(document: Any) -> DecisionRecord:
    """The record of a document. Raises MalformedError: field, value, remedy."""
    if not isinstance(document, dict) or document.get("kind") != KIND:
        found = document.get("kind") if isinstance(document, dict) else document
        raise MalformedError("kind", found, f"must be {KIND}")
    if document.get("format") != FORMAT or isinstance(document["format"], bool):
        raise MalformedError("format", document.get("format"), f"must be {FORMAT}: this hetserve reads no other")
    shared = document.get("shared")
    if not isinstance(shared, list):
        raise MalformedError("shared", shared, "must be a list")
    record = ExactReader(shared).value(document.get("record"), DecisionRecord, "record")
    assert isinstance(record, DecisionRecord)  # noqa: S101  by its hint
    _check_time(record.at)
    return record


def _check_time(at: float) -> None:
    try:
        datetime.fromtimestamp(at, UTC)
    except (ValueError, OverflowError, OSError):
        raise MalformedError("record.at", at, "must be the Unix seconds of a time within the years 1 to 9999") from None


def packed(record: DecisionRecord) -> str:
    """The document, compressed and as base64."""
    return base64.b64encode(zlib.compress(text_of(document_of(record)).encode(), 9)).decode()


def unpacked(text: str) -> DecisionRecord:
    """The record of packed text. Raises MalformedError."""
    return record_in(parsed(_inflated(text)))


def parsed(text: str) -> Any:
    """JSON without numbers that JSON does not have. Raises MalformedError."""

    def refuse(constant: str) -> None:
        raise ValueError(f"{constant} is no number of JSON")

    try:
        return json.loads(text, parse_constant=refuse)
    except (ValueError, RecursionError) as error:
        raise MalformedError("record", text, f"is not JSON: {error}") from None


def _inflated(text: str) -> str:
    unpacker = zlib.decompressobj()
    try:
        content = unpacker.decompress(base64.b64decode(text, validate=True), MOST_BYTES).decode()
    except (ValueError, zlib.error) as error:
        raise MalformedError("record", text, f"is not packed as a record is: {error}") from None
    if unpacker.unconsumed_tail or not unpacker.eof:
        raise MalformedError("record", text, f"is cut off, or larger than {MOST_BYTES} bytes")
    return content
