"""The controllers that are compared with ours, by name, and the settings among which a sweep chooses."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Any, Final

from benchmarks.hetsev.policy import Controller
from benchmarks.hetsev.rivals import exclusive, kubernetes, published
from benchmarks.hetsev.rivals.homogeneous import homogeneous
from benchmarks.hetsev.rivals.pods import ANY_TYPE
from benchmarks.hetsev.scene import Scene

from hetserve.dispatch import make_policy


@dataclass(frozen=True, slots=True)
class Rival:
    """settings: of one class; the first is the default. by_count: whether the best ones have the fewest GPU-hours,
    else the least money.
    """

    make: Callable[[Any, Scene], Controller]
    settings: tuple[Any, ...]
    by_count: bool = True


def _programs(by_count: bool) -> tuple[exclusive.Setting, ...]:
    grid = product((0.8, 0.7, 0.9, 0.95, 1.0), (4, 1))
    return tuple(exclusive.Setting(saturation, steps, by_count) for saturation, steps in grid)


_AUTOSCALERS: Final = tuple(
    kubernetes.Setting(target, window, by_use)
    for by_use, window, target in product((True, False), (300.0, 60.0), (0.7, 0.5, 0.6, 0.8, 0.9, 1.0))
)
_PUBLISHED: Final = tuple(
    published.Setting(patience, cool_down) for patience, cool_down in product((30.0, 15.0, 0.0), (120.0, 300.0))
)
RIVALS: Final[Mapping[str, Rival]] = {
    "kubernetes": Rival(kubernetes.kubernetes, _AUTOSCALERS),
    "hpa-v100": Rival(partial(homogeneous, "v100"), _AUTOSCALERS),
    "hpa-t4": Rival(partial(homogeneous, "t4"), _AUTOSCALERS),
    "ilp-exclusive": Rival(exclusive.ilp_exclusive, _programs(by_count=False), by_count=False),
    "ilp-exclusive-count": Rival(exclusive.ilp_exclusive, _programs(by_count=True)),
    "hetsev": Rival(published.hetsev, _PUBLISHED),
}


@dataclass(frozen=True, slots=True)
class _Changed:
    """Kubernetes on some types, with HetSev's sharing, or with one queue for each service."""

    name: str
    types: str = ANY_TYPE
    shares: bool = False
    queue: bool = False

    def __call__(self, setting: kubernetes.Setting, scene: Scene) -> Controller:
        return kubernetes.Kubernetes(
            scene,
            setting,
            types=dict.fromkeys(scene.models, self.types),
            name=self.name,
            choose=published.SharedGpus(scene) if self.shares else None,
            dispatch=make_policy("fcfs") if self.queue else None,
        )


VARIANTS: Final[Mapping[str, Rival]] = {
    changed.name: Rival(changed, _AUTOSCALERS)
    for changed in (
        _Changed("kubernetes-queue", queue=True),
        _Changed("kubernetes-t4", types="t4"),
        _Changed("kubernetes-shared", shares=True),
    )
}
"""The baseline with one thing of HetSev's, for ablation."""
