"""Plays of a scene by a controller with its settings, many at a time in processes."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from typing import Any, Final

import numpy as np
from benchmarks.hetsev import workloads
from benchmarks.hetsev.assumptions import Assumptions, given
from benchmarks.hetsev.cluster import play
from benchmarks.hetsev.controllers import CONTROLLERS
from benchmarks.hetsev.measures import courses, figures
from benchmarks.hetsev.policy import Controller
from benchmarks.hetsev.rivals.clairvoyant import bound
from benchmarks.hetsev.rivals.kinds import RIVALS, VARIANTS
from benchmarks.hetsev.scene import Scene
from benchmarks.reporting import Json

SCENES: Final[Mapping[str, Callable[..., Scene]]] = {
    "production": workloads.production,
    "waves": workloads.waves,
    "cost": workloads.cost,
}
BOUND: Final = "clairvoyant"
_PLAYED: Final[dict[Run, Result]] = {}


@dataclass(frozen=True, slots=True)
class World:
    """A scene by name. interference: times every c. t4: times the T4's speed. end: seconds; None: the paper's."""

    scene: str
    seed: int
    interference: float = 1.0
    t4: float = 1.0
    end: float | None = None

    def made(self) -> Scene:
        """The rates are those of the assumptions as given: what differs is what carries them."""
        length = {} if self.end is None else {"end": self.end}
        return replace(SCENES[self.scene](given(), self.seed, **length), assumed=self.assumed)

    @property
    def assumed(self) -> Assumptions:
        return given().scaled(self.interference, {"t4": 1 / self.t4})


@dataclass(frozen=True, slots=True)
class Run:
    """A play. setting: of a rival; None: its default. course: whether what goes on in each step is kept."""

    world: World
    controller: str
    setting: Any = None
    course: bool = False


@dataclass(frozen=True, slots=True)
class Result:
    """figures: as JSON, or those of the bound. course: by name, or none. seconds: that it took."""

    run: Run
    figures: Json
    course: Json = field(default_factory=dict)
    seconds: float = 0.0


def controller_of(name: str, setting: Any, scene: Scene) -> Controller:
    """setting: of one that has settings; None: its default. Raises ValueError for an unknown name."""
    rivals = {**RIVALS, **VARIANTS}
    if name in rivals:
        return rivals[name].make(setting or rivals[name].settings[0], scene)
    if name not in CONTROLLERS:
        known = ", ".join(sorted((*rivals, *CONTROLLERS, BOUND)))
        raise ValueError(f"controller {name}: must be one of {known}")
    return CONTROLLERS[name](scene)


def result_of(run: Run) -> Result:
    """Plays a run. Raises ValueError for an unknown controller."""
    begun, scene = time.process_time(), run.world.made()
    if run.controller == BOUND:
        return Result(run, asdict(bound(scene)), {}, time.process_time() - begun)
    played = play(scene, controller_of(run.controller, run.setting, scene))
    found = figures(played).as_json()
    found["late"] = 1 - min(found["by_model"].values())
    found["held"], found["whole"] = (figures(replace(played, shares=shares)).paper_by_model for shares in (True, False))
    course = _plain(asdict(courses(played))) if run.course else {}
    return Result(run, found, course, time.process_time() - begun)


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return [None if np.isnan(item) else item for item in value.tolist()] if isinstance(value, np.ndarray) else value


@cache
def _pool(jobs: int) -> ProcessPoolExecutor:
    """One for all parts: its processes remember plans."""
    return ProcessPoolExecutor(jobs)


def results_of(runs: Sequence[Run], jobs: int) -> list[Result]:
    """In the order of the runs, each of which is played once in a process's life; a line says how far it is."""
    new = [run for run in dict.fromkeys(runs) if run not in _PLAYED]
    for k, result in enumerate(_pool(jobs).map(result_of, new), 1):
        what = f"{result.run.world.scene} {result.run.world.seed} {result.run.controller}"
        print(f"  {k}/{len(new)} {what}: {result.seconds:.0f} s", flush=True)
        _PLAYED[result.run] = result
    return [_PLAYED[run] for run in runs]
