from __future__ import annotations

import csv
import math
from collections.abc import Iterable, Iterator

import numpy as np
import pytest

from hetserve.base.units import Seconds
from hetserve.demand import kairos_mixture
from hetserve.profiles import LearnedProfile, Learner, Spread, TableProfile
from testing.data import reference_data


def learnt(samples: Iterable[tuple[int, float]], learner: Learner | None = None) -> LearnedProfile:
    learner = learner or Learner()
    for batch, seconds in samples:
        learner = learner.observe(batch, seconds)
    profile = learner.profile()
    assert profile is not None
    return profile


def bent(batch: int) -> float:
    """Latencies that no line meets and that are not monotone."""
    return 0.010 + 0.001 * batch + (0.004 if batch % 20 == 10 else 0.0)


def test_before_the_first_observation_nothing_is_known() -> None:
    assert Learner().profile() is None


def test_one_batch_gives_a_constant_and_two_a_line() -> None:
    assert learnt([(10, 0.02)]).mean(500) == pytest.approx(0.02)
    assert learnt([(7, 213.0)]).mean(1) == pytest.approx(213.0), "rounding makes a slope of equal batches"
    assert learnt([(10, 0.02), (20, 0.03)]).mean(100) == pytest.approx(0.11)


def test_a_line_until_enough_batches_are_settled_then_a_table() -> None:
    seen = [(batch, bent(batch)) for batch in range(10, 100, 10) for _ in range(3)]
    before = learnt(seen)
    assert before.table is None
    assert before.mean(40) == pytest.approx(before.line.at(40))
    assert before.mean(40) != pytest.approx(bent(40), rel=0.02)
    after = learnt([*seen, *[(100, bent(100))] * 3])
    assert after.table is not None
    assert [after.mean(b) for b in range(10, 101, 10)] == pytest.approx([bent(b) for b in range(10, 101, 10)])


def test_beyond_the_table_the_slope_of_the_line_goes_on() -> None:
    profile = learnt((batch, 0.010 + 0.001 * batch) for batch in range(10, 110, 10) for _ in range(3))
    assert profile.mean(200) == pytest.approx(0.210)
    assert profile.mean(1) == pytest.approx(0.011)


def test_below_the_table_a_steep_line_leaves_half_of_the_shortest_latency() -> None:
    profile = learnt((batch, 0.001 * batch - 0.080) for batch in range(100, 200, 10) for _ in range(3))
    assert profile.mean(1) == pytest.approx(0.010)


def test_a_largest_batch_ends_what_is_known() -> None:
    profile = learnt([(10, 0.02), (20, 0.03)], Learner(max_batch=20))
    assert profile.mean(20) is not None
    assert (profile.mean(21), profile.spread(21), profile.quantile(21, 99)) == (None, None, None)


def test_observing_changes_no_learner_that_somebody_holds() -> None:
    first = Learner().observe(10, 0.02)
    second = first.observe(10, 0.04)
    assert first.samples == {10: (0.02,)}
    assert second.samples == {10: (0.02, 0.04)}
    assert learnt([(1, 0.1), (2, 0.2)]) == learnt([(1, 0.1), (2, 0.2)])


def test_a_lasting_change_is_learnt_after_half_a_window() -> None:
    learner = Learner(window=16)
    seen = [(batch, 0.001 * batch) for batch in range(10, 110, 10) for _ in range(16)]
    slower = [(batch, 0.002 * batch) for batch in range(10, 110, 10) for _ in range(9)]
    assert learnt([*seen, *slower], learner).mean(50) == pytest.approx(0.100)


