"""Tables 2 to 5: the learned scheduler, trained here, beside paper, heuristic and the best constant action."""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from multiprocessing import get_context
from typing import Final

import numpy as np
from benchmarks.fang.results import by_window, cell
from benchmarks.fang.world import FLEETS, RATES, fleet, paper, play
from benchmarks.reporting import Json, table, verdict

from hetserve.dispatch.joining import make_joining_policy
from hetserve.dispatch.joining.fang_rl import by_weights, recorded, recording
from hetserve.dispatch.joining.weights import BINS, Network, PolicyWeights
from hetserve.training.course import TrainingCourse, blank_weights, train

TITLE: Final = "Tables 2 to 5: the learned scheduler"
SEEDS: Final = (0, 1, 2)
_NAMES: Final = {"one": "one p2", "ten": "5 g2 + 5 p2"}
_INDEPENDENT: Final = (".996 (.035) / 0.0", ".935 (.158) / 0.0", ".989 (.057) / 0.0", ".981 (.080) / 0.0")
OVER_HEURISTIC: Final = 0.05
OVER_CONSTANT: Final = {"one": -0.003, "ten": 0.02}
_RECORDED: Final = 600
"""Seconds."""
CLOCK: Final = 100.0
"""Decisions a second of a clock of 10 ms."""
_PROMISING: Final = ((32, "full"), (16, "full"), (8, "full"), (4, "full"), (16, "tiny"), (8, "tiny"))


def measure(quick: bool) -> Json:
    jobs = [(name, seed, quick) for name in FLEETS for seed in SEEDS[: 1 if quick else None]]
    with ProcessPoolExecutor(min(os.cpu_count() or 1, 4), get_context("spawn")) as pool:
        trained = list(pool.map(_trained, jobs))
        constants = list(pool.map(_constants, [(name, quick) for name in FLEETS]))
    seconds = 600 if quick else 3 * 3600
    return {
        name: {
            "seeds": [found for (one, _, _), found in zip(jobs, trained, strict=True) if one == name],
            "heuristic": {w: play(name, make_joining_policy("fang"), w, seconds=seconds).cell for w in RATES},
            "constants": of_constants,
        }
        for name, of_constants in zip(FLEETS, constants, strict=True)
    }


def _trained(job: tuple[str, int, bool]) -> Json:
    """Trains with a seed, then serves each window."""
    name, seed, quick = job
    started = time.process_time()
    weights = train(fleet(name), seed, TrainingCourse(updates=3) if quick else TrainingCourse())
    took = time.process_time() - started
    cells, decisions = {}, {}
    for window in RATES:
        run = play(name, by_weights([weights]), window, seconds=600 if quick else 3 * 3600)
        cells[window] = run.cell
        decisions[window] = decisions_a_second(name, weights, window)
    return {"seed": seed, "seconds": took, "cells": cells, "decisions": decisions}


def decisions_a_second(name: str, weights: PolicyWeights, window: str) -> float:
    """How often the network is asked, to wait or to serve: it is recorded, with scores so far apart that nothing else
    than the best action is ever drawn."""
    outer, bias = weights.network.outer * 1e9, weights.network.outer_bias * 1e9
    sharp = replace(weights, network=weights.network._replace(outer=outer, outer_bias=bias))
    rows = _RECORDED * 60 * sum(weights.fleet.values())
    run = play(name, recording(sharp, np.full(rows, 0.5)), window, seconds=_RECORDED)
    _, _, times = recorded(sharp, *run.scratch)
    return len(times) / _RECORDED


def constant(name: str, actions: Mapping[str, tuple[int, str]]) -> PolicyWeights:
    """A network that always does the same on a type: its inputs say which type the instance is of."""
    blank = blank_weights(fleet(name), 0)
    inner = np.zeros((blank.network.inner.shape[0], len(actions)))
    outer = np.zeros((len(actions), blank.network.outer.shape[1]))
    for k, type_name in enumerate(blank.fleet):
        size, variant = actions[type_name]
        inner[BINS + 2 + k, k] = 1.0
        outer[k, blank.variants.index(variant) * len(blank.sizes) + blank.sizes.index(size)] = 1.0
    network = Network(inner, np.zeros(len(actions)), outer, np.zeros(outer.shape[1]))
    return replace(blank, network=network)


