"""Tenants of one GPU, each a service with one instance, in the joint simulation; and four models as tenants."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from benchmarks.hetsev.assumptions import given

from hetserve.demand import BatchMix
from hetserve.dispatch import make_policy
from hetserve.serving.services import ComputeUse, GpuInstance, Service
from hetserve.serving.session import Session
from hetserve.serving.system import System
from hetserve.simulation.report import RunReport
from hetserve.simulation.run import ServiceLoad, play
from testing.dispatching import table

SEED: Final = 15
PERCENTILE: Final = 98.0
_NEVER_LATE: Final = 1e9
_VARIATION: Final = 0.05
_POLICY: Final = make_policy("fcfs")


@dataclass(frozen=True, slots=True)
class Tenant:
    """share: u. inflicts: {name: c}. batch: items. time: service time alone [s]. slo: seconds."""

    name: str
    share: float
    inflicts: Mapping[str, float] = field(default_factory=dict)
    otherwise: float = 0.0
    batch: int = 8
    time: float = 1.0
    slo: float = _NEVER_LATE

    def service(self, slowed: float = 1.0) -> Service:
        """slowed: factor on the service times."""
        system = System.of({"gpu": table([self.time * slowed], [self.batch], _VARIATION)}, (self.batch,), self.slo)
        return Service(self.name, system, _POLICY, {"gpu": ComputeUse(self.share, self.inflicts, self.otherwise)})


def stretches(tenants: Sequence[Tenant]) -> list[float]:
    """Stretch of each while all are busy: the greatest that a query of each meets when all start at once."""
    return [float(peak) for peak in _rush(tenants, 1).outcome().peak]


def throughput(tenants: Sequence[Tenant], queries: int) -> float:
    """Queries/s of all together, each with so many waiting from the start. Alike tenants end nearly together."""
    run = _rush(tenants, queries)
    return len(tenants) * queries / run.now


def _rush(tenants: Sequence[Tenant], queries: int) -> Session:
    run = Session([tenant.service() for tenant in tenants])
    draws = np.random.default_rng(SEED).random((len(tenants), queries))
    for tenant, drawn in zip(tenants, draws, strict=True):
        run.join(GpuInstance(tenant.name, "gpu", "shared"))
        run.arrive(tenant.name, np.zeros(queries), np.zeros(queries, np.int64), drawn)
    run.until()
    return run


def met(
    tenants: Sequence[Tenant], loads: Sequence[float], queries: int, seed: int = SEED, slowed: float = 1.0
) -> tuple[RunReport, ...]:
    """What each meets on their GPU. loads: of what each serves alone; queries: of the one that has the fewest."""
    rates = [load / tenant.time for tenant, load in zip(tenants, loads, strict=True)]
    offers = [
        ServiceLoad(tenant.service(slowed), rate, BatchMix.of([(tenant.batch, 1.0)]), PERCENTILE, stream)
        for stream, (tenant, rate) in enumerate(zip(tenants, rates, strict=True))
    ]
    seats = [GpuInstance(tenant.name, "gpu", "shared") for tenant in tenants]
    return play(offers, seats, queries / min(rates), seed)


_ASSUMED: Final = given()
MODELS: Final = tuple(_ASSUMED.models)
LARGEST: Final = {name: model.batch for name, model in _ASSUMED.models.items()}
SHARES: Final = {name: model.share for name, model in _ASSUMED.models.items()}


def harm(one: str, other: str) -> float:
    """c of two of the four models, at batches 8 and 8."""
    return _ASSUMED.coefficient(one, other)


def models(given: Sequence[tuple[str, int]], scale: float = 1.0) -> list[Tenant]:
    """Instances of the models at these batches. scale: of every c."""
    names = [f"{model}-{k}" for k, (model, _) in enumerate(given)]
    return [
        Tenant(
            name,
            SHARES[model],
            {other: scale * harm(model, its) for other, (its, _) in zip(names, given, strict=True)},
            batch=batch,
            time=_ASSUMED.models[model].latency["v100"],
        )
        for name, (model, batch) in zip(names, given, strict=True)
    ]
