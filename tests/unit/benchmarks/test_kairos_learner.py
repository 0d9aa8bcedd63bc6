"""A dispatcher that learns latencies while it serves, from profiles that are wrong."""

from __future__ import annotations

import numpy as np
import pytest
from benchmarks.kairos.evaluation.learner import SETTLED, Samples, late_share, learnt
from benchmarks.kairos.paper.setting import Case, counts_of, system

from hetserve.dispatch import LatencyModel, make_policy
from hetserve.simulation.run import simulate
from hetserve.simulation.workload import draw_workload
from testing.data import reference_data

BATCHES = (10, 20, 30, 40)
GIVEN = LatencyModel.of(("a", "b"), BATCHES, np.array([[9.0, 9.0, 9.0, 9.0], [7.0, 7.0, 7.0, np.inf]]), 20.0)
RM2_TRUE_RATE = 127.3  # queries/s under Kairos's matching, docs/results/kairos.md


def samples(*rows: tuple[int, int, float]) -> Samples:
    kinds, sizes, seconds = zip(*rows, strict=True)
    return Samples(np.array(kinds), np.array(sizes), np.array(seconds))


def test_batches_never_seen_lie_on_the_line_through_those_seen() -> None:
    found = learnt(GIVEN, samples((0, 0, 1.5), (0, 2, 2.5)))
    assert found.arrays.mean[0] == pytest.approx([1.5, 2.0, 2.5, 3.0])


def test_a_batch_seen_often_has_the_mean_of_its_own_samples() -> None:
    rows = [(0, 1, 5.0)] * SETTLED + [(0, 0, 1.0)] * SETTLED + [(0, 2, 3.0)] * (SETTLED - 1)
    means = learnt(GIVEN, samples(*rows)).arrays.mean[0]
    assert means[:2] == pytest.approx([1.0, 5.0])
    assert means[2] != pytest.approx(3.0)


def test_a_type_nobody_has_seen_keeps_its_profile() -> None:
    found = learnt(GIVEN, samples((0, 0, 1.5), (0, 2, 2.5)))
    assert found.arrays.mean[1].tolist() == GIVEN.arrays.mean[1].tolist()


def test_a_batch_that_a_type_cannot_serve_stays_so() -> None:
    found = learnt(GIVEN, samples((1, 0, 1.5), (1, 2, 2.5)))
    assert found.arrays.mean[1, 3] == found.arrays.safe[1, 3] == np.inf


def test_no_prediction_is_negative() -> None:
    found = learnt(GIVEN, samples((0, 2, 1.0), (0, 3, 9.0)))
    assert (found.arrays.mean[0] > 0).all()


def test_safe_times_lie_above_the_spread_of_the_samples() -> None:
    rows = [(0, size, base * ratio) for size, base in ((0, 1.0), (1, 2.0)) for ratio in [0.9] * 10 + [1.1] * 10]
    found = learnt(GIVEN, samples(*rows)).arrays
    assert found.safe[0] == pytest.approx(found.mean[0] * 1.1)


def test_a_profile_30_percent_wrong_serves_as_the_true_one_after_2000_queries() -> None:
    reference_data("kairos/latency.csv")
    wrong, counts, rate = Case("RM2", wrong=0.3), dict(counts_of(1, 0, 13, 0)), 0.97 * RM2_TRUE_RATE
    work, policy = draw_workload(wrong.mix, 10_000, 11), make_policy("kairos")
    assert late_share(system(wrong), counts, policy, work, rate, after=2000, allowed=0.01) <= 0.01
    assert simulate(system(wrong), counts, policy, work, rate, warm_up=2000).violation_ratio > 0.01
