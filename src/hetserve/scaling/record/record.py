"""A decision with all that it stands on, so that it can be made again elsewhere.

As a JSON document, and packed into text for a ConfigMap.
"""

from __future__ import annotations

import base64
import hashlib
import json
import lzma
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Final

from hetserve import __version__
from hetserve.base.units import QPS
from hetserve.planning.plan import Counts, Plan
from hetserve.planning.reach import Capacity, PlannerJob, WorkKind
from hetserve.scaling.decision import Decision
from hetserve.scaling.facts import Facts
from hetserve.scaling.plans.answers import Answer, Ask
from hetserve.scaling.policy import decide
from hetserve.scaling.record.codec import MalformedError, text_of, value_of

_DIGITS: Final = 16
MOST_WORDS: Final = 1024


@dataclass(frozen=True, slots=True)
class Question:
    """What a planner was asked, and what its answer was when it was used.

    digest: of the question. load: queries/s, and counts: what it is about, for people.
    """

    digest: str
    kind: WorkKind
    load: QPS | None
    counts: Counts | None
    answer: Answer

    @property
    def untried(self) -> bool:
        """Whether the answer was one that no simulation has tried."""
        return is_untried(self.answer)


@dataclass(frozen=True, slots=True)
class DecisionRecord:
    """A decision about a service.

    at: Unix seconds, by the clock of who decided. versions: of the programs that decided, by name. before: counts in
    force then; None: there was no plan. facts: None: it cannot be replayed, and `not_replayable` says why. questions:
    that planners were asked, in this order.
    """

    service: str
    namespace: str
    at: float
    decision: Decision
    before: Counts | None = None
    facts: Facts | None = None
    questions: tuple[Question, ...] = ()
    versions: Mapping[str, str] = field(default_factory=dict)
    not_replayable: str = ""

    def without_facts(self, why: str) -> DecisionRecord:
        """What remains of a record that is too large: what was decided, in words and numbers."""
        decision = replace(
            self.decision,
            words=self.decision.words[:MOST_WORDS],
            plan=None,
            limits=tuple(replace(limit, words=limit.words[:MOST_WORDS]) for limit in self.decision.limits[:1]),
        )
        return replace(self, decision=decision, facts=None, questions=(), not_replayable=why)


class Listener:
    """Passes questions on, and remembers each with its answer. Equal questions get the answer that was used first."""

    def __init__(self, ask: Ask) -> None:
        self._ask = ask
        self._heard: dict[PlannerJob, Answer] = {}

    def __call__(self, work: PlannerJob) -> Answer:
        if work not in self._heard:
            self._heard[work] = self._ask(work)
        return self._heard[work]

    @property
    def questions(self) -> tuple[Question, ...]:
        return tuple(
            Question(digest_of(work), work.kind, work.problem.load, work.counts, answer)
            for work, answer in self._heard.items()
        )


def decided_on_record(service: str, namespace: str, facts: Facts, ask: Ask) -> tuple[Decision, DecisionRecord | None]:
    """The policy's decision, and its record if something changes."""
    listener = Listener(ask)
    decision = decide(facts, listener)
    if not decision.changes:
        return decision, None
    return decision, record_of(service, namespace, facts, decision, listener.questions)


def record_of(
    service: str, namespace: str, facts: Facts, decision: Decision, questions: tuple[Question, ...]
) -> DecisionRecord:
    """The record of a decision that was made with these answers."""
    before = None if facts.in_force is None else facts.in_force.counts
    versions = {"hetserve": __version__}
    return DecisionRecord(service, namespace, facts.now, decision, before, facts, questions, versions)


def digest_of(work: PlannerJob) -> str:
    """Digest of a question: equal questions have equal ones."""
    return hashlib.sha256(text_of(work, PlannerJob).encode()).hexdigest()[:_DIGITS]


def is_untried(answer: Answer) -> bool:
    """Whether a planner that tries plans has not tried this one."""
    return isinstance(answer, Plan | Capacity) and answer.tried is False


KIND: Final = "ScalingDecisionRecord"
FORMAT: Final = 3
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
