"""REINFORCE for decisions at any times: pure functions of what was recorded (Fang et al., CIKM 2017, section 3.2).

The paper follows Sutton et al. (NIPS 1999) and discounts by decision. Decisions are more frequent the smaller the
batches, so what is earned is weighted by the time it lasts here, as in a semi-Markov decision process.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hetserve.dispatch.joining.weights import Network

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

HIDDEN: Final = 64
"""Neurons of the hidden layer (section 4.2)."""
LEAST_SPREAD: Final = 1e-9


class Trajectory(NamedTuple):
    """One run of a policy. states [decision, input], actions [decision], times [decision]: not decreasing, seconds.

    begun: [answer] when their batches began [s], not decreasing. qualities: [answer]. end: of the run [s], not before
    the last decision.
    """

    states: Floats
    actions: Integers
    times: Floats
    begun: Floats
    qualities: Floats
    end: float


def rewards(run: Trajectory, window: int) -> Floats:
    """[decision] Mean quality of the last `window` answers, without those of batches that begin later; 0: no answer."""
    last = np.searchsorted(run.begun, run.times, side="right")
    total = np.concatenate(([0.0], np.cumsum(run.qualities)))
    first = np.maximum(last - window, 0)
    mean: Floats = (total[last] - total[first]) / np.maximum(last - first, 1)
    return mean


def returns(earned: Floats, times: Floats, end: float, horizon: float) -> Floats:
    """[decision] What is earned from a decision on, by the time it lasts, at a discount of exp(-time / horizon).

    earned: [decision] until the next one. times: [decision] seconds. end: of the run [s]. horizon: seconds.
    """
    lasts = np.diff(times, append=end)
    kept, earns = np.exp(-lasts / horizon).tolist(), (earned * lasts).tolist()
    out, following = np.empty(len(times)), 0.0
    for k in range(len(times) - 1, -1, -1):
        following = earns[k] + kept[k] * following
        out[k] = following
    return out


def advantages(runs: Sequence[Trajectory], window: int, horizon: float, step: float = 0.5) -> Floats:
    """[decision of all runs] Returns above the mean of all runs at the same time, in standard deviations.

    runs: of one policy on the same queries. step: of the times at which the mean is taken [s].
    """
    # Below 1 each: what is lost, so that a run that is perfect to its end has no less to come near it.
    found = [returns(rewards(run, window) - 1, run.times, run.end, horizon) for run in runs]
    grid = np.arange(0.0, max(run.end for run in runs) + step, step)
    mean = np.mean([np.interp(grid, run.times, gained) for run, gained in zip(runs, found, strict=True)], axis=0)
    above = [gained - np.interp(run.times, grid, mean) for run, gained in zip(runs, found, strict=True)]
    each = np.concatenate(above)
    scaled: Floats = (each - each.mean()) / (each.std() + LEAST_SPREAD)
    return scaled


def fresh(inputs: int, actions: int, source: np.random.Generator, hidden: int = HIDDEN) -> Network:
    """A network that finds all actions about equally good."""
    inner = source.normal(0.0, inputs**-0.5, (inputs, hidden))
    return Network(inner, np.zeros(hidden), source.normal(0.0, 0.01, (hidden, actions)), np.zeros(actions))


def gradient(network: Network, states: Floats, actions: Integers, advantage: Floats, entropy: float) -> Network:
    """Ascent direction of the mean of log pi(action | state) x advantage + entropy x the entropy of pi(. | state).

    states: [decision, input]; actions, advantage: [decision]. entropy: weight of exploring.
    """
    hidden = np.maximum(states @ network.inner + network.inner_bias, 0.0)
    scores = hidden @ network.outer + network.outer_bias
    scores -= scores.max(axis=1, keepdims=True)
    logs = scores - np.log(np.exp(scores).sum(axis=1, keepdims=True))
    chances = np.exp(logs)
    wanted = chances * -advantage[:, None]
    wanted[np.arange(len(actions)), actions] += advantage
    if entropy:
        wanted -= entropy * chances * (logs - (chances * logs).sum(axis=1, keepdims=True))
    wanted /= len(actions)
    inner = wanted @ network.outer.T
    inner[hidden <= 0] = 0
    return Network(states.T @ inner, inner.sum(axis=0), hidden.T @ wanted, wanted.sum(axis=0))


class Moments(NamedTuple):
    """What Adam (Kingma and Ba, ICLR 2015) remembers: running means of gradients and of their squares."""

    mean: Network
    square: Network
    steps: int

    @classmethod
    def none(cls, network: Network) -> Moments:
        zeros = Network._make(np.zeros_like(weights) for weights in network)
        return cls(zeros, zeros, 0)


def ascended(network: Network, moments: Moments, uphill: Network, rate: float) -> tuple[Network, Moments]:
    """One step of Adam up the gradient; rate: the step's length."""
    steps = moments.steps + 1
    mean = [0.9 * old + 0.1 * new for old, new in zip(moments.mean, uphill, strict=True)]
    square = [0.999 * old + 0.001 * new**2 for old, new in zip(moments.square, uphill, strict=True)]
    length = rate / (1 - 0.9**steps)
    moved = [
        weights + length * m / (np.sqrt(s / (1 - 0.999**steps)) + 1e-8)
        for weights, m, s in zip(network, mean, square, strict=True)
    ]
    return Network._make(moved), Moments(Network._make(mean), Network._make(square), steps)
