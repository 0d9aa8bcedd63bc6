"""Training on the engine: what is recorded is what was done, one seed brings one policy, and it gets better."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from hetserve.dispatch.joining.fang_rl import by_weights, recorded, recording
from hetserve.serving.services import Service
from hetserve.serving.session import Session
from hetserve.simulation.clustered import ClientQueries, ClusteredArrivals
from hetserve.training.course import Progress, TrainingCourse, blank_weights, train
from hetserve.training.rollouts import TrainedFleet, offer, qualities, rollout
from testing.fang import FULL_AND_TINY, small_system
from testing.plain_fang import PlainServer, observed

FLEET = TrainedFleet(
    small_system({"p2": FULL_AND_TINY, "g2": {"full": (0.2, 0.25, 0.4), "tiny": (0.1, 0.12)}}), {"p2": 1, "g2": 2}
)
SHORT = TrainingCourse(updates=2, rollouts=2, shortest=(4.0, 4.0), window=20)


def _queries(seconds: int = 6, seed: int = 0) -> ClientQueries:
    return ClusteredArrivals().draw(20.0, seconds, np.random.default_rng(seed))


def test_each_batch_was_decided_when_it_began_and_ends_are_of_the_record() -> None:
    queries = _queries()
    source = np.random.default_rng(1)
    draws = source.random(4000)
    weights = blank_weights(FLEET, 0)
    run = rollout(FLEET, weights, queries, np.full(len(queries.sent), 0.5), draws)
    assert (np.diff(run.times) >= 0).all()
    wait = len(weights.network.outer_bias) - 1
    served = Counter(run.times[run.actions != wait].tolist())
    assert set(served) == set(run.begun.tolist())
    assert run.end >= run.times[-1]
    assert len(run.qualities) == len(queries.sent)


def test_actions_are_drawn_by_their_chances() -> None:
    """Blank weights find all actions about equally good: each is drawn about as often, by uniform draws."""
    queries = _queries(seconds=60)
    run = rollout(
        FLEET,
        blank_weights(FLEET, 0),
        queries,
        np.full(len(queries.sent), 0.5),
        np.random.default_rng(2).random(60_000),
    )
    shares = np.bincount(run.actions) / len(run.actions)
    assert shares == pytest.approx(np.full(len(shares), 1 / len(shares)), abs=0.03)


def test_the_state_that_is_recorded_is_what_the_plain_server_shows() -> None:
    """At the first decision one query waits and all are idle."""
    queries = ClientQueries(np.array([0.5]), np.array([0.6]))
    weights = blank_weights(FLEET, 0)
    run = rollout(FLEET, weights, queries, np.array([0.5]), np.random.default_rng(0).random(100))
    system = FLEET.system
    types = system.workers(FLEET.counts).tolist()
    server = PlainServer(system.model(system.predicted), types, [0.6], [1], [1.5], now=0.6, waiting=[0])
    server.free_at = [0.0] * len(types)
    assert run.states[0] == pytest.approx(observed(server, 0, weights))


def test_more_decisions_than_rows_are_an_error_with_both() -> None:
    queries = _queries()
    with pytest.raises(ValueError, match=r"\d+ decisions in 5 rows"):
        rollout(FLEET, blank_weights(FLEET, 0), queries, np.full(len(queries.sent), 0.5), np.full(5, 0.5))


def test_a_policy_that_is_recorded_and_always_draws_the_best_acts_as_without_a_record() -> None:
    weights = blank_weights(FLEET, 3)
    sharp = replace(weights, network=weights.network._replace(outer=weights.network.outer * 1e6))
    queries = _queries()
    outcomes = []
    for policy in (by_weights([sharp]), recording(sharp, np.full(20_000, 0.5))):
        session = Session([Service("it", FLEET.system, policy)])
        session.join_all(FLEET.instances("it"))
        offer(session, "it", queries, 1.0, np.full(len(queries.sent), 0.5))
        session.until(30.0)
        outcomes.append(session.outcome())
        floats, integers = session.scratch
    assert recorded(sharp, floats, integers)[1].size > 0
    for mine, other in zip(*outcomes, strict=True):
        np.testing.assert_array_equal(mine, other)


def test_an_answer_is_worth_kappa_times_the_time_that_is_left() -> None:
    queries = ClientQueries(np.array([0.0]), np.array([1.4]))
    session = Session([Service("it", FLEET.system, by_weights([]))])
    session.join_all(FLEET.instances("it"))
    offer(session, "it", queries, 1.0, np.array([0.5]))
    session.until()
    assert qualities(session.outcome(), queries.sent, FLEET.system) == pytest.approx([1 - 0.48])


def test_one_seed_brings_the_same_weights_and_another_others() -> None:
    first, again, other = (train(FLEET, seed, SHORT).as_json() for seed in (4, 4, 5))
    assert first == again
    assert first["network"] != other["network"]


def test_each_update_is_told() -> None:
    told: list[Progress] = []
    train(FLEET, 0, SHORT, told.append)
    assert [one.update for one in told] == [1, 2]
    assert all(0 <= one.quality <= 1 and one.rate > 0 and one.decisions > 0 for one in told)


def test_a_policy_gets_better() -> None:
    """At a load that small batches do not carry, chance serves most queries too late."""
    fleet = TrainedFleet(small_system({"p2": FULL_AND_TINY}), {"p2": 1})
    told: list[Progress] = []
    course = TrainingCourse(
        updates=60, rollouts=6, loads=(0.8, 0.8), shortest=(10.0, 10.0), window=30, surge=(0.0, 0.0), step=1e-2
    )
    train(fleet, 0, course, told.append)
    first, last = (np.mean([one.quality for one in part]) for part in (told[:10], told[-10:]))
    assert last > first + 0.1


def test_weights_bear_the_deadlines_that_they_were_trained_for() -> None:
    weights = blank_weights(FLEET, 0)
    assert (weights.slo, weights.hard) == (1.0, 2.0)


@pytest.mark.parametrize(
    ("loads", "named"),
    [
        ((1e-6, 0.8), "in a run of .* s, too few to learn from; the lower load must be at least"),
        ((0.8, 1e9), "more than 10 times what the most accurate variant serves; the higher load must be at most"),
    ],
)
def test_loads_of_too_few_or_too_many_queries_are_refused(loads: tuple[float, float], named: str) -> None:
    with pytest.raises(ValueError, match=named):
        train(FLEET, 0, replace(SHORT, loads=loads))


@pytest.mark.parametrize(
    ("field", "value"),
    [("loads", (0.9, 0.8)), ("loads", (0.0, 0.8)), ("updates", 0), ("rollouts", 1), ("window", 0), ("horizon", 0.0)],
)
def test_a_setting_out_of_range_is_named_with_its_value(field: str, value: object) -> None:
    with pytest.raises(ValueError, match=f"{field} .*: must be"):
        TrainingCourse(**{field: value})  # type: ignore[arg-type]
