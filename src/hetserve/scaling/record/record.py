"""A decision with all that it stands on, so that it can be made again elsewhere."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from hetserve import __version__
from hetserve.base.units import QPS
from hetserve.planning.plan import Counts, Plan
from hetserve.planning.reach import Capacity
from hetserve.planning.work import PlannerJob, WorkKind
from hetserve.scaling.decision import Decision
from hetserve.scaling.facts import Facts
from hetserve.scaling.plans.questions import Answer, Ask
from hetserve.scaling.policy import decide
from hetserve.scaling.record.codec import text_of

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