@pytest.mark.parametrize(
    ("batch", "seconds", "why"),
    [
        (0, 0.1, "batch 0"),
        (5, 0.0, "latency 0.0 s of batch 5"),
        (5, -1.0, "latency -1.0 s"),
        (5, math.nan, "latency nan s"),
        (5, math.inf, "latency inf s"),
    ],
)
def test_an_impossible_observation_is_refused(batch: int, seconds: float, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        Learner().observe(batch, seconds)


def test_settings_that_cannot_work_are_refused() -> None:
    with pytest.raises(ValueError, match="table_after 1: must be at least 2"):
        Learner(table_after=1)
    with pytest.raises(ValueError, match="window 2: must be at least 3"):
        Learner(window=2)


def test_the_spread_is_that_of_the_service_not_of_the_batches() -> None:
    rng, truth = np.random.default_rng(7), Spread.of_variation(0.2)
    profile = learnt((b, bent(b) * truth.ratio(rng.random())) for b in range(10, 310, 10) for _ in range(40))
    for percentile in (5, 50, 90, 99):
        assert profile.quantile(100, percentile) == pytest.approx(bent(100) * truth.ratio(percentile / 100), rel=0.08)


def test_a_table_of_few_observations_each_does_not_belittle_the_spread() -> None:
    rng, truth = np.random.default_rng(7), Spread.of_variation(0.2)
    profile = learnt((b, bent(b) * truth.ratio(rng.random())) for b in range(10, 5010, 10) for _ in range(3))
    spread = profile.spread(100)
    assert profile.table is not None
    assert spread is not None
    assert spread.ratio(0.95) - spread.ratio(0.05) == pytest.approx(truth.ratio(0.95) - truth.ratio(0.05), rel=0.07)


def test_few_observations_give_a_spread_from_their_deviation() -> None:
    profile = learnt([(10, 0.010), (10, 0.011), (10, 0.012)])
    sigma = 1.4826 * 0.001 / 0.011
    assert profile.quantile(10, 99) == pytest.approx(0.011 * math.exp(2.326 * sigma), rel=0.02)


def measured() -> Iterator[tuple[str, TableProfile]]:
    """Every model x type of the public measurements, means and spread."""
    quantiles = (("min_ms", 0.0), ("p50_ms", 0.5), ("p90_ms", 0.9), ("p99_ms", 0.99), ("max_ms", 1.0))
    with reference_data("kairos/latency_spread.csv").open(encoding="utf-8") as file:
        spreads = {
            (r["model"], r["instance"], int(r["batch"])): Spread.of_quantiles(
                {p: float(r[column]) / float(r["mean_ms"]) for column, p in quantiles}
            )
            for r in csv.DictReader(file)
        }
    means: dict[tuple[str, str], dict[int, Seconds]] = {}
    with reference_data("kairos/latency.csv").open(encoding="utf-8") as file:
        for r in csv.DictReader(file):
            own = means.setdefault((r["model"], r["instance"]), {})
            own[int(r["batch"])] = Seconds(float(r["latency_ms"]) / 1e3)
    for pair, own in means.items():
        known = tuple(spreads.get((*pair, batch)) for batch in own)
        yield " on ".join(pair), TableProfile(tuple(own), tuple(own.values()), known)


@pytest.mark.data
@pytest.mark.parametrize("wild", [0.0, 0.03], ids=["clean", "3 % of the latencies wild"])
@pytest.mark.parametrize(
    # Mean relative error over the queries of the mix: the median pair, the worst pair.
    ("queries", "typical", "worst"),
    [(30, 0.03, 0.20), (300, 0.015, 0.08), pytest.param(3000, 0.008, 0.05, marks=pytest.mark.deep)],
)
def test_error_against_the_measurements_after_so_many_queries(
    queries: int, typical: float, worst: float, wild: float
) -> None:
    mix, errors = kairos_mixture(), dict[str, float]()
    for name, truth in measured():
        rng = np.random.default_rng([queries, len(errors)])
        seen = []
        for batch in map(int, rng.choice(mix.batches, p=mix.shares, size=queries)):
            mean, spread = truth.mean(batch), truth.spread(batch)
            assert mean is not None
            assert spread is not None
            latency = mean * spread.ratio(rng.random()) / spread.mean
            seen.append((batch, latency * rng.uniform(3, 300) if rng.random() < wild else latency))
        profile = learnt(seen)
        parts = zip(mix.batches, mix.shares, strict=True)
        errors[name] = math.fsum(f * abs(profile.mean(b) / truth.mean(b) - 1) for b, f in parts)  # type: ignore[operator]
    assert sorted(errors.values())[len(errors) // 2] < typical, errors
    assert max(errors.values()) < worst, errors
