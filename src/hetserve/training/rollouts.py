"""Runs of a learned policy on the serving engine, as it is trained: what it saw and did, and what that was worth."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hetserve.dispatch.joining.fang_rl import recorded, recording
from hetserve.dispatch.joining.weights import PolicyWeights
from hetserve.serving.services import GpuInstance, Service
from hetserve.serving.session import Outcomes, Session
from hetserve.serving.variants import VariantSystem
from hetserve.simulation.clustered import ClientQueries
from hetserve.simulation.joined import time_utility
from hetserve.training.reinforce import Trajectory

_NAME = "trained"


@dataclass(frozen=True, slots=True, eq=False)
class TrainedFleet:
    """What a policy is trained for: a model's variants on types, and instances of each."""

    system: VariantSystem
    counts: Mapping[str, int]

    def instances(self, service: str) -> list[GpuInstance]:
        """Each alone on its GPU, in the order in which policies see them."""
        kinds = self.system.workers(self.counts).tolist()
        return [GpuInstance(service, self.system.types[kind], f"gpu {k}") for k, kind in enumerate(kinds)]

    @property
    def capacity(self) -> float:
        """Most queries/s by the most accurate variant of each type, at its best size."""
        tables = self.system.model(self.system.predicted).mean
        best = {
            name: float((np.arange(1, table.shape[1] + 1) / table[np.isfinite(table[:, 0])][-1]).max())
            for name, table in zip(self.system.types, tables, strict=True)
        }
        return sum(best[name] * number for name, number in self.counts.items())


def offer(session: Session, service: str, queries: ClientQueries, slo: float, draws: NDArray[np.float64]) -> range:
    """Queries of one item whose deadlines count from when clients sent them; their ids."""
    sizes = np.zeros(len(queries.arrival), np.int64)
    return session.arrive(service, queries.arrival, sizes, draws, slos=queries.sent + slo - queries.arrival)


def qualities(found: Outcomes, sent: NDArray[np.float64], system: VariantSystem) -> NDArray[np.float64]:
    """[query] Utility of the variant x time utility (Eq. 1). found: all answered. sent: by their clients [s]."""
    utilities = np.array([one.utility for one in system.variants])
    worth: NDArray[np.float64] = utilities[found.variant] * time_utility(found._replace(arrival=sent), system)
    return worth


def rollout(
    fleet: TrainedFleet,
    weights: PolicyWeights,
    queries: ClientQueries,
    service: NDArray[np.float64],
    draws: NDArray[np.float64],
) -> Trajectory:
    """One run on these queries, with a random choice of actions.

    service: [query] uniform draws of the service times. draws: [row] uniform draws of the actions. Raises ValueError
    for more decisions than rows.
    """
    session = Session([Service(_NAME, fleet.system, recording(weights, draws))])
    session.join_all(fleet.instances(_NAME))
    offer(session, _NAME, queries, fleet.system.slo, service)
    session.until()
    states, actions, times = recorded(weights, *session.scratch)
    found = session.outcome()
    order = np.argsort(found.start, kind="stable")
    worth = qualities(found, queries.sent, fleet.system)
    return Trajectory(states, actions, times, found.start[order], worth[order], float(found.finish.max()))
