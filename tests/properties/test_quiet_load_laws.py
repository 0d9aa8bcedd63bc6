"""Loads that ask for no look: whoever looks only when one asks decides as whoever looks at each."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from hypothesis import example, given, settings
from hypothesis import strategies as st

from effort import examples
from hetserve.base.units import QPS, Seconds
from hetserve.demand.mix import BatchMix
from hetserve.demand.observed import Demand, Freshness, RateSample, ShareSample
from hetserve.planning.reach import Capacity, PlannerJob
from hetserve.scaling import Action, Answer, Change, Decision, Facts, InForce, ScalingReason, ScalingRules, decide
from hetserve.scaling.dead_band import DeadBand
from hetserve.scaling.mix import mix_to_follow
from hetserve.scaling.plans.answers import Answers, Ask
from hetserve.scaling.policy import turns_in
from testing.scaling import NOW, STEP, at_most, facts, limited, scaled_problem

SMALL = BatchMix.single()
RATES = {"t4": 25.0, "v100": 50.0}
KEPT = 40
"""Samples that a look sees."""


def _answer(work: PlannerJob) -> Answer:
    if work.kind == "Capacity" and work.counts is not None:
        large = 1 - work.problem.mix.share_of(range(2))
        return Capacity(QPS(sum(RATES[name] * n for name, n in work.counts) / (1 + large)), tried=True)
    return _PLANS(replace(work, problem=replace(work.problem, planner="ilp")))


_PLANS: Ask = Answers(quick=True)


@dataclass
class Follower:
    """A service that is looked at. quiet_counts: not at loads that ask for no look, and time has ended nothing."""

    rules: ScalingRules
    counts: tuple[tuple[str, int], ...]
    quiet_counts: bool
    changes: tuple[Change, ...] = ()
    limits: tuple[ScalingReason, ...] = ()
    carried: bool | None = None
    dead_band: DeadBand | None = None
    due: float | None = None
    mix: BatchMix = SMALL
    since: float | None = None
    looks: int = 0

    def see(self, demand: Demand) -> tuple[object, ...]:
        """What is in force after this demand, what limits it, and whether the newest rate is carried."""
        time_is_up = self.due is not None and demand.now >= self.due
        if not (self.quiet_counts and not time_is_up and self.dead_band is not None and self.dead_band.covers(demand)):
            self._look(demand)
        return self.counts, self.limits, self.carried

    def _look(self, demand: Demand) -> None:
        for _ in range(5):
            self.looks += 1
            decided = self._decide(demand)
            if not decided.changes or decided.counts is None:
                self.limits = tuple(limit.reason for limit in decided.limits)
                holds, newest = decided.measured.capacity, demand.latest
                self.carried = None if holds is None or newest is None else newest.qps <= holds
                return
            change = Change(
                demand.now, decided.action, decided.reason, self.counts, decided.counts, decided.load, decided.scarce
            )
            self.counts, self.changes = decided.counts, (change, *self.changes[:4])

    def _decide(self, demand: Demand) -> Decision:
        problem = scaled_problem(planner="flow", mix=self.mix)
        moved = mix_to_follow(problem, demand)
        if moved is not None:
            self.mix, self.since, problem = moved, demand.now, replace(problem, mix=moved)
        base = facts(demand, dict(self.counts), problem=problem, rules=self.rules)
        in_force = InForce(self.counts, mix_since=self.since)
        seen: Facts = replace(base, now=demand.now, changes=self.changes, in_force=in_force)
        decided = decide(seen, _answer)
        ends = turns_in(seen)
        self.dead_band, self.due = decided.dead_band, None if ends is None else demand.now + ends
        return decided


def _demands(
    rates: list[float | None], shares: list[float], large: list[float | None], *, lower_bound: bool
) -> Iterable[Demand]:
    """What is seen at each sample, with a late one where it is missing."""
    for end in range(1, len(rates) + 1):
        begin, now = max(0, end - KEPT), NOW + end * STEP
        at = [NOW + (i + 1) * STEP for i in range(begin, end)]
        samples = [RateSample(t, QPS(r)) for t, r in zip(at, rates[begin:end], strict=True) if r is not None]
        late = [ShareSample(t, s, 5000.0) for t, s in zip(at, shares[begin:end], strict=True)]
        fresh = Freshness.FRESH if samples and samples[-1].at > now - 8 * STEP else Freshness.STALE
        yield Demand(
            fresh,
            now=now,
            samples=tuple(samples),
            step=Seconds(STEP),
            attained=tuple(late),
            lower_bound=lower_bound,
            mix=_mix(large[end - 1]),
            mix_queries=2_000.0,
        )


def _mix(large: float | None) -> BatchMix | None:
    """Of a share of larger queries; None: not known."""
    if not large:
        return None if large is None else SMALL
    return BatchMix.of([(1, 1 - large), (4, large)])


def _stretched(pieces: list[tuple[float | None, int]]) -> list[float | None]:
    return [rate for rate, times in pieces for _ in range(times)]


loads = st.lists(
    st.tuples(
        st.one_of(st.none(), st.floats(0, 200), st.sampled_from([0.0, 17.6, 18.2, 22.0, 36.4, 44.0])),
        st.integers(1, 30),
    ),
    min_size=2,
    max_size=8,
).map(_stretched)
attained = st.lists(st.tuples(st.sampled_from([1.0, 0.995, 0.986, 0.5]), st.integers(1, 30)), min_size=1, max_size=6)
sizes = st.lists(
    st.tuples(st.sampled_from([None, 0.0, 0.04, 0.12, 0.14, 0.3, 0.5, 0.9]), st.integers(1, 40)), min_size=1, max_size=6
)
policies = st.sampled_from(
    [
        ScalingRules(),
        ScalingRules(look_ahead=False),
        ScalingRules(least=3),
        ScalingRules(least=4, look_ahead=False),
        ScalingRules(most=3),
        ScalingRules(up=limited(0.0), down=limited(60.0)),
        ScalingRules(up=limited(30.0, at_most(1)), down=limited(300.0, at_most(1, 120.0))),
        ScalingRules(replaces=True),
    ]
)
counts = st.tuples(st.integers(0, 4), st.integers(0, 3)).filter(lambda n: sum(n) > 0)


missed = st.none() | st.tuples(st.sampled_from([17.6, 22.0, 40.0, 50.0, 90.0]), st.integers(0, 86_400))
"""The load at which one instance fewer than what is in force broke the SLO, and how long ago [s]."""


def _history(held: tuple[tuple[str, int], ...], seen: tuple[float, int] | None) -> tuple[Change, ...]:
    if seen is None:
        return ()
    last = next(name for name, n in reversed(held) if n)
    before = tuple((name, n - (name == last)) for name, n in held)
    return (Change(NOW - seen[1], Action.SCALE_UP, ScalingReason.SLO_MISSED, before, held, QPS(seen[0])),)


IN_TIME, ALIKE, T4 = [(1.0, 1)], [(None, 1)], (3, 0)
LEAST = ScalingRules(least=3)
CLIMB = [20.0] * 28 + [20.0 + 1.1 * i for i in range(1, 14)]


@settings(max_examples=examples(60), deadline=None)
@given(loads, attained, sizes, policies, counts, missed, st.booleans())
@example([50.0] * 30 + [80.0] + [50.0] * 5, IN_TIME, ALIKE, ScalingRules(look_ahead=False), T4, None, False)
@example([48.0] * 30 + [30.0] * 40, IN_TIME, ALIKE, ScalingRules(least=4), (4, 0), (50.0, 3600), False)
@example(CLIMB, IN_TIME, ALIKE, LEAST, T4, None, False)
@example([20.0] * 60, [(0.5, 30), (1.0, 30)], ALIKE, LEAST, T4, None, False)
@example([20.0] * 60, [(1.0, 30), (0.5, 30)], ALIKE, LEAST, T4, None, False)
@example([20.0] * 60, [(1.0, 30), (0.986, 1), (1.0, 30)], ALIKE, LEAST, T4, None, False)
@example([20.0] * 60, [(1.0, 30), (0.5, 1), (1.0, 30)], ALIKE, LEAST, T4, None, False)
def test_who_looks_only_when_a_load_or_the_time_asks_decides_and_says_as_who_always_looks(
    rates: list[float | None],
    shares: list[tuple[float, int]],
    sizes: list[tuple[float | None, int]],
    rules: ScalingRules,
    held: tuple[int, int],
    seen: tuple[float, int] | None,
    lower_bound: bool,
) -> None:
    begin = tuple(zip(("v100", "t4"), reversed(held), strict=True))
    history = _history(begin, seen)
    always, seldom = (Follower(rules, begin, quiet_counts=dead_band, changes=history) for dead_band in (False, True))
    in_time = [share for share, times in shares for _ in range(times)]
    in_time = (in_time + [1.0] * len(rates))[: len(rates)]
    large = (_stretched(sizes) + [sizes[-1][0]] * len(rates))[: len(rates)]
    for demand in _demands(rates, in_time, large, lower_bound=lower_bound):
        assert seldom.see(demand) == always.see(demand), demand.now - NOW
    assert seldom.looks <= always.looks
