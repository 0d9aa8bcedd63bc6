"""Finds the record that a user names: a document of its own, or one of the ring in a ConfigMap."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import yaml

from hetserve.base.files import UnreadableError, read_text, shown_name
from hetserve.base.yaml_loader import contents
from hetserve.scaling.record.codec import MalformedError
from hetserve.scaling.record.record import KIND, MOST_BYTES, DecisionRecord, parsed, record_in
from hetserve.scaling.record.ring import Entry, Ring, record_of_entry, ring_of, told

Json = dict[str, Any]
RING_KIND: Final = "ConfigMap"


class NoRecordError(ValueError):
    """The input has no such record: field, value, remedy."""


def read_record(name: str, index: int | None) -> DecisionRecord:
    """The record in a file ("-": standard input). index: as of `chosen`; None: the newest.

    The file has a record, or a ConfigMap as `kubectl get -o json` or `-o yaml` prints it. Raises NoRecordError.
    """
    try:
        text = read_text(name, MOST_BYTES)
    except UnreadableError as error:
        raise NoRecordError(str(error)) from None
    try:
        return _record(_content(text), index)
    except (MalformedError, NoRecordError) as error:
        raise NoRecordError(f"{shown_name(name)}: {error}") from None


def chosen(ring: Ring, index: int | None) -> Entry:
    """An entry of a ring. index: 1 is the newest; None: that one. Raises NoRecordError."""
    if not ring:
        raise NoRecordError("data: has no records of decisions; they are in the ConfigMap SERVICE-decisions")
    wanted = index or 1
    if wanted > len(ring):
        raise NoRecordError(f"--index {wanted}: there are {len(ring)} records; 1 is the newest")
    return ring[-wanted]


def listed(ring: Ring) -> tuple[list[Json], list[str]]:
    """What the entries say, the newest first, each with its index; and what is wrong with others."""
    found: list[Json] = []
    errors: list[str] = []
    for index, entry in enumerate(reversed(ring), start=1):
        try:
            content = told(entry)
        except MalformedError as error:
            errors.append(str(error))
            continue
        replays = "notReplayable" not in content
        found.append({"index": index, "replays": replays, **{k: v for k, v in content.items() if k != "record"}})
    return found, errors


def _content(text: str) -> Any:
    if text.lstrip().startswith("{"):
        return parsed(text)
    try:
        documents = contents(text)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise NoRecordError(f"is neither JSON nor YAML: {' '.join(str(error).split())}") from None
    if len(documents) != 1:
        raise NoRecordError(f"has {len(documents)} documents; give one")
    return documents[0]


def _record(content: Any, index: int | None) -> DecisionRecord:
    whole = _only_item(content)
    kind = whole.get("kind") if isinstance(whole, Mapping) else None
    if kind == RING_KIND:
        return record_of_entry(chosen(ring_of(whole), index))
    if kind != KIND:
        raise NoRecordError(f"kind: {kind!r} must be {KIND} or {RING_KIND}; give a record, or a service's ring")
    if index is not None:
        raise NoRecordError(f"--index {index}: the file has one record, not a ring; leave it away")
    return record_in(whole)


def _only_item(content: Any) -> Any:
    """The one ConfigMap of a list."""
    if not isinstance(content, Mapping) or content.get("kind") != "List":
        return content
    items = content.get("items")
    if not isinstance(items, list):
        raise MalformedError("items", items, "must be a list")
    rings = [one for one in items if isinstance(one, Mapping) and one.get("kind") == RING_KIND]
    if len(rings) != 1:
        raise NoRecordError(f"items: {len(rings)} ConfigMaps; give one")
    return rings[0]
