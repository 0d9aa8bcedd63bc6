"""What holds of every play of HetSev's scenes, whoever decides; and a controller that decides as a test says."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from benchmarks.hetsev.measures import figures
from benchmarks.hetsev.played import Played
from benchmarks.hetsev.policy import STEP, Decided, Seen

from hetserve.dispatch import make_policy


class Told:
    """Decides as a function says. looks: what it has seen."""

    name, shares, interval = "told", True, STEP
    dispatch = make_policy("fcfs")

    def __init__(self, decides: Callable[[Seen], Decided]) -> None:
        self.decides = decides
        self.looks: list[Seen] = []

    def decide(self, seen: Seen) -> Decided:
        self.looks.append(seen)
        return self.decides(seen)


def check(played: Played) -> None:
    """Raises AssertionError."""
    _check_queries(played)
    launch = played.scene.assumed.launch
    assert all(one.ready == one.launched + launch for one in played.instances)
    assert all(one.launched <= one.stopped <= one.gone or one.stopped == math.inf for one in played.instances)
    for at in {one.launched for one in played.instances}:
        _check_memory(played, at)
    assert 0 <= figures(played).gpu_use <= 1


def _check_queries(played: Played) -> None:
    for model, queries in played.queries.items():
        served = ~np.isnan(queries.finish)
        assert (queries.start[served] >= queries.arrival[served]).all()
        assert (queries.finish[served] > queries.start[served]).all()
        assert queries.late[~served].all(), "what has no answer is late"
        beyond = queries.response[served] - played.scene.assumed.models[model].slo
        clear = np.abs(beyond) > 1e-9
        assert np.array_equal(queries.late[served][clear], beyond[clear] > 0)


def _check_memory(played: Played, at: float) -> None:
    for gpu in played.scene.gpus:
        here = [one for one in played.instances if one.gpu == gpu.name and one.launched <= at < one.gone]
        assert sum(played.scene.assumed.models[one.service].memory_mib for one in here) <= gpu.memory_mib
