"""REINFORCE as pure functions: each beside its definition, written out."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hetserve.dispatch.joining.weights import Network
from hetserve.training.reinforce import Moments, Trajectory, advantages, ascended, fresh, gradient, returns, rewards

SPANS = st.lists(st.floats(0, 3), min_size=1, max_size=8)


def _run(times: list[float], begun: list[float], qualities: list[float], end: float) -> Trajectory:
    decisions = len(times)
    return Trajectory(
        np.zeros((decisions, 1)),
        np.zeros(decisions, np.int64),
        np.array(times),
        np.array(begun),
        np.array(qualities),
        end,
    )


@given(SPANS, SPANS, st.integers(1, 4), st.data())
def test_a_reward_is_the_mean_of_the_last_answers_that_had_begun(
    spans: list[float], gaps: list[float], window: int, data: st.DataObject
) -> None:
    times, begun = np.cumsum(spans).tolist(), np.cumsum(gaps).tolist()
    qualities = data.draw(st.lists(st.floats(0, 1), min_size=len(begun), max_size=len(begun)))
    found = rewards(_run(times, begun, qualities, times[-1]), window)
    for time, reward in zip(times, found.tolist(), strict=True):
        last = [quality for at, quality in zip(begun, qualities, strict=True) if at <= time][-window:]
        assert reward == pytest.approx(sum(last) / len(last) if last else 0.0)


@given(SPANS, st.floats(0.1, 50))
def test_a_return_weighs_what_is_earned_by_the_time_it_lasts(spans: list[float], horizon: float) -> None:
    times = np.cumsum(spans)
    end, earned = float(times[-1]) + 1.0, np.arange(1.0, len(times) + 1)
    found = returns(earned, times, end, horizon)
    until = [*times.tolist()[1:], end]
    for k, start in enumerate(times.tolist()):
        later = range(k, len(times))
        each = [earned[j] * (until[j] - times[j]) * math.exp(-(times[j] - start) / horizon) for j in later]
        assert found[k] == pytest.approx(sum(each))


def test_a_decision_asked_twice_at_one_instant_earns_nothing_more() -> None:
    once = returns(np.array([0.5]), np.array([1.0]), 3.0, 10.0)
    twice = returns(np.array([0.9, 0.5]), np.array([1.0, 1.0]), 3.0, 10.0)
    assert twice.tolist() == [once[0], once[0]]


def test_runs_that_are_alike_are_no_better_than_each_other() -> None:
    run = _run([0.0, 1.0, 2.0], [0.0, 1.0], [0.3, 0.8], 4.0)
    assert advantages([run, run, run], 10, 5.0).tolist() == [0.0] * 9


def test_the_better_of_two_runs_has_the_advantage_at_each_decision() -> None:
    good, bad = (_run([0.0, 1.0], [0.0, 1.0], [quality] * 2, 2.0) for quality in (1.0, 0.2))
    found = advantages([good, bad], 10, 5.0)
    assert (found[:2] > 0).all()
    assert (found[2:] < 0).all()


@given(st.integers(0, 2**32 - 1))
def test_the_gradient_is_what_small_changes_of_the_weights_do(seed: int) -> None:
    source = np.random.default_rng(seed)
    network = fresh(3, 4, source, hidden=5)
    network = network._replace(outer=source.normal(size=(5, 4)))
    states, actions = source.normal(size=(6, 3)), source.integers(0, 4, 6)
    advantage = source.normal(size=6)
    hidden = states @ network.inner + network.inner_bias
    if (np.abs(hidden) < 1e-4).any():
        return  # at a corner of the activation there is no derivative

    def worth(at: Network) -> float:
        scores = np.maximum(states @ at.inner + at.inner_bias, 0) @ at.outer + at.outer_bias
        logs = scores - np.log(np.exp(scores).sum(axis=1, keepdims=True))
        entropy = -(np.exp(logs) * logs).sum(axis=1)
        return float((logs[np.arange(6), actions] * advantage + 0.3 * entropy).mean())

    found = gradient(network, states, actions, advantage, 0.3)
    for name, array in network._asdict().items():
        place = tuple(source.integers(0, size) for size in array.shape)
        up, down = array.copy(), array.copy()
        up[place] += 1e-6
        down[place] -= 1e-6
        slope = (worth(network._replace(**{name: up})) - worth(network._replace(**{name: down}))) / 2e-6
        assert getattr(found, name)[place] == pytest.approx(slope, abs=1e-6)


def test_the_first_step_of_adam_is_the_rate_in_the_direction_of_each_slope() -> None:
    network = fresh(2, 2, np.random.default_rng(0), hidden=2)
    slope = Network._make(np.full_like(array, -3.0) for array in network)
    moved, moments = ascended(network, Moments.none(network), slope, 0.1)
    for old, new in zip(network, moved, strict=True):
        assert new - old == pytest.approx(np.full_like(old, -0.1))
    assert moments.steps == 1


def test_what_pays_is_learned() -> None:
    """Of two actions the second earns more where the state is 1, the first where it is -1."""
    source = np.random.default_rng(3)
    network = fresh(1, 2, source, hidden=8)
    moments = Moments.none(network)
    for _ in range(150):
        states = source.choice([-1.0, 1.0], size=(64, 1))
        scores = np.maximum(states @ network.inner + network.inner_bias, 0) @ network.outer + network.outer_bias
        chance = 1 / (1 + np.exp(scores[:, 0] - scores[:, 1]))
        actions = (source.random(64) < chance).astype(np.int64)
        earned = np.where((states[:, 0] > 0) == (actions == 1), 1.0, -1.0)
        network, moments = ascended(network, moments, gradient(network, states, actions, earned, 0.0), 0.02)
    at = np.array([[-1.0], [1.0]])
    scores = np.maximum(at @ network.inner + network.inner_bias, 0) @ network.outer + network.outer_bias
    assert scores.argmax(axis=1).tolist() == [0, 1]
