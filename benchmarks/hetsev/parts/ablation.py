"""Which part saves what, one at a time: taken from ours, and added to the paper's baseline."""

from __future__ import annotations

from statistics import fmean
from typing import Any, Final

from benchmarks.hetsev.intervals import estimate
from benchmarks.hetsev.parts.settings import chosen
from benchmarks.hetsev.results import OURS, PLACED, against, by_controller, of
from benchmarks.hetsev.runs import Run, World, results_of
from benchmarks.hetsev.scale import Scale
from benchmarks.reporting import Json, table

TITLE: Final = "Ablation, on section 6.3"
_TAKEN: Final = {
    OURS[1]: "all of it",
    "hetserve-exclusive": "without sharing: each instance has a GPU",
    "hetserve-t4": "without a choice of types: T4s alone",
    "hetserve-v100": "without a choice of types: V100s alone",
    **{name: f"placed by {name.removeprefix('hetserve-')}" for name in PLACED},
    "hetserve-reacting": "without looking ahead and without waiting before it scales in or out",
    "hetserve-round-robin": "without its dispatch: round robin",
}
_ADDED: Final = {
    "kubernetes": "the paper's baseline",
    "kubernetes-queue": "with one queue for each service",
    "kubernetes-t4": "with the cheaper type alone",
    "kubernetes-shared": "with HetSev's sharing by memory alone",
    "hetsev": "HetSev: its scaling rule, with all of these",
}
_WORDS: Final = """One thing is changed at a time; {seeds} seeds, the same worlds for all. *Ratio*: GPU-hours over those
of the first row, seed by seed. `{ours}` is the one whose goal is few GPUs; baselines keep the settings that were best
for `kubernetes`.
"""


def measure(scale: Scale) -> Json:
    names = (*_TAKEN, *_ADDED)
    runs = [
        Run(World("cost", seed, end=scale.end), name, _setting(name, scale)) for seed in scale.seeds for name in names
    ]
    return {"figures": by_controller(results_of(runs, scale.jobs)), "seeds": len(scale.seeds)}


def _setting(name: str, scale: Scale) -> Any:
    return chosen("cost", "kubernetes" if name.startswith("kubernetes") else name, scale)


def describe(data: Json) -> str:
    figures = data["figures"]
    parts = [_WORDS.format(seeds=data["seeds"], ours=OURS[1])]
    for first, names in ((OURS[1], _TAKEN), ("kubernetes", _ADDED)):
        rows = [_row(figures, name, what, first) for name, what in names.items()]
        parts.append(table(("", "", "late", "mean response", "GPU-hours", "ratio", "dollars", "paper's cost"), rows))
    return "\n".join(parts)


def _row(figures: Json, name: str, what: str, first: str) -> tuple[str, ...]:
    def values(field: str) -> list[float]:
        return of(figures, name, lambda one: one[field])

    return (
        f"`{name}`",
        what,
        f"{fmean(values('late')):.2%}",
        f"{1000 * fmean(values('response')):.0f} ms",
        estimate(values("all_gpu_hours")).text(),
        against(figures, name, first, lambda one: one["all_gpu_hours"]).text(".2f", " x"),
        estimate(values("dollars")).text(),
        estimate(values("paper")).text(".0f"),
    )
