"""Least cost anew at each look by an integer program over types and services, one instance a GPU (Melange, AIBrix).

Melange (Griggs and others, 2024) chooses counts of GPU types by an integer program over their profiled rates; AIBrix's
GPU optimizer solves it again as the load changes, and sets the replicas of a Deployment for each type. Here one program
has all services, so that they share out the GPUs that there are; Melange has one for each. What new instances replace
stops when they serve, or when another service waits for its GPU.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from benchmarks.hetsev.policy import STEP, Controller, Decided, Seen, ServiceSeen
from benchmarks.hetsev.rivals.pods import Deployment, Deployments, WholeGpus, replicas
from benchmarks.hetsev.scene import Scene

from hetserve.dispatch import make_policy
from hetserve.planning.highs import INFINITY, Model, solve

_SHORT: Final = 1_000.0
"""What a share of a service's load that nothing carries weighs against the dearest GPU."""


@dataclass(frozen=True, slots=True)
class Setting:
    """saturation: most share of the instances' rates that the load takes. steps: of the load, the highest counts.

    by_count: every GPU costs the same; else by the paper's prices.
    """

    saturation: float = 0.8
    steps: int = 4
    by_count: bool = False


class IlpExclusive:
    """See above."""

    interval = STEP
    shares = False

    def __init__(self, scene: Scene, setting: Setting = Setting(), name: str = "ilp-exclusive") -> None:
        self.name, self.dispatch = name, make_policy("fcfs")
        self._scene, self._setting = scene, setting
        self._deployments = Deployments(scene, WholeGpus(scene, name))
        self._counts: dict[tuple[float, ...], dict[Deployment, int]] = {}

    def decide(self, seen: Seen) -> Decided:
        loads = tuple(self._load(seen.services[model]) for model in self._scene.models)
        if loads not in self._counts:
            by_model = dict(zip(self._scene.models, loads, strict=True))
            self._counts[loads] = least_cost(self._scene, self._setting, by_model)
        return self._deployments.follow(seen, self._kept(seen, self._counts[loads]))

    def _load(self, service: ServiceSeen) -> float:
        """Queries/s to carry."""
        return max(service.sent[-self._setting.steps :], default=service.expected)

    def _kept(self, seen: Seen, wanted: Mapping[Deployment, int]) -> dict[Deployment, int]:
        """The counts, with what is still needed of the old ones."""
        have = {deployment: replicas(seen, deployment) for deployment in wanted}
        ready = {name: sum(one.ready <= seen.now for one in some) for name, some in have.items()}
        serves = {m: all(ready[name] >= n for name, n in wanted.items() if name[0] == m) for m, _ in wanted}
        claimed = self._claimed(seen, {name: count - len(have[name]) for name, count in wanted.items()})
        kept = dict(wanted)
        for (model, type_name), count in wanted.items():
            spare = len(have[model, type_name]) - count
            if spare > 0 and not serves[model]:
                given = min(spare, claimed[type_name])
                claimed[type_name] -= given
                kept[model, type_name] += spare - given
        fits = self._scene.most is None or sum(kept.values()) <= self._scene.most
        return kept if fits else dict(wanted)

    def _claimed(self, seen: Seen, missing: Mapping[Deployment, int]) -> dict[str, int]:
        """GPUs by type that new instances need beyond the idle ones."""
        claimed = {name: -sum(gpu.type == name and not seen.on(gpu.name) for gpu in seen.gpus) for _, name in missing}
        for (_, name), count in missing.items():
            claimed[name] += max(count, 0)
        return {name: max(count, 0) for name, count in claimed.items()}


def least_cost(scene: Scene, setting: Setting, loads: Mapping[str, float]) -> dict[Deployment, int]:
    """Counts of least cost that carry the loads [queries/s] on the scene's GPUs; where they do not, most of them."""
    model = Model(maximise=False)
    prices = {name: 1.0 if setting.by_count else scene.assumed.price(name) / 1e6 for name in scene.assumed.gpus}
    columns = {
        (service, name): model.column(price, integral=True, lower=0.0, upper=INFINITY)
        for service in loads
        for name, price in prices.items()
    }
    for service, load in loads.items():
        short = model.column(_SHORT * max(prices.values()), upper=1.0)
        of_service = {columns[service, name]: scene.assumed.rate(service, name) for name in prices}
        needed = load / setting.saturation
        model.row((*of_service, short), (*of_service.values(), needed), needed, INFINITY)
        model.row(of_service, [1.0] * len(of_service), 1.0, INFINITY)
    for name in prices:
        of_type = [columns[service, name] for service in loads]
        model.row(of_type, [1.0] * len(of_type), 0.0, sum(gpu.type == name for gpu in scene.gpus))
    if scene.most is not None:
        model.row(columns.values(), [1.0] * len(columns), 0.0, scene.most)
    solved = solve(model)
    if solved is None:
        raise ValueError(f"{len(loads)} services: must be at most as many as the scene's {len(scene.gpus)} GPUs")
    return {deployment: math.floor(solved.values[column] + 0.5) for deployment, column in columns.items()}


def ilp_exclusive(setting: Setting, scene: Scene) -> Controller:
    return IlpExclusive(scene, setting, "ilp-exclusive-count" if setting.by_count else "ilp-exclusive")
