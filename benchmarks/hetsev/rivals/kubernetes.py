"""Default Kubernetes, HetSev's baseline: an autoscaler per service, one instance a GPU, a random type, round robin.

What the paper leaves open is chosen in its favour: `setting` is the best that a sweep found, on seeds that no report
uses (`benchmarks.hetsev.parts.settings`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import fmean

from benchmarks.hetsev.policy import STEP, Controller, Decided, Seen, ServiceSeen
from benchmarks.hetsev.rivals.pods import ANY_TYPE, Choose, Deployments, WholeGpus, replicas
from benchmarks.hetsev.rivals.round_robin import round_robin
from benchmarks.hetsev.scene import Scene
from benchmarks.horizontal import WINDOW, Behavior, by_pods, by_value

from hetserve.dispatch import Policy


@dataclass(frozen=True, slots=True)
class Setting:
    """target: share of an instance's capacity. window: for scaling down [s].

    by_use: the metric is the share of time in which each instance is busy (as a GPU's exporter shows it), else the
    service's queries/s.
    """

    target: float = 0.7
    window: float = WINDOW
    by_use: bool = True


class Kubernetes:
    """types: of each service's instances, `ANY_TYPE`: whatever is drawn. choose: default: one instance a GPU."""

    interval = STEP

    def __init__(
        self,
        scene: Scene,
        setting: Setting = Setting(),
        *,
        types: Mapping[str, str] | None = None,
        name: str = "kubernetes",
        choose: Choose | None = None,
        dispatch: Policy | None = None,
    ) -> None:
        self.name, self.shares = name, choose is not None
        self.dispatch = dispatch or round_robin()
        self._scene, self._setting = scene, setting
        self._types = {model: ANY_TYPE if types is None else types[model] for model in scene.models}
        most = scene.most or len(scene.gpus) * (len(scene.models) if self.shares else 1)
        self._behaviors = {model: Behavior(setting.window, most) for model in scene.models}
        self._replicas = dict.fromkeys(scene.models, 0)
        self._deployments = Deployments(scene, choose or WholeGpus(scene, name))

    def decide(self, seen: Seen) -> Decided:
        wanted = {}
        for model, type_name in self._types.items():
            current = self._replicas[model]
            count = self._behaviors[model](seen.now, self._recommended(seen, seen.services[model]), current)
            self._replicas[model] = wanted[model, type_name] = count
        return self._deployments.follow(seen, wanted)

    def _recommended(self, seen: Seen, service: ServiceSeen) -> int:
        """By the last step; before the first, what whoever sets it up expects."""
        current, target = self._replicas[service.name], self._setting.target
        capacity = self._capacity(service.name)
        if not current or not service.sent:
            return current or math.ceil(service.expected / (target * capacity))
        if not self._setting.by_use:
            return by_value(service.sent[-1], target * capacity, current)
        there = replicas(seen, (service.name, ANY_TYPE))
        values = [one.busy for one in there if one.ready <= seen.now]
        unready = len(there) - len(values) + self._deployments.waiting(service.name)
        return by_pods(values, unready, target, current)

    def _capacity(self, model: str) -> float:
        """Queries/s of an instance, on the mean of the types that may be drawn."""
        types = [self._types[model]] if self._types[model] else list(self._scene.assumed.gpus)
        return fmean(self._scene.assumed.rate(model, name) for name in types)


def kubernetes(setting: Setting, scene: Scene) -> Controller:
    return Kubernetes(scene, setting)
