"""What came of a replay, as a document and for people."""

from __future__ import annotations

import json
from typing import Any, Final

from hetserve import __version__
from hetserve.cli.decisions.explain_text import second_text
from hetserve.cli.output.terminal import Block
from hetserve.planning.plan import summary
from hetserve.scaling.record.record import DecisionRecord
from hetserve.scaling.record.replay import ReplayedDecision
from hetserve.scaling.record.ring import time_text

Json = dict[str, Any]
MOST: Final = 40
"""Differences that are shown to people; others are counted."""


def document(record: DecisionRecord, found: ReplayedDecision) -> Json:
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


def blocks(made: Json) -> list[Block]:
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
