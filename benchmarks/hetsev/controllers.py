"""Ours among the controllers that are compared, by name: as a user would have it, and with one thing less."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from benchmarks.hetsev.operated.controller import Hetserve
from benchmarks.hetsev.operated.manifests import Wishes
from benchmarks.hetsev.policy import Controller
from benchmarks.hetsev.rivals.round_robin import round_robin
from benchmarks.hetsev.scene import Scene

from hetserve.placement.pods.requests import policy_name

REACTING: Final = {
    "scaleUp": {"stabilizationWindow": "0s", "lookAhead": "None"},
    "scaleDown": {"stabilizationWindow": "0s"},
}
"""spec.scaling that follows each measured load at once."""
_WISHES: Final = {
    "hetserve": Wishes(),
    "hetserve-count": Wishes(price="Count"),
    "hetserve-exclusive": Wishes(price="Count", sharing="Exclusive"),
    "hetserve-t4": Wishes(price="Count", types=("t4",)),
    "hetserve-v100": Wishes(price="Count", types=("v100",)),
    **{f"hetserve-{name}": Wishes(price="Count", placement=policy_name(name)) for name in ("WorstFit", "BestFit")},
    "hetserve-reacting": Wishes(price="Count", scaling=REACTING),
}


def _wished(name: str, scene: Scene) -> Controller:
    return Hetserve(scene, name, _WISHES[name])


def _in_turn(scene: Scene) -> Controller:
    controller = Hetserve(scene, "hetserve-round-robin", _WISHES["hetserve-count"])
    controller.dispatch = round_robin()
    return controller


CONTROLLERS: Final[Mapping[str, Callable[[Scene], Controller]]] = {
    **{name: partial(_wished, name) for name in _WISHES},
    "hetserve-round-robin": _in_turn,
}
