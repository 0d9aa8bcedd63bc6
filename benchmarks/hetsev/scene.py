"""What is played: models, GPUs, a workload, and how many instances there may be."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from benchmarks.hetsev.assumptions import Assumptions
from benchmarks.hetsev.policy import STEP, GpuSeen


@dataclass(frozen=True, slots=True)
class Workload:
    """Rates of each model [queries/s], by STEP from `begin` on; measured are queries sent in [0, end).

    waits: whether clients wait for an answer before they send again, so that a rate is what they send where nothing
    waits; else queries come as a Poisson process. Times in seconds.
    """

    begin: float
    end: float
    rates: Mapping[str, tuple[float, ...]]
    waits: bool

    @property
    def step(self) -> float:
        return STEP

    def rate(self, model: str, now: float) -> float:
        """Queries/s at a time [s]; the first and the last rate hold beyond."""
        rates = self.rates[model]
        return rates[min(max(int((now - self.begin) // STEP), 0), len(rates) - 1)]


@dataclass(frozen=True, slots=True)
class Scene:
    """most: instances of all services together; None: no limit. seed: of all that is drawn."""

    assumed: Assumptions
    workload: Workload
    most: int | None = None
    seed: int = 0

    @property
    def models(self) -> tuple[str, ...]:
        """The served ones."""
        return tuple(self.workload.rates)

    @property
    def gpus(self) -> tuple[GpuSeen, ...]:
        """By type and node."""
        return tuple(
            GpuSeen(f"{name}-{node}/{place}", f"{name}-{node}", name, gpu.memory_mib)
            for name, gpu in self.assumed.gpus.items()
            for node in range(gpu.nodes)
            for place in range(gpu.per_node)
        )
