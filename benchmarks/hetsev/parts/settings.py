"""The best settings of the other controllers, by a sweep for each section, on seeds of its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from statistics import fmean
from typing import Any, Final

from benchmarks.hetsev.results import KEPT
from benchmarks.hetsev.rivals.kinds import RIVALS
from benchmarks.hetsev.runs import SCENES, Result, Run, World, results_of
from benchmarks.hetsev.scale import Scale
from benchmarks.reporting import Json, table

TITLE: Final = "Settings of the other controllers"
ALLOWED: Final = 0.02
"""Share of late queries, of each service."""
_ENDS: Final = {"production": 3000.0}
"""Of sweeps, where the section's own time would take long [s]."""
_SECTIONS: Final = {"production": "6.1", "waves": "6.2", "cost": "6.3"}
_WORDS: Final = """Of the settings with at most 2 % late in every service, the one with the fewest GPU-hours
(`ilp-exclusive`: the least money); where none keeps that, the one with the fewest late. Means over {seeds} seed(s) that
nothing else uses, so that a setting can be good there by chance; of 6.1 the whole course is played in half the time.
*by_use*: the autoscaler's metric is the busy share of its
instances, else the service's queries/s. *target*, *saturation*: share of the capacity. *window*, *patience*,
*cool_down*: seconds. *steps*: of 15 s, of which the highest rate counts.
"""


def measure(scale: Scale) -> Json:
    runs = [
        Run(World(scene, seed, end=_ENDS.get(scene, scale.end)), name, setting)
        for scene in SCENES
        for name, rival in RIVALS.items()
        for setting in rival.settings
        for seed in scale.tuning
    ]
    results, best = results_of(runs, scale.jobs), dict[str, Json]()
    for scene in SCENES:
        best[scene] = {}
        for name in RIVALS:
            mine = [one for one in results if (one.run.world.scene, one.run.controller) == (scene, name)]
            if mine:
                best[scene][name] = _best(name, mine)
    return {"best": best, "seeds": len(scale.tuning)}


def _best(name: str, results: Sequence[Result]) -> Json:
    tried = [(s, [one.figures for one in results if one.run.setting == s]) for s in RIVALS[name].settings]
    cost = "all_gpu_hours" if RIVALS[name].by_count else "dollars"

    def key(entry: tuple[Any, list[Json]]) -> tuple[float, float]:
        late = fmean(one["late"] for one in entry[1])
        return max(late - ALLOWED, 0.0), fmean(one[cost] for one in entry[1])

    setting, figures = min(tried, key=key)
    late, hours = (fmean(one[field] for one in figures) for field in ("late", "all_gpu_hours"))
    return {"setting": asdict(setting), "late": late, "hours": hours, "tried": len(tried)}


def chosen(scene: str, name: str, scale: Scale) -> Any:
    """A rival's kept setting for a scene; None: quickly measured, or no rival. Raises ValueError if none is kept."""
    if scale.quick or name not in RIVALS:
        return None
    kept = KEPT.load("settings")
    if kept is None or name not in kept[1]["best"].get(scene, {}):
        raise ValueError(
            f"{scene}: no settings of {name} are kept; measure them first: make bench-hetsev FLAGS=settings"
        )
    kind = type(RIVALS[name].settings[0])
    return kind(**kept[1]["best"][scene][name]["setting"])


def describe(data: Json) -> str:
    rows = [
        (
            _SECTIONS[scene],
            f"`{name}`",
            _text(one["setting"]),
            one["tried"],
            f"{one['late']:.2%}",
            f"{one['hours']:.2f}",
        )
        for scene, found in data["best"].items()
        for name, one in found.items()
    ]
    head = ("section", "controller", "best", "tried", "late", "GPU-hours")
    return _WORDS.format(seeds=data["seeds"]) + "\n" + table(head, rows)


def _text(setting: Json) -> str:
    return ", ".join(f"{name} {value:g}" for name, value in setting.items() if name not in {"by_count", "threshold"})
