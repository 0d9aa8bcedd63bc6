"""Random sets of services for a few GPUs of two types, as manifests and nodes."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from benchmarks.reporting import Json
from benchmarks.sharing.manifests import Asked, GpuKind, Model, manifests, nodes

from hetserve.api.manifests import Manifests
from hetserve.objects.gpu_sharing import ONE
from hetserve.planning.tenancy import DEFAULT_MAX_SLOWDOWN

SIGMA: Final = DEFAULT_MAX_SLOWDOWN / ONE
FAST: Final = GpuKind("v100", 32_768, "6.112")
SLOW: Final = GpuKind("t4", 15_360, "0.36")
"""HetSev's prices per GiB, of whole GPUs."""
_BATCHES: Final = (1, 2, 4, 8, 16)
_MOST_ADDED: Final = 0.5

RULE: Final = """8 to 16 GPUs, two of them to half of them V100s, the others T4s, with HetSev's memory and prices; 3 to
5 services with a model each. Of a model: share .15 to 1 (logarithmic); greatest factor 1 + .5 x^2, on one other model,
on the others down to 1; one or two batches of 1, 2, 4, 8, 16, equally frequent, times growing with the root of the
batch; memory 1 to 6 GiB; 20 to 300 ms (logarithmic) at its largest batch on a T4, on a V100 1.5 to 3.5 x faster; SLO
95, 98 or 99 % within 4 to 12 such times x sigma. Loads: the set's shares of GPUs would fill .2 to 1 of all GPUs if
every instance were always busy, at service times x sigma averaged over the GPUs; a service's part of it is drawn, too
(.5 to 1.5 to one), and is at most the work of instances on 70 % of the GPUs. What is not said is uniform."""


@dataclass(frozen=True, slots=True)
class ServiceSet:
    """gpus: number by instance type."""

    number: int
    gpus: Mapping[str, int]
    manifests: Manifests

    @property
    def nodes(self) -> list[Json]:
        """A node for each GPU."""
        types = {one.metadata.name: one for one in self.manifests.types}
        return [node for kind, count in self.gpus.items() for node in nodes(types[kind], count)]


def drawn_set(number: int) -> ServiceSet:
    """The set of this number; equal numbers give equal sets."""
    rng = random.Random(f"sharing {number}")  # noqa: S311
    count = rng.randint(8, 16)
    fast = rng.randint(2, count // 2)
    gpus = {FAST.name: fast, SLOW.name: count - fast}
    names = [f"m{k}" for k in range(rng.randint(3, 5))]
    batches = {name: tuple(sorted(rng.sample(_BATCHES, rng.randint(1, 2)))) for name in names}
    models = [_model(rng, name, batches) for name in names]
    asked = [_asked(rng, model, load) for model, load in zip(models, _loads(rng, models, gpus), strict=True)]
    return ServiceSet(number, gpus, manifests(models, asked, (FAST, SLOW)))


def _model(rng: random.Random, name: str, batches: Mapping[str, Sequence[int]]) -> Model:
    share, greatest = round(0.15 ** rng.random(), 3), round(1 + _MOST_ADDED * rng.random() ** 2, 3)
    others = [other for other in batches if other != name]
    factors = {other: round(rng.uniform(1.0, greatest), 3) for other in others}
    factors[rng.choice(others)] = greatest
    largest = batches[name][-1]
    slow = 0.02 * 15 ** rng.random()
    times = {
        kind.name: {batch: at * math.sqrt(batch / largest) for batch in batches[name]}
        for kind, at in ((FAST, slow / rng.uniform(1.5, 3.5)), (SLOW, slow))
    }
    named = {other: (batches[other][-1], factor) for other, factor in factors.items()}
    return Model(name, times, 1024 * rng.randint(1, 6), share, named)


def _loads(rng: random.Random, models: Sequence[Model], gpus: Mapping[str, int]) -> list[float]:
    """Queries/s of each."""
    count = sum(gpus.values())
    filled = rng.uniform(0.2, 1.0) * count
    parts = [rng.uniform(0.5, 1.5) for _ in models]
    busy = [filled * part / sum(parts) / _taken(model) for model, part in zip(models, parts, strict=True)]
    return [
        min(instances, 0.7 * count) * sum(here / _mean(model, kind) for kind, here in gpus.items()) / count / SIGMA
        for model, instances in zip(models, busy, strict=True)
    ]


def _taken(model: Model) -> float:
    """The largest share of a GPU's time that an instance takes at sigma."""
    greatest = max(factor for _, factor in model.factors.values())
    return max(model.share / SIGMA, (greatest - 1) / (SIGMA - 1))


def _mean(model: Model, kind: str) -> float:
    return sum(model.times[kind].values()) / len(model.batches)


def _asked(rng: random.Random, model: Model, load: float) -> Asked:
    latency = rng.uniform(4.0, 12.0) * model.times[SLOW.name][model.batches[-1]] * SIGMA
    return Asked(load, latency, rng.choice(("95", "98", "99")))
