"""Follows a load trace in virtual time: each step a demand, a decision, and instances that are brought to it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, Protocol

from hetserve.base.units import QPS
from hetserve.demand.observed import Demand
from hetserve.planning.plan import Counts
from hetserve.planning.problem import Problem
from hetserve.scaling.decision import Action, Decision, ScalingReason
from hetserve.scaling.facts import Change, Facts, InForce, Pause
from hetserve.scaling.mix import mix_to_follow
from hetserve.scaling.plans.answers import Ask
from hetserve.scaling.policy import decide
from hetserve.scaling.replay.arrivals import Arrived
from hetserve.scaling.replay.fleet import Fleet
from hetserve.scaling.replay.serving import Play, Served
from hetserve.scaling.rules import ScalingRules

RECORDED: Final = 5
"""Changes that are recorded, as in the status."""


@dataclass(frozen=True, slots=True)
class DecidedAt:
    """A decision at a time of the trace [s], and the counts before it."""

    at: float
    before: Counts
    decision: Decision


@dataclass(frozen=True, slots=True)
class Setting:
    """What is scaled. problem: of the service without a load. expected: queries/s of the first plan without samples."""

    problem: Problem
    rules: ScalingRules
    expected: QPS | None = None
    pause: Pause = Pause.NONE


@dataclass(frozen=True, slots=True)
class Playing:
    """How the queries of a trace are served. Arguments as of `Play`."""

    seed: int
    factors: Mapping[str, float] = field(default_factory=dict)

    def of(self, problem: Problem, arrived: Arrived, fleet: Fleet) -> Play:
        return Play(problem, arrived, fleet.spans, self.seed, self.factors)


class Follower(Protocol):
    """Something that decides which counts are in force, for example the policy or a HorizontalPodAutoscaler."""

    def __call__(self, demand: Demand, now: float, fleet: Fleet, /) -> Counts | None:
        """Counts wanted at a time of the trace [s]; None: nothing is planned."""
        ...


@dataclass(slots=True)
class Replay:
    """What became of a trace: the instances, and decisions that changed the plan, or held for a new reason.

    served: what became of the queries; None: they were not played.
    """

    fleet: Fleet
    begin: float
    end: float
    served: Served | None = None
    decided: list[DecidedAt] = field(default_factory=list)

    @property
    def changes(self) -> list[DecidedAt]:
        """Decisions that changed the plan, the first one included."""
        return [one for one in self.decided if one.decision.changes]

    @property
    def dollars(self) -> float:
        """What the instances cost over the trace."""
        return self.fleet.dollars(self.begin, self.end)


class ScalingFollower:
    """The scaling policy as a follower; it remembers what an operator's status would."""

    def __init__(self, setting: Setting, ask: Ask, heard: Callable[[DecidedAt], None] = lambda _: None) -> None:
        self._setting, self._ask, self._heard = setting, ask, heard
        self._in_force: InForce | None = None
        self._changes: tuple[Change, ...] = ()
        self._problem = setting.problem
        """Under the mix in force."""
        self._mix_since: float | None = None

    def __call__(self, demand: Demand, now: float, fleet: Fleet) -> Counts | None:
        self._take_mix(demand, now, fleet)
        setting = self._setting
        in_force = None if self._in_force is None else replace(self._in_force, mix_since=self._mix_since)
        decision = decide(
            Facts(
                now,
                setting.rules,
                demand,
                self._problem,
                in_force=in_force,
                expected=setting.expected,
                pause=setting.pause,
                changes=self._changes,
                ready=fleet.counts(now, ready=True),
                bound=fleet.counts(now, ready=False),
                served_since=fleet.served_since(now),
            ),
            self._ask,
        )
        before = () if in_force is None else in_force.counts
        self._heard(DecidedAt(now, before, decision))
        if decision.changes and decision.counts is not None:
            if decision.action is not Action.FIRST_PLAN:
                self._record(now, before, decision)
            self._in_force = InForce(decision.counts, decision.load)
        return None if self._in_force is None else self._in_force.counts

    def _take_mix(self, demand: Demand, now: float, fleet: Fleet) -> None:
        """Another mix is in force from the look on that finds it measured."""
        moved = mix_to_follow(self._problem, demand)
        if moved is not None:
            self._problem, self._mix_since = replace(self._problem, mix=moved), now
            fleet.take_mix(moved)

    def _record(self, now: float, before: Counts, decision: Decision) -> None:
        made = Change(
            now, decision.action, decision.reason, before, decision.counts or (), decision.load, decision.scarce
        )
        self._changes = (made, *self._changes)[:RECORDED]


def follow(
    setting: Setting,
    arrived: Arrived,
    ask: Ask,
    passed: Callable[[float], None] = lambda _: None,
    playing: Playing | None = None,
) -> Replay:
    """The policy over a whole trace. passed: called with each time of a decision [s].

    playing: how queries are served, which decisions then see; None: they are not, and nothing is known of latencies.
    """
    total = setting.rules.most if setting.pause.removes else None
    course = Replay(Fleet(setting.problem, total), arrived.begin, arrived.end)
    play = None if playing is None else playing.of(setting.problem, arrived, course.fleet)
    held_for: ScalingReason | None = None

    def heard(one: DecidedAt) -> None:
        nonlocal held_for
        made = one.decision
        if made.changes or made.reason not in (held_for, ScalingReason.LOAD_CARRIED):
            course.decided.append(one)
        held_for = None if made.changes else made.reason

    run(ScalingFollower(setting, ask, heard), course.fleet, arrived, passed, play)
    course.served = None if play is None else play.served()
    return course


def run(
    follower: Follower,
    fleet: Fleet,
    arrived: Arrived,
    passed: Callable[[float], None] = lambda _: None,
    play: Play | None = None,
) -> None:
    """Lets a follower decide at each step of a trace, and brings the instances to what it wants.

    play: of the instances of this fleet; None: the follower sees no latencies.
    """
    for step in range(int((arrived.end - arrived.begin) / arrived.step + 1e-6) + 1):
        now = arrived.begin + step * arrived.step
        demand = arrived.demand(now)
        if play is not None:
            play.until(now)
            demand = replace(demand, attained=play.attained(now))
        counts = follower(demand, now, fleet)
        if counts is not None:
            fleet.towards(counts, now)
        passed(now)
