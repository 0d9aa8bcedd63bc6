"""`hetserve decision replay`: a record that a user names, and what comes of it when it is decided again."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from typing import Any, Final, NoReturn

import yaml

from hetserve import __version__
from hetserve.base.files import InputError, read_text, shown_name
from hetserve.base.yaml_loader import contents
from hetserve.cli.decisions.explain import second_text
from hetserve.cli.output.progress import steps
from hetserve.cli.output.streams import refuse, show
from hetserve.cli.output.terminal import Block
from hetserve.planning.plan import summary
from hetserve.scaling.plans.answers import Answers
from hetserve.scaling.record.codec import MalformedError
from hetserve.scaling.record.record import KIND, MOST_BYTES, DecisionRecord, parsed, record_in
from hetserve.scaling.record.replay import NotReplayableError, ReplayedDecision, replay
from hetserve.scaling.record.ring import Entry, Ring, record_of_entry, ring_of, time_text

Json = dict[str, Any]
EXIT_DIFFERS: Final = 1
RING_KIND: Final = "ConfigMap"
MOST: Final = 40
"""Differences that are shown to people; others are counted."""


class NoRecordError(InputError):
    """The input has no such record: field, value, remedy."""

    def __init__(self, why: str) -> None:
        super().__init__([why])


def run(file: str, index: int | None, output: str, *, as_recorded: bool) -> NoReturn:
    """The command, with its options."""
    record = _read_record(file, index)
    try:
        found = _replayed(record, as_recorded=as_recorded)
    except NotReplayableError as error:
        refuse(f"{shown_name(file)}: record.facts: {error}; give another record")
    made = _document(record, found)
    show(made, output, lambda: _blocks(made))
    sys.exit(0 if found.identical else EXIT_DIFFERS)


def _replayed(record: DecisionRecord, *, as_recorded: bool) -> ReplayedDecision:
    with steps(record.service, max(len(record.questions), 1)) as shown:
        planner = Answers(worked_out=lambda work: shown.busy(f"planned for {work.problem.load or 0:.1f} q/s"))
        return replay(record, planner, Answers(quick=True), as_recorded=as_recorded)


def _read_record(name: str, index: int | None) -> DecisionRecord:
    """The record in a file ("-": standard input). index: as of `_chosen`; None: the newest.

    The file has a record, or a ConfigMap as `kubectl get -o json` or `-o yaml` prints it. Raises NoRecordError.
    """
    text = read_text(name, MOST_BYTES)
    try:
        return _record(_content(text), index)
    except (MalformedError, NoRecordError) as error:
        raise NoRecordError(f"{shown_name(name)}: {error}") from None


def _chosen(ring: Ring, index: int | None) -> Entry:
    """An entry of a ring. index: 1 is the newest; None: that one. Raises NoRecordError."""
    if not ring:
        raise NoRecordError("data: has no records of decisions; they are in the ConfigMap SERVICE-decisions")
    wanted = index or 1
    if wanted > len(ring):
        raise NoRecordError(f"--index {wanted}: there are {len(ring)} records; 1 is the newest")
    return ring[-wanted]


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
        return record_of_entry(_chosen(ring_of(whole), index))
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


def _document(record: DecisionRecord, found: ReplayedDecision) -> Json:
    """Keys as of the command's help."""
    made = record.decision
    return {
        "service": record.service,
        "namespace": record.namespace,
        "time": time_text(record.at),
        "action": str(made.action),
        "reason": str(made.reason),
        "from": None if record.before is None else summary(record.before),
        "to": None if made.counts is None else summary(made.counts),
        "identical": found.identical,
        "versions": {"recorded": dict(record.versions), "here": {"hetserve": __version__}},
        "questions": [
            {"question": one.words, "answeredBy": one.source} | ({"why": one.why} if one.why else {})
            for one in found.asked
        ],
        "differences": [{"field": one.field, "recorded": one.recorded, "now": one.now} for one in found.differences],
    }


def _blocks(made: Json) -> list[Block]:
    """The document in words."""
    change = f"{made['from'] or 'no plan'} -> {made['to']}"
    lines = [("decided", f"{second_text(made['time'])} {made['action']} ({made['reason']}): {change}")]
    asked, anew = made["questions"], [one for one in made["questions"] if one["answeredBy"] == "Planner"]
    lines.append(("planners", f"{len(anew)} of {len(asked)} questions answered anew"))
    lines += [("recorded", f"{one['question']}: {one['why']}") for one in asked if one["answeredBy"] == "Record"]
    recorded, here = made["versions"]["recorded"], made["versions"]["here"]
    if recorded != here:
        lines.append(("versions", f"recorded by {_versions(recorded)}, replayed by {_versions(here)}"))
    if made["identical"]:
        lines.append(("result", "identical"))
    for one in made["differences"][:MOST]:
        lines.append(("differs", f"{one['field']}: recorded {_text(one['recorded'])}, now {_text(one['now'])}"))
    if len(made["differences"]) > MOST:
        lines.append(("differs", f"{len(made['differences']) - MOST} more; -o json has all"))
    return [Block(f"{made['namespace']}/{made['service']}", tuple(lines))]


def _versions(of: Json) -> str:
    return ", ".join(f"{name} {version}" for name, version in of.items()) or "an unknown version"


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)
