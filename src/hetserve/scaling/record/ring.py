"""The latest decision records of a service, in one ConfigMap: the newest are kept, up to a size."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from hetserve.api import names
from hetserve.planning.plan import summary
from hetserve.scaling.record.codec import MalformedError
from hetserve.scaling.record.record import MOST_WORDS, DecisionRecord, packed, unpacked

Json = dict[str, Any]
MOST_BYTES: Final = 60 << 10
"""Of the entries as JSON: with its metadata the ConfigMap stays within 64 KiB."""
MOST_ENTRIES: Final = 100
"""The API server's list of managed fields names each."""
MOST_NAME: Final = 253
_SUFFIX: Final = "-decisions"
_KEY: Final = re.compile(r"([0-9]{8,12})-([A-Za-z]+)")
_MOST_NUMBER: Final = 10**12 - 1
_HASH: Final = 8


@dataclass(frozen=True, slots=True)
class Entry:
    """A record in the ring. key: of the ConfigMap's data, rising. text: JSON for people, and the packed record."""

    key: str
    text: str

    @property
    def size(self) -> int:
        """Bytes that it takes as JSON, at most."""
        return len(json.dumps({self.key: self.text}).encode())


Ring = tuple[Entry, ...]
"""The oldest first."""


def ring_name(service: str) -> str:
    """``{service}-decisions``; of a longer name than fits, its beginning and a hash."""
    if len(service) + len(_SUFFIX) <= MOST_NAME:
        return service + _SUFFIX
    digest = hashlib.sha256(service.encode()).hexdigest()[:_HASH]
    return f"{service[: MOST_NAME - len(_SUFFIX) - _HASH - 1].rstrip('-.')}-{digest}{_SUFFIX}"


def ring_of(config_map: Mapping[str, Any] | None) -> Ring:
    """The ring of a ConfigMap as stored; None: there is none. Keys that are not ours are left out.

    Raises MalformedError: its data is no object.
    """
    data = (config_map or {}).get("data")
    if data is None:
        return ()
    if not isinstance(data, Mapping):
        raise MalformedError("data", data, "must be an object")
    ours = [(int(found[1]), Entry(key, str(text))) for key, text in data.items() if (found := _KEY.fullmatch(key))]
    return tuple(entry for _, entry in sorted(ours, key=lambda one: (one[0], one[1].key)))


def appended(ring: Ring, record: DecisionRecord, most_bytes: int = MOST_BYTES) -> Ring:
    """The ring with a record as its newest, without the oldest that no longer fit; what it has is not added again.

    A record that alone is too large is kept without facts, and says that it is not replayable.
    """
    if ring and _number(ring[-1]) >= _MOST_NUMBER:  # no record of ours comes that far
        ring = tuple(Entry(f"{n:08d}-{one.key.partition('-')[2]}", one.text) for n, one in enumerate(ring, 1))
    number = 1 + max((_number(entry) for entry in ring), default=0)
    key = f"{number:08d}-{record.decision.action}"
    entry = Entry(key, _entry_text(record))
    if entry.size > most_bytes:
        why = f"not replayable: its facts take {entry.size} bytes, more than the {most_bytes} of the ring"
        entry = Entry(key, _entry_text(record.without_facts(why)))
    if any(one.text == entry.text for one in ring):
        return ring
    kept, size = [entry], entry.size
    for one in reversed(ring):
        size += one.size
        if size > most_bytes or len(kept) == MOST_ENTRIES:
            break
        kept.append(one)
    return tuple(reversed(kept))


def ring_manifest(ring: Ring, service: str, namespace: str, owner: Mapping[str, Any]) -> Json:
    """The ConfigMap of a ring, for apply. owner: the reference to the service."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": ring_name(service),
            "namespace": namespace,
            "labels": {names.LABEL_SERVICE: service, names.LABEL_MANAGED_BY: names.MANAGED_BY},
            "ownerReferences": [dict(owner)],
        },
        "data": {entry.key: entry.text for entry in ring},
    }


def record_of_entry(entry: Entry) -> DecisionRecord:
    """The record of an entry. Raises MalformedError."""
    content = told(entry)
    text = content.get("record")
    if not isinstance(text, str):
        raise MalformedError(f"data.{entry.key}.record", text, "must be text")
    return unpacked(text)


def told(entry: Entry) -> Json:
    """What an entry says for people: time, action, reason, words, before, after, load. Raises MalformedError."""
    try:
        content = json.loads(entry.text)
    except (ValueError, RecursionError):
        content = None
    if not isinstance(content, dict):
        raise MalformedError(f"data.{entry.key}", entry.text, "must be an object of JSON")
    return content


def _number(entry: Entry) -> int:
    return int(entry.key.partition("-")[0])


def _entry_text(record: DecisionRecord) -> str:
    made = record.decision
    content = {
        "time": time_text(record.at),
        "action": made.action,
        "reason": made.reason,
        "words": made.words[:MOST_WORDS],
        "from": None if record.before is None else summary(record.before)[:MOST_WORDS],
        "to": None if made.counts is None else summary(made.counts)[:MOST_WORDS],
        "load": made.load,
        "notReplayable": record.not_replayable or None,
    }
    said = {key: value for key, value in content.items() if value is not None}
    return json.dumps({**said, "record": packed(record)}, ensure_ascii=False)


def time_text(at: float) -> str:
    """Unix seconds as Kubernetes writes times, with microseconds."""
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
