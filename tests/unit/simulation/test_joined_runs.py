"""Runs in which queries are joined: what their answers are worth, worked out by hand and as laws."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hetserve.base.units import Seconds
from hetserve.demand import BatchMix
from hetserve.dispatch.joining import Variant, make_joining_policy
from hetserve.profiles import LatencyProfile, LinearProfile, Spread, TableProfile
from hetserve.serving.services import Service
from hetserve.serving.variants import VariantSystem
from hetserve.simulation.joined import JoinedReport, ceiling, noisy, simulate_joined
from hetserve.simulation.workload import Workload, draw_workload, record_workload
from testing.joining import policies, variant_systems

SINGLE = BatchMix.of([(1, 1.0)])


def times(*means: float) -> TableProfile:
    """Seconds at 1, 2, ... items together."""
    return TableProfile(tuple(range(1, len(means) + 1)), tuple(map(Seconds, means)))


TINY, FULL = Variant("tiny", 60.0, 0.5), Variant("full", 90.0, 1.0)


def scene(hard: float = 2.0, switch: float = 0.0) -> VariantSystem:
    """One type; tiny takes half the time of full, which takes 1 s alone and 1.5 s for two."""
    profiles: Mapping[str, Mapping[str, LatencyProfile]] = {"a": {"tiny": times(0.5, 0.75), "full": times(1.0, 1.5)}}
    return VariantSystem.of_variants(profiles, [TINY, FULL], 1.0, hard=hard, switches={"a": switch})


def run(system: VariantSystem, work: Workload, rate: float, policy: str = "max-batch", **more: float) -> JoinedReport:
    count = int(more.pop("count", 1))
    settings = {"variant": "full"} if policy == "clipper" else {}
    made = replace(make_joining_policy(policy, **settings), drops=bool(more.pop("drops", True)))
    service = Service("s", system, made)
    return simulate_joined(service, dict.fromkeys(system.types, count), work, rate, warm_up=int(more.pop("warm_up", 0)))


def at(*arrivals: float) -> tuple[Workload, float]:
    """A workload of single items at these seconds, and the rate at which it has them."""
    work = record_workload(arrivals, SINGLE, 1)
    return work, (len(arrivals) - 1) / (arrivals[-1] - arrivals[0])


def test_what_answers_are_worth_is_worked_out_by_hand() -> None:
    # At 0 one comes: full, until 1. At 0.1 and 0.2 two more; at 1 neither can be in time: both by tiny, until 1.75.
    report = run(scene(), *at(0.0, 0.1, 0.2))
    assert report.attainment == pytest.approx(1 / 3)
    answers = report.answers
    assert answers.accuracy == 90.0
    assert answers.shares == pytest.approx({"tiny": 2 / 3, "full": 1 / 3})
    assert (answers.joined, answers.switches) == (1.5, 1)
    worth = [1.0, 0.5 * (1 - 0.65), 0.5 * (1 - 0.55)]
    assert answers.utility == pytest.approx(np.mean(worth))
    assert answers.deviation == pytest.approx(np.std(worth))
    assert report.run.types[0].utilisation == pytest.approx(1.0), "two that are served together keep it busy once"


def test_after_the_hard_deadline_an_answer_is_worth_nothing_and_a_hopeless_query_is_dropped() -> None:
    report = run(scene(hard=1.0), *at(0.0, 0.1, 0.2))
    assert report.run.dropped == 2
    assert report.answers.utility == pytest.approx(1 / 3)
    assert report.answers.shares == {"tiny": 0.0, "full": 1.0}
    kept = run(scene(hard=1.0), *at(0.0, 0.1, 0.2), drops=0)
    assert (kept.run.dropped, kept.attainment) == (0, report.attainment)
    assert kept.answers.utility == pytest.approx(1 / 3), "late answers are worth no more than none"


def test_a_switch_takes_its_time_of_the_query() -> None:
    slow = run(scene(switch=0.2), *at(0.0, 0.1, 0.2))
    quick = run(scene(), *at(0.0, 0.1, 0.2))
    assert slow.run.worst_delay == pytest.approx(quick.run.worst_delay + 0.2)


def test_instances_that_each_keep_their_variant_switch_nothing() -> None:
    profiles: Mapping[str, Mapping[str, LatencyProfile]] = {"a": {"tiny": times(0.5)}, "b": {"full": times(0.5)}}
    answers = run(VariantSystem.of_variants(profiles, [TINY, FULL], 1.0), *at(0.0, 0.1, 0.6, 0.7)).answers
    assert answers.shares == {"tiny": 0.5, "full": 0.5}
    assert answers.switches == 0


def test_first_queries_that_do_not_count_are_in_no_figure() -> None:
    report = run(scene(), *at(0.0, 0.1, 0.2), warm_up=1)
    assert report.run.queries == 2
    assert report.answers.shares == {"tiny": 1.0, "full": 0.0}
    assert math.isnan(report.answers.accuracy)
    assert report.as_json()["meanAccuracy"] is None


def test_queries_of_more_items_than_can_be_served_are_refused() -> None:
    work = record_workload((0.0, 1.0), BatchMix.of([(3, 1.0)]), 1)
    with pytest.raises(ValueError, match="queries of 3 items: variants serve at most 2 together"):
        run(scene(), work, 1.0)


def test_beyond_the_ceiling_the_backlog_grows() -> None:
    most = ceiling(scene(), {"a": 3}, 1.0)
    assert most == pytest.approx(3 * 2 / 0.75)
    assert ceiling(scene(), {"a": 3}, 2.0) == pytest.approx(most / 2)
    work = draw_workload(SINGLE, 4000, 1)
    assert run(scene(), work, 1.1 * most, count=3, drops=0).run.unstable
    assert not run(scene(), work, 0.8 * most, count=3, drops=0).run.unstable


def test_noise_is_of_every_batch_and_keeps_the_means() -> None:
    line = LinearProfile(Seconds(1.0), Seconds(0.5), 8)
    for profile in (line, times(1.0, 1.5)):
        loud = noisy(profile, 0.1)
        assert loud.mean(2) == profile.mean(2)
        assert (loud.spread(2), loud.max_batch) == (Spread.of_variation(0.1), profile.max_batch)
    quiet = noisy(noisy(line, 0.3), 0.0)
    assert (quiet.quantile(2, 99), quiet.quantile(2, 1)) == pytest.approx((2.0, 2.0))


@pytest.mark.law
@given(system=variant_systems(), policy=st.sampled_from(policies()), rate=st.floats(0.5, 20.0), seed=st.integers(0, 9))
def test_accuracy_utility_and_shares_are_of_the_variants(
    system: VariantSystem, policy: object, rate: float, seed: int
) -> None:
    service = Service("s", system, policy)  # type: ignore[arg-type]
    report = simulate_joined(service, dict.fromkeys(system.types, 1), draw_workload(SINGLE, 60, seed), rate)
    answers, named = report.answers, {one.name: one for one in system.variants}
    served = report.run.queries - report.run.dropped - report.run.unfinished
    assert math.fsum(answers.shares.values()) == pytest.approx(1.0 if served else 0.0)
    accuracies = [named[name].accuracy for name, share in answers.shares.items() if share]
    if report.attainment > 0:
        assert min(accuracies) - 1e-9 <= answers.accuracy <= max(accuracies) + 1e-9
    assert report.attainment - 1e-9 <= answers.utility <= served / report.run.queries + 1e-9, "each has a utility of 1"
    if system.grace == 0:
        assert answers.utility == pytest.approx(report.attainment)
    if served:
        assert 1 <= answers.joined <= len(system.served.batches)
        assert answers.switches <= served - 1
    assert all(use.utilisation <= 1 + 1e-9 for use in report.run.types)
