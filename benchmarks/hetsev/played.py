"""What became of a workload under a controller: instances, queries, and the use of GPUs over time."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from benchmarks.hetsev.scene import Scene

from hetserve.dispatch.kernel import Flags, Floats


@dataclass(slots=True)
class Instance:
    """One instance; times in seconds, infinite: not yet. number: in the session; None: it never served."""

    id: int
    name: str
    service: str
    type: str
    gpu: str
    launched: float
    ready: float
    stopped: float = math.inf
    gone: float = math.inf
    number: int | None = None


@dataclass(frozen=True, slots=True)
class Queries:
    """By query, in the order of their ends; times in seconds. Those without an answer have nan for start and finish."""

    arrival: Floats
    start: Floats
    finish: Floats
    late: Flags

    @property
    def response(self) -> Floats:
        return self.finish - self.arrival

    def during(self, begin: float, end: float) -> Queries:
        """Those sent in [begin, end)."""
        sent = (self.arrival >= begin) & (self.arrival < end)
        return Queries(self.arrival[sent], self.start[sent], self.finish[sent], self.late[sent])

    @staticmethod
    def joined(parts: list[Queries]) -> Queries:
        names = ("arrival", "start", "finish", "late")
        return Queries(*(np.concatenate([getattr(part, name) for part in parts]) for name in names))


@dataclass(frozen=True, slots=True)
class Played:
    """queries: by model, all that were sent from warm-up to the end. used: seconds of GPU use by STEP, of all GPUs."""

    scene: Scene
    name: str
    shares: bool
    instances: tuple[Instance, ...]
    queries: Mapping[str, Queries]
    times: Floats
    used: Floats
