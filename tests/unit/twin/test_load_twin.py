"""Loads played by the second that the test names: what arrives, who serves it, and what is counted."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from hetserve.base.units import Seconds
from hetserve.demand import BatchMix
from hetserve_services.figures import STAYS
from hetserve_twin.engine import LoadTwin, TracedLoad
from hetserve_twin.systems import Truth
from twin_scene import facts, playing, pod, trace, twin_of

S = ("team", "s")


def served(twin: LoadTwin) -> dict[str, int]:
    table = twin.instances
    return {seat.pod: int(table.served[row]) for row, seat in enumerate(table.seats)}


def in_time(twin: LoadTwin) -> float:
    """Share of the queries of s that were served within its SLO."""
    figures, table = twin.services[S], twin.instances
    within = figures.latencies.index(figures.slo) + 1
    return float(table.durations[: len(table.seats), :within].sum() / figures.received)


def test_arrivals_follow_the_trace() -> None:
    twin = playing(0, [pod("a")], load=TracedLoad(trace((0, 10), (100, 40), (200, 0))))
    counts = []
    for second in (100, 200, 300):
        twin.advance(Seconds(second))
        counts.append(twin.services[S].received)
    assert counts == pytest.approx([1000, 5000, 5000], abs=5 * 5000**0.5)
    assert counts[2] == counts[1]


def test_speed_shrinks_the_times_of_a_trace_and_not_its_rates() -> None:
    twin = playing(0, load=TracedLoad(trace((3600, 10), (3600 + 43200, 30))), speed=288)
    twin.advance(Seconds(149.9))
    assert twin.services[S].rate == 10
    twin.advance(Seconds(151))
    assert twin.services[S].rate == 30
    assert twin.services[S].received == pytest.approx(1530, abs=200)


def test_one_seed_gives_one_play_and_each_service_draws_of_its_own() -> None:
    def counts(seed: int) -> list[int]:
        twin = twin_of({name: TracedLoad(trace((0, 50))) for name in ("s", "t")}, seed=seed)
        twin.declare([facts("s"), facts("t")])
        twin.stand([pod("a"), pod("b", "t")])
        twin.advance(Seconds(20))
        return [figures.received for figures in twin.services.values()]

    assert counts(1) == counts(1) != counts(2)
    assert counts(1)[0] != counts(1)[1]


def test_what_nobody_serves_has_arrived_and_is_given_up_after_the_timeout() -> None:
    twin = playing(100, timeout=5.0)
    twin.advance(Seconds(4))
    figures = twin.services[S]
    assert (figures.received, figures.dropped) == (figures.waiting, 0)
    assert figures.received == pytest.approx(400, abs=100)
    twin.advance(Seconds(20))
    assert figures.waiting == pytest.approx(500, abs=120)
    assert figures.dropped == figures.received - figures.waiting


def test_a_client_waits_for_its_slo_at_least() -> None:
    twin = playing(10, timeout=0.01)
    twin.declare([facts(slo=Seconds(3.0))])
    twin.advance(Seconds(2.9))
    assert twin.services[S].dropped == 0


def test_a_pod_that_becomes_ready_serves_from_then_on() -> None:
    # 150/s: more than one serves (100/s), less than two.
    twin = playing(150, [pod("a")], timeout=Seconds(1.0))
    twin.advance(Seconds(10))
    assert in_time(twin) < 0.5
    twin.stand([pod("a"), pod("b")])
    twin.advance(Seconds(15))
    received, late = twin.services[S].received, 1 - in_time(twin)
    twin.advance(Seconds(45))
    later = twin.services[S].received - received
    assert (1 - in_time(twin)) * twin.services[S].received - late * received < 0.1 * later
    assert served(twin)["b"] > 0.3 * later


def test_a_pod_that_is_not_ready_any_more_ends_what_it_serves_and_takes_no_more() -> None:
    twin = playing(50, [pod("a"), pod("b")])
    twin.advance(Seconds(10))
    twin.stand([pod("b")])
    twin.advance(Seconds(11))
    ended = served(twin)["a"]
    twin.advance(Seconds(20))
    assert served(twin)["a"] == ended
    figures = twin.services[S]
    assert figures.received == sum(served(twin).values()) + twin.in_flight, "nothing is lost"


def test_a_pod_that_is_ready_again_goes_on_with_its_counts() -> None:
    twin = playing(50, [pod("a")])
    for second in range(1, 11):
        twin.stand([pod("a")] if second % 2 else [])
        twin.advance(Seconds(second))
    assert list(served(twin)) == ["a"]
    assert twin.instances.seats[0].gone_at < 10


def test_a_pod_that_is_made_anew_under_its_name_goes_on_with_its_series() -> None:
    twin = playing(50, [pod("a")])
    twin.advance(Seconds(5))
    before = served(twin)["a"]
    twin.stand([replace(pod("a"), uid="another")])
    twin.advance(Seconds(10))
    assert len(twin.instances.seats) == 1
    assert served(twin)["a"] > before + 150


def test_what_is_gone_for_long_is_forgotten() -> None:
    twin = playing(5, [pod("a")])
    twin.advance(Seconds(5))
    twin.stand([])
    twin.advance(Seconds(10 + STAYS))
    twin.stand([pod("a")])
    twin.advance(Seconds(20 + STAYS))
    assert len(twin.instances.seats) == 2


def test_a_neighbour_on_the_same_gpu_slows_and_one_on_another_does_not() -> None:
    def busy(gpu: str) -> float:
        twin = twin_of({name: TracedLoad(trace((0, 60))) for name in ("s", "t")})
        twin.declare([facts("s"), facts("t")])
        twin.stand([pod("a", "s", "fast", "0"), pod("b", "t", "fast", gpu)])
        twin.advance(Seconds(60))
        return float(twin.instances.busy[0] / twin.instances.served[0])

    assert busy("1") == pytest.approx(0.010, rel=0.01)
    assert busy("0") > 0.012


def test_a_hidden_factor_is_real_and_the_dispatch_does_not_know_it() -> None:
    twin = playing(20, [pod("a"), pod("b", "s", "slow")], load=TracedLoad(trace((0, 20)), {"slow": 3.0, "*": 2.0}))
    twin.advance(Seconds(60))
    each = twin.instances.busy[:2] / twin.instances.served[:2]
    assert each.tolist() == pytest.approx([0.020, 0.060], rel=0.01)
    truth = Truth({"slow": 3.0, "*": 2.0})
    truth.learn(facts())
    system = truth.system(Seconds(0.1))
    assert system.predicted.arrays.mean.ravel().tolist() == [0.010, 0.020]
    assert system.served.means.ravel().tolist() == [0.020, 0.060]


def test_an_edited_profile_changes_what_is_predicted_and_not_what_is_true() -> None:
    twin = playing(20, [pod("a")])
    twin.advance(Seconds(10))
    twin.declare([facts(times={"fast": 50, "new": 5})])
    twin.advance(Seconds(60))
    assert float(twin.instances.busy[0] / twin.instances.served[0]) == pytest.approx(0.010, rel=0.01)
    truth = Truth({})
    truth.learn(facts())
    truth.learn(facts(times={"fast": 50, "new": 5}))
    system = truth.system(Seconds(0.1))
    assert system.predicted.arrays.mean.ravel().tolist() == [0.050, 0.020, 0.005]
    assert system.served.means.ravel().tolist() == [0.010, 0.020, 0.005]


def test_a_service_that_comes_back_with_another_model_takes_as_long_as_that_one() -> None:
    twin = playing(20, [pod("a")])
    twin.advance(Seconds(10))
    twin.declare([])
    twin.declare([replace(facts(times={"fast": 40}), model="other")])
    before, busy = int(twin.instances.served[0]), float(twin.instances.busy[0])
    twin.advance(Seconds(60))
    assert (twin.instances.busy[0] - busy) / (twin.instances.served[0] - before) == pytest.approx(0.040, rel=0.01)
    assert twin.services[S].model == "other"


def test_a_service_that_appears_later_is_played_from_then_on() -> None:
    twin = twin_of({name: TracedLoad(trace((0, 50))) for name in ("s", "t")})
    twin.declare([])
    twin.stand([pod("a")])
    twin.advance(Seconds(5))
    assert twin.services == {}
    twin.declare([facts("t")])
    twin.stand([pod("b", "t")])
    twin.advance(Seconds(10))
    twin.declare([facts("t"), facts("s")])
    twin.stand([pod("a"), pod("b", "t")])
    twin.advance(Seconds(20))
    assert {key[1]: one.received for key, one in twin.services.items()} == pytest.approx({"t": 750, "s": 500}, abs=120)
    assert all(count > 300 for count in served(twin).values())


def test_a_service_that_is_deleted_gets_no_more_queries() -> None:
    twin = playing(50, [pod("a")])
    twin.advance(Seconds(5))
    twin.declare([])
    twin.advance(Seconds(6))
    received = twin.services[S].received
    twin.advance(Seconds(10))
    assert (twin.services[S].received, twin.services[S].rate, twin.in_flight) == (received, 0.0, 0)


def test_services_without_a_trace_or_a_profile_are_not_played() -> None:
    twin = twin_of({"s": TracedLoad(trace((0, 50)))})
    twin.declare([facts("other"), facts(times={})])
    twin.stand([pod("a", "other"), pod("b")])
    twin.advance(Seconds(1))
    assert (twin.services, served(twin)) == ({}, {})


def test_a_pod_on_a_type_without_a_profile_takes_no_queries_and_is_named_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    twin = playing(20, [pod("a", "s", "odd")])
    twin.stand([pod("a", "s", "odd")])
    twin.advance(Seconds(1))
    assert served(twin) == {}
    assert caplog.messages == ["pod team/a: no ModelProfile of odd; it takes no queries"]


def test_the_mix_is_the_declared_one_or_the_loads_own() -> None:
    declared = BatchMix.of([(1, 3.0), (7, 1.0)])
    for own, largest in ((None, 7), (BatchMix.single(9), 9)):
        twin = twin_of({"s": TracedLoad(trace((0, 200)), mix=own)})
        twin.declare([facts(mix=declared, profile={"latency": {"linear": {"intercept": "1ms", "slope": "1ms"}}})])
        twin.advance(Seconds(10))
        figures = twin.services[S]
        assert largest in figures.bounds
        counts = dict(zip(figures.bounds, figures.batches.tolist(), strict=False))
        assert counts[largest] == pytest.approx(figures.received * (0.25 if own is None else 1.0), rel=0.15)
        assert sum(counts.values()) == figures.received


def test_another_mix_while_queries_wait_adds_bounds_and_keeps_the_counts() -> None:
    profile = {"latency": {"linear": {"intercept": "1ms", "slope": "1ms"}}}
    twin = twin_of({"s": TracedLoad(trace((0, 100)))})
    twin.declare([facts(mix=BatchMix.single(5), profile=profile)])
    twin.advance(Seconds(2))
    before = twin.services[S].received
    twin.declare([facts(mix=BatchMix.single(6), profile=profile)])
    twin.stand([pod("a")])
    twin.advance(Seconds(4))
    figures = twin.services[S]
    counts = dict(zip(figures.bounds, figures.batches.tolist(), strict=False))
    assert (counts[5], counts[6]) == (before, figures.received - before)
    assert figures.items == 5 * before + 6 * counts[6]


def test_another_slo_counts_durations_anew() -> None:
    twin = playing(50, [pod("a")])
    twin.advance(Seconds(5))
    twin.declare([facts(slo=Seconds(0.017))])
    assert int(twin.instances.durations.sum()) == 0
    twin.advance(Seconds(10))
    assert 0.017 in twin.services[S].latencies
    assert int(twin.instances.durations.sum()) > 100


def test_gpus_are_as_busy_as_their_instances_together() -> None:
    twin = twin_of({name: TracedLoad(trace((0, 40))) for name in ("s", "t")})
    twin.declare([facts("s"), facts("t")])
    twin.stand([pod("a", "s", "fast", "0", "1"), pod("b", "t", "fast", "1")])
    percents = []
    for second in range(1, 61):
        twin.advance(Seconds(second))
        percents.append([twin.devices.percent["n0", gpu] for gpu in "01"])
    own, shared = np.mean(percents, axis=0)
    # 0.4 busy for each; on GPU 1 both, one after the other.
    assert own < 45 < shared < 80


def test_a_closed_twin_gets_no_more_queries_and_ends_what_it_has() -> None:
    twin = playing(90, [pod("a")])
    twin.advance(Seconds(5))
    received = twin.services[S].received
    twin.close()
    twin.advance(Seconds(10))
    assert (twin.services[S].received, twin.in_flight) == (received, 0)


def test_a_service_with_dispatch_is_played_under_its_own_policy() -> None:
    """An instance that is too slow for the SLO gets what waits under `fcfs`, and less under `hetserve`."""

    def served_by_slow(policy: str) -> int:
        twin = twin_of({"s": TracedLoad(trace((0, 60)))}, policy="fcfs")
        twin.declare([facts(times={"fast": 10, "slow": 150}, policy=policy)])
        twin.stand([pod("a"), pod("b", "s", "slow")])
        twin.advance(Seconds(20))
        return served(twin)["b"]

    assert served_by_slow("") == served_by_slow("fcfs") > 2 * served_by_slow("hetserve")
