"""Many small services: one instance of each is rarely busy."""

from __future__ import annotations

import random
from typing import Final

from benchmarks.sharing.manifests import Asked, GpuKind, Model, manifests

from hetserve.api.manifests import Manifests

SERVICES: Final = 20
SLOS: Final = (5, 10, 20)
"""In service times alone."""
KIND: Final = "gpu"
_SLICE: Final = 0.002
RULE: Final = """Of each service: 5 to 15 % busy (uniform), 5 to 100 ms (logarithmic), cv 5 %, share 1, 1 GiB of 80,
98 %. *Ideal slices*: a neighbour adds just its time (factor 2 of each on each). *As on the H200*: of each pair 1.0 to
1.5 times the own time (uniform), and a slice of 2 ms."""


def small(number: int, slo: int, *, ideal: bool) -> Manifests:
    """The set of this number. slo: in service times. ideal: slices; else as on the H200."""
    rng = random.Random(f"small {number}")  # noqa: S311
    names = [f"m{k:02d}" for k in range(SERVICES)]
    times = {name: 0.005 * 20 ** rng.random() for name in names}
    busy = {name: rng.uniform(0.05, 0.15) for name in names}
    models = [
        Model(
            name,
            {KIND: {1: times[name]}},
            1024,
            1.0,
            {other: (1, 2.0 if ideal else _factor(rng, times[other])) for other in names if other != name},
            "TimeSlicing",
        )
        for name in names
    ]
    asked = [Asked(busy[name] / times[name], slo * times[name]) for name in names]
    return manifests(models, asked, [GpuKind(KIND, 81_920)])


def _factor(rng: random.Random, alone: float) -> float:
    """Of a neighbour on a service that takes so long alone."""
    return 1 + rng.uniform(1.0, 1.5) + _SLICE / alone
