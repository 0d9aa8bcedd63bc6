"""Joined queries under what nobody plans for: floods, odd deadlines, instances that come and go, and bad input."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from hetserve.base.units import Seconds
from hetserve.dispatch.joining import JoiningPolicy, Variant, make_joining_policy
from hetserve.dispatch.joining.fang_rl import LONGEST_WAIT, by_weights
from hetserve.dispatch.joining.interface import BY_ARRIVAL, BY_BIN
from hetserve.dispatch.joining.weights import Network, PolicyWeights
from hetserve.profiles import LatencyProfile, LinearProfile, TableProfile
from hetserve.serving.dispatcher import Dispatcher
from hetserve.serving.services import ComputeUse, GpuInstance, Service
from hetserve.serving.session import Session
from hetserve.serving.state import DROPPED, LOST, WAITING
from hetserve.serving.variants import VariantSystem
from testing.joining import policies

EACH = pytest.mark.parametrize("policy", policies(), ids=lambda policy: policy.name)
_PROFILES: dict[str, LatencyProfile] = {
    "v0": TableProfile((1, 16), (Seconds(0.002), Seconds(0.009))),
    "v1": TableProfile((1, 16), (Seconds(0.007), Seconds(0.028))),
}
_VARIANTS = (Variant("v0", 74.0), Variant("v1", 80.0))


def a_system(slo: float = 0.036, **more: Any) -> VariantSystem:
    return VariantSystem.of_variants({"a": _PROFILES}, _VARIANTS, slo, **more)


def a_run(policy: JoiningPolicy, instances: int = 4, made: VariantSystem | None = None, gpus: int = 4) -> Session:
    uses = {"a": ComputeUse(0.5, otherwise=0.1)}
    run = Session([Service("s", made or a_system(), policy, uses)])
    run.join_all(GpuInstance("s", "a", f"g{k % gpus}") for k in range(instances))
    return run


def flood(
    run: Session, times: Sequence[float] | np.ndarray[Any, Any], slos: np.ndarray[Any, Any] | None = None
) -> range:
    n = len(times)
    draws = np.random.default_rng(0).uniform(size=n)
    return run.arrive("s", np.asarray(times, np.float64), np.zeros(n, np.int64), draws, slos)


@EACH
def test_ten_thousand_queries_at_one_instant_are_served_or_dropped(policy: JoiningPolicy) -> None:
    run = a_run(policy)
    flood(run, np.zeros(10_000))
    assert len(run.until()) == 10_000
    outcome = run.outcome()
    assert ((outcome.joined > 0) | (outcome.instance == DROPPED)).all()
    assert (outcome.joined > 0).any()
    assert int((~outcome.late).sum()) <= 4 * 16 * 18, "no more than instances can serve within the SLO"


@EACH
@pytest.mark.parametrize("order", [1, 2])
def test_deadlines_that_fall_with_each_arrival_keep_the_queue_in_order(policy: JoiningPolicy, order: int) -> None:
    run = a_run(replace(policy, order=order, drops=False), instances=1)
    times = np.arange(2_000) * 1e-5
    slos = np.linspace(2.0, 0.5, 2_000)
    flood(run, times, slos)
    run.until()
    outcome = run.outcome()
    waited = np.flatnonzero(outcome.start > times[-1])
    key = times if order == BY_ARRIVAL else times + slos
    by_start = waited[np.lexsort((key[waited], outcome.start[waited]))]
    assert (np.diff(key[by_start]) >= 0).all()


@EACH
def test_what_a_failed_instance_serves_is_lost_or_waits_again(policy: JoiningPolicy) -> None:
    for requeue in (False, True):
        run = a_run(replace(policy, drops=False), instances=2)
        flood(run, np.zeros(20))
        run.until(0.001)
        serving = int((run.outcome().instance == 0).sum())
        assert serving > 0
        assert len(run.fail(0, requeue=requeue)) == serving
        outcome = run.outcome()
        assert int((outcome.instance == LOST).sum()) == (0 if requeue else serving)
        run.until()
        outcome = run.outcome()
        assert int(np.isfinite(outcome.finish).sum()) == 20 - (0 if requeue else serving)
        assert (outcome.joined[outcome.instance == LOST] == 0).all()


@EACH
def test_nothing_is_served_without_instances_and_all_once_one_comes(policy: JoiningPolicy) -> None:
    run = a_run(replace(policy, drops=False), instances=0)
    flood(run, [0.0, 0.1])
    run.until(1.0)
    assert (run.outcome().instance == WAITING).all()
    run.join(GpuInstance("s", "a", "late"))
    run.until()
    assert np.isfinite(run.outcome().finish).all()


@EACH
def test_a_late_clock_counts_arrivals_as_an_early_one(policy: JoiningPolicy) -> None:
    run = a_run(policy)
    run.until(1e6)
    flood(run, 1e6 + np.arange(100) / 1000)
    assert len(run.until()) == 100


@EACH
def test_deadlines_that_nobody_can_meet_are_all_misses(policy: JoiningPolicy) -> None:
    run = a_run(replace(policy, drops=True))
    flood(run, np.arange(50) / 1000, np.full(50, 1e-6))
    run.until()
    assert run.outcome().late.all()
    assert (run.outcome().instance == DROPPED).all()


def test_a_type_that_cannot_serve_the_head_leaves_it_to_another() -> None:
    small: dict[str, LatencyProfile] = {"v1": TableProfile((1,), (Seconds(0.001),))}
    made = VariantSystem.of_variants({"small": small, "a": _PROFILES}, _VARIANTS, 0.5)
    for policy in policies():
        run = Session([Service("s", made, replace(policy, drops=False))])
        run.join_all([GpuInstance("s", "small", "g0"), GpuInstance("s", "a", "g1")])
        run.arrive("s", np.zeros(3), np.array([3, 0, 0]), np.full(3, 0.5))
        run.until()
        outcome = run.outcome()
        assert np.isfinite(outcome.finish).all(), policy.name
        assert outcome.instance[0] == 1


@pytest.mark.parametrize("policy", [policy for policy in policies() if policy.order == BY_BIN], ids=lambda p: p.name)
@pytest.mark.parametrize("rate", [1.0, 100.0])
def test_a_head_that_the_chosen_variant_cannot_hold_is_served_by_one_that_can(
    policy: JoiningPolicy, rate: float
) -> None:
    tables: dict[str, LatencyProfile] = {**_PROFILES, "v1": TableProfile((1, 4), (Seconds(0.007), Seconds(0.012)))}
    made = VariantSystem.of_variants({"a": tables}, _VARIANTS, 0.5)
    run = Session([Service("s", made, policy)])
    run.join(GpuInstance("s", "a", "g0"))
    run.arrive("s", np.arange(9) / rate, np.array([0, 7, 0, 15, 4, 0, 0, 11, 3]), np.full(9, 0.5))
    run.until()
    outcome = run.outcome()
    assert np.isfinite(outcome.finish).all()
    assert (outcome.variant[outcome.size >= 4] == 0).all()
    assert rate > 1 or (outcome.variant[outcome.size < 4] == 1).all()


def test_all_that_waits_is_bounded_by_the_limit_of_the_variant_that_serves() -> None:
    tables: dict[str, LatencyProfile] = {**_PROFILES, "v1": TableProfile((1, 6), (Seconds(0.007), Seconds(0.02)))}
    made = VariantSystem.of_variants({"a": tables}, _VARIANTS, 0.036)
    for waits, joined, variant in ((5, 5, 1), (6, 6, 1), (13, 13, 0)):
        run = Session([Service("s", made, make_joining_policy("fang-fixed"))])
        run.join(GpuInstance("s", "a", "g0"))
        flood(run, np.zeros(waits))
        run.until()
        outcome = run.outcome()
        assert (int(outcome.joined[0]), int(outcome.variant[0])) == (joined, variant)


def test_a_network_that_always_waits_serves_the_head_once_it_would_be_late() -> None:
    fleet, neurons, sizes = {"a": 1}, 3, (1, 4)
    inputs, actions = PolicyWeights.inputs_of(fleet), 2 * len(sizes) + 1
    bias = np.arange(actions, dtype=np.float64)
    layers = Network(np.zeros((inputs, neurons)), np.zeros(neurons), np.zeros((neurons, actions)), bias)
    policy = by_weights([PolicyWeights(fleet, ("v0", "v1"), sizes, 0, layers, 1.0, 1.0)])
    run = Session([Service("s", a_system(1.0), policy)])
    run.join(GpuInstance("s", "a", "g0"))
    flood(run, [0.0, 0.1])
    run.until()
    outcome = run.outcome()
    assert (outcome.start > 1 - 0.002).all()
    assert (outcome.start <= 1 - 0.002 + LONGEST_WAIT).all()
    assert (outcome.variant == 1).all(), "the best action but to wait: 4 items by v1"


@pytest.mark.parametrize("slos", [[1.0], [1.0, math.nan], [1.0, math.inf], [-math.inf, 1.0]])
def test_odd_slos_are_refused_and_nothing_has_arrived(slos: list[float]) -> None:
    run = a_run(make_joining_policy("max-batch"))
    with pytest.raises(ValueError, match="s: SLOs of 2 queries: need as many finite numbers of seconds"):
        flood(run, [0.0, 1.0], np.array(slos))
    assert len(run.outcome().arrival) == 0


@pytest.mark.parametrize(
    ("variants", "profiles", "more", "message"),
    [
        ((), {"a": _PROFILES}, {}, "variants none: need at least one"),
        ((_VARIANTS[0],) * 2, {"a": _PROFILES}, {}, "variants v0, v0: need at least one, and names of their own"),
        (_VARIANTS[:1], {"a": _PROFILES}, {}, "a: no variant v1; there are: v0"),
        ((*_VARIANTS, Variant("v2", 81.0)), {"a": _PROFILES}, {}, "variant v2: no instance type has its latency"),
        (_VARIANTS, {"a": _PROFILES, "b": {}}, {}, "b: has no latency of a variant; there are: v0, v1"),
        (_VARIANTS, {"a": _PROFILES}, {"hard": 0.01}, r"hard deadline 0.01 s: must be at least the SLO, 0.036 s"),
        (_VARIANTS, {"a": _PROFILES}, {"switches": {"b": 0.1}}, "switch time 0.1 s of b: need at least 0, of a"),
        (_VARIANTS, {"a": _PROFILES}, {"switches": {"a": -0.1}}, "switch time -0.1 s of a: need at least 0, of a"),
        (_VARIANTS, {"a": _PROFILES}, {"largest": 0}, "largest 0: must be the most items together, at least 1"),
        (
            _VARIANTS,
            {"a": {**_PROFILES, "v1": LinearProfile(Seconds(0.1), Seconds(0.1))}},
            {},
            "largest None: must be the most items together, at least 1: a profile has no limit",
        ),
    ],
)
def test_a_wrong_system_of_variants_is_refused(
    variants: Sequence[Variant], profiles: Mapping[str, Any], more: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        VariantSystem.of_variants(profiles, variants, 0.036, **more)


@pytest.mark.parametrize(
    ("accuracy", "utility", "message"),
    [
        (100.5, 1.0, "variant v: accuracy 100.5: must be between 0 and 100 percent"),
        (math.nan, 1.0, "variant v: accuracy nan: must be between 0 and 100 percent"),
        (80.0, -1.0, "variant v: utility -1.0: must be at least 0"),
        (80.0, math.inf, "variant v: utility inf: must be at least 0"),
    ],
)
def test_a_wrong_variant_is_refused(accuracy: float, utility: float, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Variant("v", accuracy, utility)


def test_a_dispatcher_refuses_a_joining_policy() -> None:
    with pytest.raises(TypeError, match="s: joining policy max-batch: must be one that pairs queries"):
        Dispatcher(Service("s", a_system(), make_joining_policy("max-batch")))


def test_a_revision_keeps_what_is_served_and_the_variants() -> None:
    run = a_run(make_joining_policy("rate-fit"), instances=1)
    flood(run, np.zeros(40))
    run.until(0.001)
    began = run.outcome()
    served = began.joined > 0
    before = began.variant[served], began.start[served], began.work[served]
    other = VariantSystem.of_variants({"a": {"v0": _PROFILES["v0"]}}, _VARIANTS[:1], 0.036)
    with pytest.raises(ValueError, match="s: variants v0: must stay v0, v1"):
        run.revise([Service("s", other, make_joining_policy("slackfit"))])
    run.revise([Service("s", a_system(slo=0.1, switches={"a": 0.01}), make_joining_policy("slackfit"))])
    run.until()
    outcome = run.outcome()
    assert ((outcome.joined > 0) | (outcome.instance == DROPPED)).all()
    after = outcome.variant[served], outcome.start[served], outcome.work[served]
    assert served.any()
    assert all((one == other).all() for one, other in zip(before, after, strict=True))


def test_a_revision_to_another_order_of_the_queue_sorts_what_waits() -> None:
    one = {"a": {"v0": TableProfile((1,), (Seconds(0.1),))}}
    made = VariantSystem.of_variants(one, _VARIANTS[:1], 0.5, hard=5.0)
    run = Session([Service("s", made, make_joining_policy("fang"))])
    flood(run, np.zeros(4), np.array([1.15, 1.05, 1.10, 1.01]))
    run.until(0.05)
    run.revise([Service("s", made, make_joining_policy("max-batch"))])
    flood(run, [0.06], np.array([0.97]))
    run.join(GpuInstance("s", "a", "g0"))
    run.until()
    assert np.argsort(run.outcome().start).tolist() == [3, 4, 1, 2, 0]


def test_slackfit_takes_no_bucket_by_which_the_head_is_late() -> None:
    slow = TableProfile((1, 2, 4), (Seconds(0.03), Seconds(0.06), Seconds(0.12)))
    profiles = {"fast": TableProfile((1, 4), (Seconds(0.01), Seconds(0.02))), "slow": slow}
    made = VariantSystem.of_variants({"a": profiles}, [Variant("fast", 70.0), Variant("slow", 80.0)], 0.05)
    run = Session([Service("s", made, make_joining_policy("slackfit"))])
    run.join(GpuInstance("s", "a", "g0"))
    run.arrive("s", np.zeros(1), np.array([3]), np.array([0.5]))
    run.until()
    assert not run.outcome().late[0]
