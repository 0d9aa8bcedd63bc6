"""Laws of a change of plan, step by step on a cluster that launches and ends instances as it likes."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from random import Random

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from effort import examples
from hetserve.base.units import MicroDollarsPerHour
from hetserve.planning.rates import RateEstimate
from hetserve.transition.budget_cut import within_limits
from hetserve.transition.next_counts import Stage, next_counts
from hetserve.transition.staging import Instances, Limits

TYPES = "abcd"
RATE_OF = dict(zip(TYPES, map(math.sqrt, (2, 3, 5, 7)), strict=True))
"""Sums of these are equal only for equal counts, so nothing is a tie."""
COUNTS = st.dictionaries(st.sampled_from(TYPES), st.integers(0, 6))
PRICES = st.tuples(*(st.integers(1, 99),) * 4).map(lambda prices: dict(zip(TYPES, prices, strict=True)))


def linear(counts: Mapping[str, int]) -> float:
    return sum(n * RATE_OF[name] for name, n in counts.items())


def needs_large(counts: Mapping[str, int]) -> float:
    """Types c and d only serve large queries: without them nothing is carried."""
    return min(linear(counts), 9 * linear({name: n for name, n in counts.items() if name in "cd"}))


RATES = st.sampled_from([linear, needs_large])


@dataclass
class Pod:
    """An instance: waits for a place, starts, serves, ends. left: steps until the next of these."""

    kind: str
    state: str = "waiting"
    left: int = 0


@dataclass
class Cluster:
    """Replicas and instances. room: places of each type; None: enough. slow: most steps of a launch or an end."""

    prices: Mapping[str, int]
    random: Random
    replicas: Counter[str]
    room: Mapping[str, int] | None = None
    slow: int = 3
    broken: frozenset[str] = frozenset()
    pods: list[Pod] = field(default_factory=list)

    @classmethod
    def running(
        cls, counts: Mapping[str, int], prices: Mapping[str, int], seed: int, broken: frozenset[str] = frozenset()
    ) -> Cluster:
        pods = [Pod(name, "ready") for name, n in counts.items() for _ in range(n)]
        return cls(prices, Random(seed), Counter(counts), pods=pods, broken=broken)  # noqa: S311

    def holdings(self) -> dict[str, Instances]:
        return {name: self._holding(name) for name in TYPES}

    def _holding(self, name: str) -> Instances:
        states = Counter(pod.state for pod in self.pods if pod.kind == name)
        live = states["waiting"] + states["starting"] + states["ready"]
        held = Instances(self.replicas[name], live, states["ending"], MicroDollarsPerHour(self.prices[name]))
        return replace(held, placed=states["starting"] + states["ready"], ready=states["ready"])

    def apply(self, counts: Mapping[str, int], *, most: int = 99) -> bool:
        """Makes the first writes, one type each, smaller counts first; whether any was made."""
        changes = sorted((n - self.replicas[name], name) for name, n in counts.items() if n != self.replicas[name])
        for _, name in changes[:most]:
            self.replicas[name] = counts[name]
        return bool(changes)

    def tick(self) -> None:
        for name in TYPES:
            self._scale(name)
        for pod in list(self.pods):
            pod.left -= 1
            if pod.left > 0:
                continue
            if pod.state == "ending":
                self.pods.remove(pod)
            elif pod.state == "waiting" and self._has_room(pod.kind):
                pod.state, pod.left = "starting", self.random.randint(1, self.slow)
            elif pod.state == "starting" and pod.kind not in self.broken:
                pod.state = "ready"

    def _scale(self, name: str) -> None:
        live = [pod for pod in self.pods if pod.kind == name and pod.state != "ending"]
        live.sort(key=lambda pod: ("waiting", "starting", "ready").index(pod.state))
        for pod in live[: max(0, len(live) - self.replicas[name])]:
            pod.state, pod.left = "ending", self.random.randint(1, self.slow)
        self.pods += [Pod(name, left=1) for _ in range(self.replicas[name] - len(live))]

    def _has_room(self, name: str) -> bool:
        if self.room is None:
            return True
        return sum(pod.kind == name and pod.state != "waiting" for pod in self.pods) < self.room[name]

    def ready(self) -> dict[str, int]:
        return dict(Counter(pod.kind for pod in self.pods if pod.state == "ready"))

    def cost(self) -> int:
        return cost(Counter(pod.kind for pod in self.pods), self.prices)


def cost(counts: Mapping[str, int], prices: Mapping[str, int]) -> int:
    return sum(n * prices[name] for name, n in counts.items())


@settings(max_examples=examples(80), deadline=None)
@given(COUNTS, COUNTS, PRICES, RATES, st.integers(0, 400), st.integers(0, 2**32), st.integers(1, 4))
def test_a_change_of_plan_stays_within_its_budget_keeps_what_it_can_and_ends(
    old: dict[str, int],
    plan: dict[str, int],
    prices: dict[str, int],
    rate: RateEstimate,
    spare: int,
    seed: int,
    most: int,
) -> None:
    budget = max(cost(old, prices), cost(plan, prices)) + spare
    limits, cluster = Limits(MicroDollarsPerHour(budget)), Cluster.running(old, prices, seed)
    kept = min(rate(old), rate(plan)) * (1 - 1e-6)
    for _ in range(400):
        stage = next_counts(plan, cluster.holdings(), limits, rate)
        changed = cluster.apply(stage.counts, most=most)
        cluster.tick()
        assert cluster.cost() <= budget, "I3: more is paid than the budget allows"
        if cost(old, prices) + cost(plan, prices) <= budget:
            assert rate(cluster.ready()) >= kept, "I9: a gap, and there was room"
        if not changed and not stage.under_way and _is_there(cluster, plan):
            break
    assert _is_there(cluster, plan), f"it does not end: {stage}"
    assert next_counts(plan, cluster.holdings(), limits, rate).left == 0
    assert not cluster.apply(next_counts(plan, cluster.holdings(), limits, rate).counts), "I7: a write at rest"


def _is_there(cluster: Cluster, plan: Mapping[str, int]) -> bool:
    wanted = {name: n for name, n in plan.items() if n}
    return cluster.ready() == wanted and len(cluster.pods) == sum(wanted.values())


@settings(max_examples=examples(40), deadline=None)
@given(COUNTS, COUNTS, PRICES, RATES, st.integers(0, 400), st.integers(0, 2**32))
def test_instances_that_never_serve_replace_none_beyond_the_room_they_were_made(
    old: dict[str, int], plan: dict[str, int], prices: dict[str, int], rate: RateEstimate, spare: int, seed: int
) -> None:
    plan = {name: n for name, n in plan.items() if not old.get(name)}
    assume(any(plan.values()) and any(old.values()) and rate(plan) > 0)
    budget = max(cost(old, prices), cost(plan, prices)) + spare
    cluster = Cluster.running(old, prices, seed, broken=frozenset(plan))
    limits, dearest = Limits(MicroDollarsPerHour(budget)), max(prices[name] for name in plan)
    for _ in range(60):
        cluster.apply(next_counts(plan, cluster.holdings(), limits, rate).counts)
        cluster.tick()
        assert cluster.cost() <= budget
    kept, serves = min(rate(old), rate(plan)) * (1 - 1e-6), rate(cluster.ready())
    if cost(old, prices) + cost(plan, prices) <= budget:
        assert serves >= kept, "an instance went that nobody replaces"
    most = (dearest + max(prices.values())) * max(10 * RATE_OF[name] / prices[name] for name in old)
    assert serves >= kept - most, "more went than one successor needs"


@settings(max_examples=examples(40), deadline=None)
@given(COUNTS, COUNTS, PRICES, st.integers(0, 6), st.integers(0, 2**32))
def test_a_limit_of_instances_is_kept_like_a_budget(
    old: dict[str, int], plan: dict[str, int], prices: dict[str, int], spare: int, seed: int
) -> None:
    total = max(sum(old.values()), sum(plan.values())) + spare
    limits, cluster = Limits(total=total), Cluster.running(old, prices, seed)
    for _ in range(300):
        cluster.apply(next_counts(plan, cluster.holdings(), limits, linear).counts)
        cluster.tick()
        assert len(cluster.pods) <= total
        if _is_there(cluster, plan):
            break
    assert _is_there(cluster, plan)


@settings(max_examples=examples(40), deadline=None)
@given(COUNTS, PRICES, RATES, st.integers(0, 600), st.integers(0, 2**32), st.integers(1, 4))
def test_a_budget_cut_ends_at_what_fits_and_at_nothing_only_if_nothing_fits(
    old: dict[str, int], prices: dict[str, int], rate: RateEstimate, budget: int, seed: int, most: int
) -> None:
    limits, cluster = Limits(MicroDollarsPerHour(budget)), Cluster.running(old, prices, seed)
    first = within_limits({}, cluster.holdings(), limits, rate)
    for _ in range(30):
        before = dict(cluster.replicas)
        counts = within_limits({}, cluster.holdings(), limits, rate)
        assert all(counts[name] <= before.get(name, 0) for name in counts), "a cut adds something"
        cluster.apply(counts, most=most)
        cluster.tick()
    assert cluster.cost() <= budget
    if any(n and prices[name] <= budget for name, n in old.items()):
        assert cluster.ready(), "all went, though one fits"
    assert cost(first, prices) <= budget
    assert not any(first[name] < n and cost(first, prices) + prices[name] <= budget for name, n in old.items()), (
        "more went than had to"
    )


@settings(max_examples=examples(60), deadline=None)
@given(COUNTS, COUNTS, PRICES, st.integers(0, 400), st.permutations(TYPES), st.integers(0, 2**32), st.integers(0, 12))
def test_names_decide_nothing(
    old: dict[str, int],
    plan: dict[str, int],
    prices: dict[str, int],
    spare: int,
    names: list[str],
    seed: int,
    steps: int,
) -> None:
    budget = MicroDollarsPerHour(max(cost(old, prices), cost(plan, prices)) + spare)
    cluster, name_of = Cluster.running(old, prices, seed), dict(zip(TYPES, names, strict=True))
    for _ in range(steps):
        cluster.apply(next_counts(plan, cluster.holdings(), Limits(budget), linear).counts)
        cluster.tick()
    held = cluster.holdings()

    def renamed(counts: Mapping[str, int]) -> float:
        return linear({name: counts.get(name_of[name], 0) for name in TYPES})

    one = next_counts(plan, held, Limits(budget), linear)
    other = next_counts(
        {name_of[name]: n for name, n in plan.items()},
        {name_of[name]: one for name, one in held.items()},
        Limits(budget),
        renamed,
    )
    assert {name_of[name]: n for name, n in one.counts.items()} == other.counts
    assert (one.left, one.under_way) == (other.left, other.under_way)


def test_where_gpus_leave_no_room_one_goes_at_a_time() -> None:
    cluster = Cluster.running({"a": 3}, dict.fromkeys(TYPES, 1), 0)

    def step() -> Stage:
        # b takes the places of a, so it has as many as a has left.
        cluster.room = {**dict.fromkeys(TYPES, 99), "b": 3 - sum(pod.kind == "a" for pod in cluster.pods)}
        held = cluster.holdings()
        stuck = held["b"].replicas > held["b"].placed >= cluster.room["b"]
        stage = next_counts({"b": 3}, held, Limits(), linear, {"b": frozenset("a")} if stuck else {})
        cluster.apply(stage.counts)
        cluster.tick()
        return stage

    serving = []
    for _ in range(60):
        step()
        serving.append(sum(cluster.ready().values()))
    assert cluster.ready() == {"b": 3}
    assert min(serving) == 2, serving


def test_a_refusal_that_may_last_ends_nothing() -> None:
    price = MicroDollarsPerHour(5)
    held = {"a": Instances(2, 2, 0, price, placed=2, ready=2), "b": Instances(0, 0, 0, price)}
    stage = next_counts({"b": 2}, held, Limits(MicroDollarsPerHour(10)), linear, {"b": frozenset()})
    assert stage.counts["a"] == 2
