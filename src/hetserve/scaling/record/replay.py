"""Makes a recorded decision again: the same core, the same facts, the planners asked anew."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np

from hetserve.api.conditions import Reason
from hetserve.planning.formatting import qps_text
from hetserve.planning.plan import Plan, summary
from hetserve.planning.reach import PlannerJob
from hetserve.scaling.decision import Decision
from hetserve.scaling.facts import Facts
from hetserve.scaling.plans.answers import Answer, Ask, Pending, Unanswered
from hetserve.scaling.policy import decide
from hetserve.scaling.record.codec import content_of
from hetserve.scaling.record.record import DecisionRecord, Question, digest_of, is_untried

ABSENT: Final = "absent"
Source = Literal["Planner", "Record"]


class NotReplayableError(ValueError):
    """The record does not have what its decision stood on, or cannot be decided on."""


@dataclass(frozen=True, slots=True)
class FieldDifference:
    """A field of the decision or of an answer that is not as recorded. recorded, now: as JSON, or `ABSENT`."""

    field: str
    recorded: Any
    now: Any


@dataclass(frozen=True, slots=True)
class ReplayedQuestion:
    """A question of the replay. source: who answered. why: a recorded answer was taken. known: it was recorded."""

    work: PlannerJob
    answer: Answer
    source: Source
    why: str = ""
    known: Question | None = None

    @property
    def words(self) -> str:
        """``a plan for 125 q/s``."""
        return _words(self.work.kind, self.work.problem.load, self.work.counts)


@dataclass(frozen=True, slots=True)
class ReplayedDecision:
    """What came out. differences: empty: the decision and every answer are identical."""

    decision: Decision
    asked: tuple[ReplayedQuestion, ...]
    differences: tuple[FieldDifference, ...]

    @property
    def identical(self) -> bool:
        return not self.differences


def replay(record: DecisionRecord, planner: Ask, quick: Ask, *, as_recorded: bool = False) -> ReplayedDecision:
    """The decision, made again from the facts of its record.

    planner, quick: answer questions, the second with untried plans, where such are recorded. as_recorded: the recorded
    answers are taken instead. They always are where no planner had answered: when it would is no fact of the record.
    Raises NotReplayableError.
    """
    facts = record.facts
    if facts is None:
        raise NotReplayableError(record.not_replayable or "the record has no facts")
    ask = _Again(record.questions, planner, quick, as_recorded=as_recorded)
    decision = _decided(facts, ask)
    differences = (
        *differing("decision", content_of(record.decision, Decision), content_of(decision, Decision)),
        *_differing_answers(record.questions, ask.asked),
    )
    return ReplayedDecision(decision, ask.asked, differences)


def _decided(facts: Facts, ask: Ask) -> Decision:
    try:
        with np.errstate(all="ignore"):  # a record may hold any number; what comes of it is judged below
            return decide(facts, ask)
    except (ArithmeticError, LookupError, ValueError, TypeError) as error:
        words = f"facts cannot be decided on: {type(error).__name__}: {error}"
        raise NotReplayableError(words) from None


class _Again:
    """Answers a question anew, or by the record where only that can."""

    def __init__(self, questions: tuple[Question, ...], planner: Ask, quick: Ask, *, as_recorded: bool) -> None:
        self._recorded = {one.digest: one for one in questions}
        self._planner, self._quick, self._as_recorded = planner, quick, as_recorded
        self._asked: dict[PlannerJob, ReplayedQuestion] = {}

    @property
    def asked(self) -> tuple[ReplayedQuestion, ...]:
        return tuple(self._asked.values())

    def __call__(self, work: PlannerJob) -> Answer:
        if work not in self._asked:
            self._asked[work] = self._answered(work)
        return self._asked[work].answer

    def _answered(self, work: PlannerJob) -> ReplayedQuestion:
        known = self._recorded.get(digest_of(work))
        if known is not None:
            why = _why_recorded(known, as_recorded=self._as_recorded)
            if why:
                return ReplayedQuestion(work, known.answer, "Record", why, known)
        return ReplayedQuestion(work, self._anew(work, known), "Planner", known=known)

    def _anew(self, work: PlannerJob, known: Question | None) -> Answer:
        """A planner's answer, untried if the recorded one is."""
        if known is None or not known.untried:
            return self._planner(work)
        quick = self._quick(work)
        if quick == known.answer:
            return quick
        answer = self._planner(work)
        return answer if is_untried(answer) else quick


def _why_recorded(known: Question, *, as_recorded: bool) -> str:
    """Why the recorded answer is taken; empty: it is not."""
    match known.answer:
        case Pending():
            return "no planner had answered yet"
        case Unanswered(why):
            return f"no planner answered: {why}"
        case Plan(reason=Reason.PLANNER_FAILED, message=words):
            return f"the planner failed: {words}"
    return "as asked for" if as_recorded else ""


def _differing_answers(
    recorded: tuple[Question, ...], asked: tuple[ReplayedQuestion, ...]
) -> Iterator[FieldDifference]:
    now = {id(one.known): one for one in asked if one.known is not None}
    for i, question in enumerate(recorded):
        field = f"questions[{i}].answer"
        again = now.get(id(question))
        if again is None:
            yield FieldDifference(field, _words(question.kind, question.load, question.counts), "not asked")
        elif again.source == "Planner":
            yield from differing(field, content_of(question.answer, Answer), content_of(again.answer, Answer))
    for one in asked:
        if one.known is None:
            yield FieldDifference("questions", "not asked", one.words)


def differing(field: str, recorded: Any, now: Any) -> Iterator[FieldDifference]:
    """Where two values of JSON differ, field by field; numbers differ by their digits."""
    if isinstance(recorded, dict) and isinstance(now, dict):
        for key in dict.fromkeys((*recorded, *now)):
            yield from differing(f"{field}.{key}", recorded.get(key, ABSENT), now.get(key, ABSENT))
    elif isinstance(recorded, list) and isinstance(now, list) and len(recorded) == len(now):
        for i, (old, new) in enumerate(zip(recorded, now, strict=True)):
            yield from differing(f"{field}[{i}]", old, new)
    elif repr(recorded) != repr(now):
        yield FieldDifference(field, recorded, now)


def _words(kind: str, load: float | None, counts: Any) -> str:
    if kind == "Capacity":
        return f"what {summary(counts or ())} hold"
    of = "an unknown load" if load is None else qps_text(load)
    if counts is not None:
        return f"whether {summary(counts)} hold {of}"
    return f"the most within reach of {of}" if kind == "MostWithinReach" else f"a plan for {of}"
