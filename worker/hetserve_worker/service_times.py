"""How long a query takes on an instance type: what the simulator draws for it."""

from __future__ import annotations

import hashlib
import itertools
from functools import cache

import numpy as np

from hetserve.profiles import LatencyProfile, dense
from hetserve.simulation.workload import ServiceDraws
from hetserve_worker.oip import OipError


class ServiceTimes:
    """Service times of a profile, by the id of a query and its items. factor: on all of them.

    An id that is a decimal number k takes the draw of the simulator's query k with this seed, any other the draw of the
    query whose number is its hash: asked again, it takes as long. Queries without an id are numbered from 0 on.
    """

    def __init__(self, profile: LatencyProfile, seed: int, factor: float = 1.0) -> None:
        self._draws, self._factor, self._unnamed = ServiceDraws(seed), factor, itertools.count()
        self._latency = cache(lambda items: dense([profile], [items]))

    def seconds(self, query: str, items: int) -> float:
        """Raises OipError for more items than the profile serves."""
        latency = self._latency(max(items, 1))
        mean = float(latency.means[0, 0])
        if mean == np.inf:
            raise OipError(f"inputs: {items} items in the first dimension; must be as few as the profile serves")
        ratio = np.interp(self._draws.of(self._number(query)), latency.probabilities, latency.ratios[0, 0])
        return mean * float(ratio) * self._factor

    def _number(self, query: str) -> int:
        if not query:
            return next(self._unnamed)
        if query.isascii() and query.isdigit() and len(query) <= 18:
            return int(query)
        return int.from_bytes(hashlib.blake2b(query.encode(), digest_size=8).digest())
