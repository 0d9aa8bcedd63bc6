"""What each joining policy chooses, by hand; and that nothing beats the integer program, which knows the future."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations

import numpy as np
import pulp
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from effort import examples
from hetserve.base.units import Seconds
from hetserve.dispatch import make_policy
from hetserve.dispatch.joining import JoiningPolicy, Variant, make_joining_policy
from hetserve.dispatch.joining.interface import BY_ARRIVAL
from hetserve.dispatch.joining.times import pareto
from hetserve.profiles import TableProfile
from hetserve.serving.services import GpuInstance, Service
from hetserve.serving.session import Outcomes, Session
from hetserve.serving.variants import VariantSystem
from testing.joining import policies

MS = 0.001
SMALL, LARGE = (2.0, 3.0, 4.0, 5.0), (4.0, 7.0, 10.0, 13.0)
"""ms by the items together."""


def a_system(
    slo: float = 20.0, hard: float | None = None, switch: float = 0.0, large: Sequence[float] = LARGE
) -> VariantSystem:
    """Times in ms."""
    tables = {
        name: TableProfile(tuple(range(1, len(row) + 1)), tuple(Seconds(ms * MS) for ms in row))
        for name, row in (("small", SMALL), ("large", large))
    }
    later = None if hard is None else hard * MS
    variants = [Variant("large", 80.0), Variant("small", 70.0)]
    return VariantSystem.of_variants({"a": tables}, variants, slo * MS, hard=later, switches={"a": switch * MS})


def served(
    policy: JoiningPolicy,
    arrivals: Sequence[float],
    made: VariantSystem | None = None,
    instances: int = 1,
    slos: Sequence[float] | None = None,
) -> Outcomes:
    """arrivals, slos: ms."""
    run = Session([Service("s", made or a_system(), policy)])
    run.join_all(GpuInstance("s", "a", f"g{k}") for k in range(instances))
    times, sizes = np.array(arrivals) * MS, np.zeros(len(arrivals), np.int64)
    run.arrive("s", times, sizes, np.zeros(len(arrivals)), None if slos is None else np.array(slos) * MS)
    run.until()
    return run.outcome()


def batches(outcome: Outcomes) -> list[tuple[float, int, str]]:
    """(start [ms], items, variant) in order."""
    found = zip(outcome.start, outcome.joined, outcome.variant, strict=True)
    names = ("small", "large")
    return sorted({(round(float(at) / MS, 6), int(items), names[v]) for at, items, v in found if items})


@pytest.mark.parametrize(
    ("policy", "slo", "waits", "chosen"),
    [
        ("max-batch", 13.0, 4, (4, "large")),
        ("max-batch", 12.0, 4, (4, "small")),
        ("max-batch", 4.0, 4, (3, "small")),
        ("max-accuracy", 12.0, 4, (3, "large")),
        ("max-accuracy", 4.0, 4, (1, "large")),
        ("max-accuracy", 3.0, 4, (2, "small")),
        ("slackfit", 13.0, 4, (4, "large")),
        ("slackfit", 5.0, 4, (4, "small")),
        ("slackfit", 13.0, 2, (2, "large")),
        ("infaas", 13.0, 4, (4, "small")),
        ("rate-fit", 20.0, 1, (1, "large")),
    ],
)
def test_a_policy_chooses_size_and_variant(policy: str, slo: float, waits: int, chosen: tuple[int, str]) -> None:
    outcome = served(make_joining_policy(policy), [0.0] * waits, a_system(slo))
    assert batches(outcome)[0] == (0.0, *chosen)


def test_clipper_serves_by_its_variant_alone() -> None:
    outcome = served(make_joining_policy("clipper", variant="large"), [0.0] * 4, a_system(12.0))
    assert batches(outcome) == [(0.0, 3, "large")]
    assert np.isnan(outcome.finish).sum() == 1, "the fourth would be late by large, and is dropped"


def test_infaas_takes_the_least_accurate_of_those_that_are_accurate_enough() -> None:
    assert batches(served(make_joining_policy("infaas", least=75.0), [0.0])) == [(0.0, 1, "large")]


def test_all_that_arrives_at_one_instant_is_joined() -> None:
    assert batches(served(make_joining_policy("max-batch"), [1.0, 1.0, 1.0])) == [(1.0, 3, "large")]


def test_the_earliest_deadline_goes_first_and_equal_ones_in_the_order_of_arrival() -> None:
    one_by_one = make_joining_policy("max-batch")
    made = a_system(large=LARGE[:1])
    single = replace(made, served=made.served)
    outcome = served(one_by_one, [0.0, 1.0, 2.0, 3.0], single, slos=[90.0, 60.0, 30.0, 57.0])
    assert np.argsort(outcome.start, kind="stable").tolist()[0] == 0
    waiting = served(replace(one_by_one, order=BY_ARRIVAL), [0.0, 1.0, 2.0, 3.0], single, slos=[90.0, 60.0, 30.0, 57.0])
    assert (np.diff(waiting.start) >= 0).all()


def test_a_query_whose_answer_is_worth_nothing_is_dropped_and_late() -> None:
    policy = make_joining_policy("max-batch")
    outcome = served(policy, [0.0] * 9, a_system(5.0))
    assert int((outcome.instance == -2).sum()) == 5
    kept = served(replace(policy, drops=False), [0.0] * 9, a_system(5.0))
    assert np.isfinite(kept.finish).all()
    assert int(kept.late.sum()) == 5
    worth = served(policy, [0.0] * 9, a_system(5.0, hard=10.0))
    assert np.isfinite(worth.finish[:8]).all(), "it is late, and still worth something"


def test_an_instance_pays_for_a_switch_but_not_for_its_first_variant() -> None:
    made = a_system(13.0, switch=3.0)
    outcome = served(make_joining_policy("max-batch"), [0.0, 0.0, 0.0, 0.0, 9.0, 9.0], made)
    assert batches(outcome) == [(0.0, 4, "large"), (13.0, 2, "large")]
    outcome = served(make_joining_policy("max-batch"), [0.0, 0.0, 0.0, 0.0, 5.0, 5.0], made)
    assert batches(outcome) == [(0.0, 4, "large"), (13.0, 2, "small")]
    assert outcome.finish[-1] == pytest.approx((13.0 + 3.0 + 3.0) * MS)


def test_rate_fit_does_not_switch_when_that_would_be_late() -> None:
    made = a_system(13.0, switch=10.0)
    outcome = served(make_joining_policy("rate-fit", longest=1.0), [0.0, 8.0], made)
    assert batches(outcome) == [(0.0, 1, "large"), (8.0, 1, "large")]


def test_the_coarse_policy_goes_by_the_last_whole_interval() -> None:
    policy = make_joining_policy("coarse", interval=0.1)
    calm, busy = np.arange(0.0, 100.0, 10.0), np.arange(100.0, 200.0, 2.0)
    outcome = served(policy, [*calm, *busy, 250.0], a_system(20.0))
    by_interval = [{name for at, _, name in batches(outcome) if k <= at / 100.0 < k + 1} for k in range(3)]
    assert by_interval == [{"large"}, {"large"}, {"small"}]


def test_running_maxima_leave_out_what_is_dominated() -> None:
    mean = np.array([[[3.0, 2.0], [4.0, 4.0], [2.0, 5.0], [2.0, 4.0]]])
    unused = [np.inf, np.inf]
    assert pareto(mean).tolist() == [[[3.0, 3.0], unused, unused, [3.0, 4.0]]]
    assert pareto(np.array([[[3.0, 3.0], [2.0, 5.0]]])).tolist() == [[[3.0, 3.0], [3.0, 5.0]]]


def ilp(arrivals: Sequence[int], slo: int, instances: int) -> float:
    """Optimum of the integer program 1a-1f (SuperServe section 4.1) in whole ms: accuracy x queries in time."""
    times = {70.0: SMALL, 80.0: LARGE}
    numbers = range(len(arrivals))
    plays = []
    for size in (1, 2, 3, 4):
        for batch in combinations(numbers, size):
            begin, due = max(arrivals[q] for q in batch), min(arrivals[q] for q in batch) + slo
            plays += [
                (batch, at, accuracy, int(row[size - 1]))
                for accuracy, row in times.items()
                for at in range(begin, due - int(row[size - 1]) + 1)
            ]
    problem = pulp.LpProblem("ilp", pulp.LpMaximize)
    chosen = [problem.add_variable(f"x{k}", cat=pulp.LpBinary) for k in range(len(plays))]
    problem += pulp.lpSum(x * accuracy * len(batch) for x, (batch, _, accuracy, _) in zip(chosen, plays, strict=True))
    for query in numbers:
        problem += pulp.lpSum(x for x, play in zip(chosen, plays, strict=True) if query in play[0]) <= 1
    for moment in range(max(arrivals) + slo):
        running = [x for x, (_, at, _, ms) in zip(chosen, plays, strict=True) if at <= moment < at + ms]
        problem += pulp.lpSum(running) <= instances
    problem.solve(pulp.HiGHS(msg=False))
    return float(pulp.value(problem.objective) or 0.0)


@settings(max_examples=examples(40))
@given(st.lists(st.integers(0, 12), min_size=1, max_size=6), st.integers(5, 16), st.integers(1, 2))
def test_no_policy_beats_the_integer_program(arrivals: list[int], slo: int, instances: int) -> None:
    best = ilp(sorted(arrivals), slo, instances)
    for policy in policies():
        if policy.name != "clipper":
            outcome = served(policy, [float(at) for at in arrivals], a_system(float(slo)), instances)
            in_time = ~outcome.late
            worth = float(np.array([70.0, 80.0])[outcome.variant[in_time]].sum())
            assert worth <= best + 1e-6, policy.name


@pytest.mark.parametrize(
    ("name", "given_settings", "error", "message"),
    [
        ("nearest", {}, ValueError, "unknown joining policy 'nearest'; there are: rate-fit"),
        ("slackfit", {"buckets": 0.5}, ValueError, "buckets 0.5: must be a whole number from 1 on"),
        ("infaas", {"least": 101.0}, ValueError, "least 101.0: must be between 0 and 100 percent"),
        ("coarse", {"interval": 0.0}, ValueError, "interval 0.0: must be a positive number of seconds"),
        ("rate-fit", {"share": -1.0}, ValueError, "share -1.0: must be positive"),
        ("max-batch", {"xi": 1.0}, TypeError, "has no setting xi; it has none"),
        ("slackfit", {"xi": 1.0}, TypeError, "has no setting xi; there are: buckets"),
    ],
)
def test_a_wrong_policy_or_setting_is_named(
    name: str, given_settings: dict[str, float], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        make_joining_policy(name, **given_settings)


def test_a_variant_that_there_is_not_is_named() -> None:
    with pytest.raises(ValueError, match="no variant medium; there are: small, large"):
        served(make_joining_policy("clipper", variant="medium"), [0.0])
    with pytest.raises(ValueError, match=r"least 90: no variant is as accurate; the best is large, 80\.0"):
        served(make_joining_policy("infaas", least=90), [0.0])


def test_variants_need_a_joining_policy_and_others_none() -> None:
    with pytest.raises(ValueError, match="policy kairos: variants, and only they, need a joining policy"):
        Service("s", a_system(), make_policy("kairos"))