def _constants(job: tuple[str, bool]) -> Json:
    """Mean quality of each pair of promising actions by window, over ten minutes; the best again, over all."""
    name, quick = job
    counts, _ = FLEETS[name]
    found = {}
    for actions in itertools.product(_PROMISING[: 2 if quick else None], repeat=len(counts)):
        by_type = dict(zip(counts, actions, strict=True))
        policy = by_weights([constant(name, by_type)])
        found[_said(by_type)] = {w: play(name, policy, w, seconds=600).cell[0] for w in RATES}
    best = {w: max((cells[w], said) for said, cells in found.items())[1] for w in RATES}
    every = max(found, key=lambda said: sum(found[said].values()))
    whole = {
        said: {
            w: play(name, by_weights([constant(name, _read(said))]), w, seconds=600 if quick else 3 * 3600).cell
            for w in RATES
        }
        for said in dict.fromkeys((every, *best.values()))
    }
    return {"best": best, "every": every, "cells": whole}


def _said(actions: Mapping[str, tuple[int, str]]) -> str:
    return ", ".join(f"{kind} {size} {variant}" for kind, (size, variant) in actions.items())


def _read(said: str) -> dict[str, tuple[int, str]]:
    parts = (part.split() for part in said.split(", "))
    return {kind: (int(size), variant) for kind, size, variant in parts}


def mean_of(seeds: Sequence[Json], window: str) -> list[float]:
    each = zip(*(one["cells"][window] for one in seeds), strict=True)
    return [sum(figures) / len(seeds) for figures in each]


def describe(data: Json) -> str:
    texts, rows = [_WORDS], []
    for name, found in data.items():
        constants, seeds = found["constants"], found["seeds"]
        every = constants["cells"][constants["every"]]
        chosen = {w: constants["cells"][constants["best"][w]][w] for w in RATES}
        shown = [
            ("paper", [cell(paper()[name, "rl", w]) for w in RATES]),
            *([("independent run", _INDEPENDENT)] if name == "one" else []),
            *((f"seed {one['seed']}", [cell(one["cells"][w]) for w in RATES]) for one in seeds),
            ("mean of the seeds", [cell(mean_of(seeds, w)) for w in RATES]),
            ("heuristic", [cell(found["heuristic"][w]) for w in RATES]),
            (f"best constant of the day: {constants['every']}", [cell(every[w]) for w in RATES]),
            ("best constant of each window", [f"{cell(chosen[w])}: {constants['best'][w]}" for w in RATES]),
            ("decisions / those of a 10 ms clock", [f"{100 * _rate(seeds, w):.1f} %" for w in RATES]),
        ]
        texts += [f"{_NAMES[name]}:\n", by_window(shown)]
        rows += _goals(name, seeds, found["heuristic"], every, chosen)
    return "\n".join([*texts, table(("what", "goal", "figure", ""), rows)])


_WORDS: Final = """Each set of weights is trained by `hetserve.training` on one core, with its seed, on random loads;
none of the windows is seen. A constant always joins the same number of queries and serves them by the same model, by
type.
"""


def _rate(seeds: Sequence[Json], window: str) -> float:
    rates: list[float] = [one["decisions"][window] for one in seeds]
    return sum(rates) / len(rates) / CLOCK


def _goals(name: str, seeds: Sequence[Json], heuristic: Json, every: Json, chosen: Json) -> list[tuple[str, ...]]:
    ours = {w: mean_of(seeds, w)[0] for w in RATES}
    rows: list[tuple[str, ...]] = []

    def goal(what: str, wanted: float, figures: Mapping[str, float]) -> None:
        least = min(figures.values())
        text = ", ".join(f"{value:+.3f}" for value in figures.values())
        rows.append((f"{_NAMES[name]}: {what}", f">= {wanted:+g}", text, verdict(least >= wanted)))

    if name == "ten":
        goal("over the heuristic", OVER_HEURISTIC, {w: ours[w] - heuristic[w][0] for w in RATES})
    goal("over the best constant of the day", OVER_CONSTANT[name], {w: ours[w] - every[w][0] for w in RATES})
    goal("over the best constant of each window", OVER_CONSTANT[name], {w: ours[w] - chosen[w][0] for w in RATES})
    slowest = max(one["seconds"] for one in seeds)
    rows.append(
        (f"{_NAMES[name]}: processor time of a training", "< 300 s", f"{slowest:.0f} s", verdict(slowest < 300))
    )
    if name == "one":
        rates = [_rate(seeds, w) for w in RATES]
        most, mean = max(rates), sum(rates) / len(rates)
        what = "one p2: decisions of a 10 ms clock's"
        rows.append((f"{what}, the most of a window", "< 4 %", f"{100 * most:.2f} %", verdict(most < 0.04)))
        rows.append((f"{what}, of the day", "", f"{100 * mean:.2f} %", ""))
    return rows
