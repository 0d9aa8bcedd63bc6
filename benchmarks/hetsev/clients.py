"""Who sends the queries of a workload: clients that wait for their answers, or a Poisson process."""

from __future__ import annotations

import math
from typing import Final

import numpy as np
from benchmarks.hetsev.policy import STEP
from benchmarks.hetsev.scene import Scene

from hetserve.dispatch.kernel import Floats, Integers
from hetserve.serving.session import Session

_AHEAD: Final = 1.5 * STEP
"""Seconds for which a client that stays has queries to send, or is given so many more."""
NOBODY: Final = -1


class Senders:
    """Plans queries of all services a STEP ahead.

    A client thinks before it sends its next query: exponentially, so that it sends one in each cycle of the assumptions
    on the mean where nothing waits. So many clients are there that they send at the workload's rate then. Whoever is
    too many leaves when its planned queries are answered, within about a STEP.
    """

    def __init__(self, scene: Scene, session: Session) -> None:
        self._scene, self._session = scene, session
        self._draws = {
            model: np.random.default_rng([scene.seed, stream]) for stream, model in enumerate(sorted(scene.models))
        }
        self._clients = 0
        self.owner: Integers = np.zeros(0, np.int64)
        """[query] Number of its client; NOBODY: of none."""
        self._think: Floats = np.zeros(0)

    def plan(self, now: float) -> None:
        """Whatever is sent in the STEP that begins now [s of the session], at the rate of then."""
        for model in self._scene.models:
            rate = self._scene.workload.rate(model, now + self._scene.workload.begin)
            if self._scene.workload.waits:
                self._tend(model, round(rate * self._scene.assumed.cycle))
            else:
                self._send(model, rate, now)

    def kept(self, ids: Integers) -> None:
        """Notes that queries are numbered anew: only these are left, in this order."""
        self.owner, self._think = self.owner[ids], self._think[ids]

    def _send(self, model: str, rate: float, now: float) -> None:
        rng = self._draws[model]
        times = now + STEP * np.sort(rng.random(rng.poisson(rate * STEP)))
        self._session.arrive(model, times, np.zeros(len(times), np.int64), rng.random(len(times)))
        self._note(np.full(len(times), NOBODY), np.zeros(len(times)))

    def _tend(self, model: str, wanted: int) -> None:
        """Makes it so many clients, and gives those that stay enough to send."""
        outcome = self._session.outcome()
        mine = (self.owner != NOBODY) & (outcome.service == self._scene.models.index(model))
        here, last = np.unique(self.owner[mine][::-1], return_index=True)
        last = np.flatnonzero(mine)[::-1][last]
        unsent = mine & np.isnan(outcome.arrival)
        left = np.bincount(self.owner[unsent], self._think[unsent], minlength=self._clients)[here]
        leaving = np.zeros(len(here), np.bool_)
        leaving[np.argsort(left, kind="stable")[: max(len(here) - wanted, 0)]] = True
        goes_on = ~leaving & (left < _AHEAD)
        self._attend(model, here[goes_on], last[goes_on])
        new = max(wanted - len(here), 0)
        self._attend(model, np.arange(self._clients, self._clients + new), None)
        self._clients += new

    def _attend(self, model: str, clients: Integers, after: Integers | None) -> None:
        if not len(clients):
            return
        rng, think = self._draws[model], self._mean_think(model)
        turns = math.ceil(_AHEAD / think)
        thinks = rng.exponential(think, (len(clients), turns))
        self._session.attend(model, thinks, np.zeros(thinks.shape, np.int64), rng.random(thinks.shape), after)
        self._note(np.repeat(clients, turns), thinks.ravel())

    def _mean_think(self, model: str) -> float:
        assumed = self._scene.assumed
        return assumed.cycle - min(assumed.models[model].latency.values())

    def _note(self, owners: Integers, thinks: Floats) -> None:
        self.owner = np.concatenate((self.owner, owners))
        self._think = np.concatenate((self._think, thinks))
