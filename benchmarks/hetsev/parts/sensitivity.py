"""Section 6.3 again with other assumptions: interference and the T4's speed a fifth up and down."""

from __future__ import annotations

from typing import Final

from benchmarks.hetsev.intervals import estimate
from benchmarks.hetsev.parts.settings import chosen
from benchmarks.hetsev.results import OURS, against, by_controller, of
from benchmarks.hetsev.runs import Run, World, results_of
from benchmarks.hetsev.scale import Scale
from benchmarks.reporting import Json, table

TITLE: Final = "Sensitivity of section 6.3"
_PLAYED: Final = ("kubernetes", "ilp-exclusive", "ilp-exclusive-count", "hetsev", *OURS)
_WORLDS: Final = {
    "as assumed": {},
    "every c x 0.8": {"interference": 0.8},
    "every c x 1.2": {"interference": 1.2},
    "T4s at 0.8 of their speed": {"t4": 0.8},
    "T4s at 1.2 times their speed": {"t4": 1.2},
}
_WORDS: Final = """The paper publishes neither latencies nor interference. Each row changes one of the two, for all
controllers and for what they are told; rates stay, and so do the rivals' settings. {seeds} seeds.
"""


def measure(scale: Scale) -> Json:
    runs = [
        Run(World("cost", seed, end=scale.end, **changed), name, chosen("cost", name, scale))
        for changed in _WORLDS.values()
        for seed in scale.few
        for name in _PLAYED
    ]
    results, each = results_of(runs, scale.jobs), len(scale.few) * len(_PLAYED)
    worlds = {what: by_controller(results[k * each : (k + 1) * each]) for k, what in enumerate(_WORLDS)}
    return {"worlds": worlds, "seeds": len(scale.few)}


def describe(data: Json) -> str:
    head = (
        "",
        *(f"`{name}`, GPU-hours; late" for name in _PLAYED),
        f"`ilp-exclusive` over `{OURS[0]}`",
        f"`ilp-exclusive-count` over `{OURS[1]}`",
    )
    rows = []
    for what, figures in data["worlds"].items():
        cells = [f"{_mean(figures, name, 'all_gpu_hours'):.2f}; {_mean(figures, name, 'late'):.2%}" for name in _PLAYED]
        for rival, ours in (("ilp-exclusive", OURS[0]), ("ilp-exclusive-count", OURS[1])):
            cells.append(against(figures, rival, ours, lambda one: one["all_gpu_hours"]).text(".2f", " x"))
        rows.append((what, *cells))
    return _WORDS.format(seeds=data["seeds"]) + "\n" + table(head, rows)


def _mean(figures: Json, name: str, field: str) -> float:
    return estimate(of(figures, name, lambda one: one[field])).mean
