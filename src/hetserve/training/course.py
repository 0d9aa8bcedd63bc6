"""The course of a training: how often, on which queries, and how boldly the policy is tried and changed."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

import numpy as np

from hetserve.dispatch.joining.weights import Network, PolicyWeights
from hetserve.simulation.clustered import ClientQueries, ClusteredArrivals
from hetserve.training.reinforce import Moments, Trajectory, advantages, ascended, fresh, gradient
from hetserve.training.rollouts import TrainedFleet, rollout

SIZES: Final = 7
"""Most sizes that a policy chooses from: powers of two."""
LOADS: Final = (0.72, 0.985)
"""Lowest and highest, in parts of the fleet's capacity."""
MOST_LOAD: Final = 10.0
"""Highest load that can be asked for, in parts of the fleet's capacity."""
FEWEST: Final = 40
"""Queries of a rollout on average, at least: one without any teaches nothing, and is as good as impossible then."""
_DECIMALS: Final = 6
_DECISIONS: Final = 40
"""Rows for the decisions of an instance in a second: smallest batches by the fastest variant, and waits, take fewer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingCourse:
    """Settings of a training.

    loads: lowest and highest, in parts of the fleet's capacity. updates: of the weights. rollouts: for each update, all
    on the same queries. window: answers in a reward, the paper's W. horizon: of the discount, in times that the fleet
    takes for a window. length: of a rollout in horizons, first and last; shortest: [s], first and last. surge: chance
    of a rush at the beginning, of the first update and of the last, else a policy would seldom see a backlog that it
    can recover from; rush: its most [s of the load]. step: of Adam, first; it falls to a fifth. entropy: first weight
    of exploring; it falls to 0.
    """

    loads: tuple[float, float] = LOADS
    updates: int = 600
    rollouts: int = 12
    window: int = 1000
    horizon: float = 1.5
    length: tuple[float, float] = (3.5, 7.0)
    shortest: tuple[float, float] = (40.0, 50.0)
    surge: tuple[float, float] = (0.6, 0.2)
    rush: float = 3.0
    step: float = 3e-3
    entropy: float = 0.01
    arrivals: ClusteredArrivals = field(default_factory=ClusteredArrivals)

    def __post_init__(self) -> None:
        low, high = self.loads
        for name, value, holds, rule in (
            ("loads", self.loads, 0 < low <= high < math.inf, "two numbers above 0, the lower first"),
            ("updates", self.updates, self.updates >= 1, "at least 1"),
            ("rollouts", self.rollouts, self.rollouts >= 2, "at least 2: each is judged by the others"),
            ("window", self.window, self.window >= 1, "at least 1 answer"),
            ("horizon", self.horizon, 0 < self.horizon < math.inf, "above 0"),
        ):
            if not holds:
                raise ValueError(f"{name} {value}: must be {rule}")


class Progress(NamedTuple):
    """After an update. rate: offered [queries/s]. quality: mean of all answers. decisions: a second."""

    update: int
    rate: float
    quality: float
    decisions: float


def blank_weights(fleet: TrainedFleet, seed: int) -> PolicyWeights:
    """Untrained ones. Variants from the most accurate on; sizes are powers of two."""
    variants = tuple(one.name for one in reversed(fleet.system.variants))
    largest = len(fleet.system.predicted.batches)
    sizes = tuple(1 << k for k in range(SIZES) if 1 << k <= largest)
    counts = {name: number for name, number in fleet.counts.items() if number}
    source = np.random.default_rng((seed, 0))
    network = fresh(PolicyWeights.inputs_of(counts), len(sizes) * len(variants) + 1, source)
    slo = fleet.system.slo
    return PolicyWeights(counts, variants, sizes, seed, network, slo, slo + fleet.system.grace)


def train(
    fleet: TrainedFleet,
    seed: int,
    course: TrainingCourse = TrainingCourse(),
    told: Callable[[Progress], None] = lambda _: None,
) -> PolicyWeights:
    """Weights of `fang-rl` for a fleet; the same for the same seed. told: hears of each update.

    Raises ValueError for a seed below 0, and for loads of which too few or too many queries come.
    """
    _check_loads(fleet, course)
    weights = blank_weights(fleet, seed)
    moments, source = Moments.none(weights.network), np.random.default_rng((seed, 1))
    for update in range(course.updates):
        done = update / course.updates
        rate = fleet.capacity * source.uniform(*course.loads)
        queries = _queries(rate, course, done, _seconds(fleet, course, done), source)
        runs = _runs(fleet, weights, queries, course, source)
        horizon = course.horizon * course.window / fleet.capacity
        uphill = gradient(
            weights.network,
            np.concatenate([run.states for run in runs]),
            np.concatenate([run.actions for run in runs]),
            advantages(runs, course.window, horizon),
            course.entropy * (1 - done),
        )
        network, moments = ascended(weights.network, moments, uphill, course.step * (1 - 0.8 * done))
        weights = replace(weights, network=network)
        told(_progress(update + 1, rate, runs))
    return replace(weights, network=Network._make(np.round(array, _DECIMALS) for array in weights.network))


def _check_loads(fleet: TrainedFleet, course: TrainingCourse) -> None:
    low, high = (load * fleet.capacity for load in course.loads)
    seconds = min(_seconds(fleet, course, done) for done in (0.0, 1.0))
    if low * seconds < FEWEST:
        raise ValueError(
            f"{low:.4g} queries/s are {low * seconds:.2g} in a run of {seconds} s, too few to learn from; "
            f"the lower load must be at least {math.ceil(100 * FEWEST / seconds) / 100:.2f}"
        )
    if course.loads[1] > MOST_LOAD:
        raise ValueError(
            f"{high:.4g} queries/s are more than {MOST_LOAD:g} times what the most accurate variant serves; "
            f"the higher load must be at most {math.floor(100 * MOST_LOAD * fleet.capacity) / 100:.2f}"
        )


def _seconds(fleet: TrainedFleet, course: TrainingCourse, done: float) -> int:
    """Length of rollouts: the first ones are shorter."""
    late = done >= 0.4
    horizon = course.horizon * course.window / fleet.capacity
    return math.ceil(max(course.length[late] * horizon, course.shortest[late]))


def _queries(
    rate: float, course: TrainingCourse, done: float, seconds: int, source: np.random.Generator
) -> ClientQueries:
    """Queries of one rollout; with some chance a rush comes with the first."""
    usual = course.arrivals.draw(rate, seconds, source)
    first, last = course.surge
    if source.random() >= first + (last - first) * done:
        return usual
    rush = course.arrivals.draw(max(rate * source.uniform(0, course.rush) / 2, 1.0), 2, source)
    sent, arrival = (np.concatenate(pair) for pair in zip(usual, rush, strict=True))
    order = np.argsort(arrival, kind="stable")
    return ClientQueries(sent[order], arrival[order])


def _runs(
    fleet: TrainedFleet,
    weights: PolicyWeights,
    queries: ClientQueries,
    course: TrainingCourse,
    source: np.random.Generator,
) -> list[Trajectory]:
    """Rollouts on the same queries and service times: they differ by their actions alone."""
    service = source.random(len(queries.arrival))
    seconds = queries.arrival[-1] + 10
    rows = int(_DECISIONS * seconds * sum(fleet.counts.values())) + 2 * len(service)
    return [rollout(fleet, weights, queries, service, source.random(rows)) for _ in range(course.rollouts)]


def _progress(update: int, rate: float, runs: list[Trajectory]) -> Progress:
    answers = np.concatenate([run.qualities for run in runs])
    decisions, seconds = sum(len(run.times) for run in runs), sum(run.end for run in runs)
    return Progress(update, rate, float(answers.mean()), decisions / seconds)
