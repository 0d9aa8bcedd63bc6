"""Arrivals that the orders of waiting are compared on: tenants that burst, that do not, and what they wait for."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from typing import Final

from benchmarks.placement.simulated.contention import Pod, Tenant


@dataclass(frozen=True, slots=True)
class ArrivalTrace:
    """Tenants on `testbeds` testbeds; a bind takes `bind_seconds` of the scheduler."""

    name: str
    tenants: tuple[Tenant, ...]
    testbeds: int = 1
    bind_seconds: float = 0.0

    def pods(self, seed: int) -> list[Pod]:
        """The pods in their order of arrival; lives are drawn by `seed`."""
        rng = random.Random(seed)  # noqa: S311
        pods = [pod for tenant in self.tenants for pod in tenant.arrivals(rng)]
        return sorted(pods, key=lambda pod: (pod.arrives, pod.request.uid))


_BURST: Final = ArrivalTrace(
    "a burst",
    (
        Tenant("burst", 3072, models=20, pods=600, start=60.0, end=70.0),
        Tenant("steady", 8192, models=8, pods=160, start=0.0, end=480.0),
        Tenant("large", 15360, models=8, pods=40, start=0.0, end=480.0),
    ),
)


def _slower(trace: ArrivalTrace, name: str, times: float) -> ArrivalTrace:
    """The same work, arrivals and lives stretched."""
    tenants = (
        replace(tenant, start=tenant.start * times, end=tenant.end * times, lasts=tenant.lasts * times)
        for tenant in trace.tenants
    )
    return replace(trace, name=name, tenants=tuple(tenants))


TRACES: Final = (
    _BURST,
    _slower(_BURST, "a burst, lives of 10 min", 10.0),
    ArrivalTrace(
        "no burst, 10 % too much work",
        (
            Tenant("small", 3072, models=20, pods=560, start=0.0, end=600.0),
            Tenant("steady", 8192, models=8, pods=190, start=0.0, end=600.0),
            Tenant("large", 15360, models=8, pods=50, start=0.0, end=600.0),
        ),
    ),
    ArrivalTrace(
        "three bursts",
        (
            Tenant("burst-small", 3072, models=10, pods=300, start=60.0, end=70.0),
            Tenant("burst-middle", 8192, models=6, pods=100, start=120.0, end=130.0),
            Tenant("burst-large", 15360, models=6, pods=40, start=30.0, end=40.0),
            Tenant("steady", 6144, models=8, pods=120, start=0.0, end=480.0),
        ),
    ),
    ArrivalTrace(
        "a burst of large pods",
        (
            Tenant("burst", 15360, models=16, pods=80, start=60.0, end=70.0),
            Tenant("small", 3072, models=20, pods=300, start=0.0, end=480.0),
            Tenant("middle", 8192, models=8, pods=80, start=0.0, end=480.0),
        ),
    ),
    ArrivalTrace(
        "a burst, all pods of one size",
        (
            Tenant("burst", 4096, models=10, pods=400, start=60.0, end=70.0),
            Tenant("steady", 4096, models=10, pods=200, start=0.0, end=480.0),
            Tenant("rare", 4096, models=10, pods=100, start=0.0, end=480.0),
        ),
    ),
    ArrivalTrace(
        "a burst, room for all",
        (
            Tenant("burst", 1024, models=2, pods=2000, start=10.0, end=11.0, lasts=2.0),
            Tenant("steady", 8192, models=1, pods=80, start=0.0, end=40.0, lasts=2.0),
            Tenant("rare", 15360, models=1, pods=20, start=0.0, end=40.0, lasts=2.0),
        ),
        testbeds=8,
        bind_seconds=0.01,
    ),
    ArrivalTrace(
        "pods that fit nowhere",
        (
            Tenant("burst", 40000, models=4, pods=60, start=60.0, end=70.0),
            Tenant("steady", 8192, models=8, pods=120, start=0.0, end=480.0),
            Tenant("small", 3072, models=12, pods=240, start=0.0, end=480.0),
        ),
    ),
)
