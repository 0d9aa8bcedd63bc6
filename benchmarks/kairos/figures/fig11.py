"""Fig. 11: evaluations until the best configuration is found, Kairos+ against other search algorithms."""

from __future__ import annotations

import statistics
from typing import Final

from benchmarks.kairos.evaluation.exhaustive import everything
from benchmarks.kairos.evaluation.guided import guided
from benchmarks.kairos.evaluation.measure import Scale
from benchmarks.kairos.figures.fig02 import space_of
from benchmarks.kairos.paper.setting import MODELS, Case
from benchmarks.kairos.report.plots import COLOURS, figure
from benchmarks.kairos.report.results import picture
from benchmarks.reporting import Json, table, verdict

from hetserve.planning import Counts
from hetserve.planning.search import search
from hetserve.registry.planners import SEARCH_METHODS

TITLE: Final = "Fig. 11: evaluations until the best is found, by search algorithm (dispatching by Kairos)"

SEEDS: Final = tuple(range(5))
METHODS: Final = SEARCH_METHODS.names
_NAMES: Final = {"random": "RAND", "annealing": "annealing", "genetic": "GENE", "bayesian": "Ribbon's BO"}


def used(scale: Scale) -> Scale:
    return scale.searching


def measure(scale: Scale) -> Json:
    data: Json = {}
    for model in MODELS if scale.full else ("NCF", "RM2"):
        case = Case(model)
        rates = everything(case, "kairos", scale)
        best = max(rates.values())
        plus = guided(case, rates.__getitem__)
        jobs = [(method, seed, prune) for method in METHODS for seed in SEEDS for prune in (True, False)]

        def run(job: tuple[str, int, bool], case: Case = case, rates: dict[Counts, float] = rates) -> int | None:
            method, seed, prune = job
            trace = search(
                space_of(case), rates.__getitem__, method, seed=seed, prune=prune, limit=_limit(prune, rates)
            )
            return trace.evaluations_until(max(rates.values()))

        # One after the other: scikit-learn's warnings are silenced per thread.
        found = {job: run(job) for job in jobs}
        data[model] = {
            "space": len(rates),
            "best": best,
            "kairosPlus": plus.evaluations_until(best),
            "pruned": {method: [found[method, seed, True] for seed in SEEDS] for method in METHODS},
            "plain": {method: [found[method, seed, False] for seed in SEEDS] for method in METHODS},
        }
    return data


def _limit(prune: bool, rates: dict[Counts, float]) -> int | None:
    # Beyond a third of the space the answer is "not soon".
    return None if prune else len(rates) // 3


def describe(data: Json) -> str:
    rows = []
    for model, entry in data.items():
        rows.append([model, "Kairos+", entry["kairosPlus"] or "not found", "", ""])
        rows += [
            [
                model,
                _NAMES[method],
                _median(entry["pruned"][method]),
                _range(entry["pruned"][method]),
                _median(entry["plain"][method]),
            ]
            for method in METHODS
        ]
    held = all(
        entry["kairosPlus"] is not None and all(_number(entry["pruned"][m]) > entry["kairosPlus"] for m in METHODS)
        for entry in data.values()
    )
    _draw(data)
    head = ["model", "search", "evaluations until the best, median", "range over 5 seeds", "median without pruning"]
    return (
        table(head, rows)
        + "\nThe best is that of all 331 configurations, each simulated once; with pruning a search can miss it, where "
        "noise puts a sub-configuration ahead.\n"
        f"Other searches need significantly more evaluations than Kairos+: {verdict(held)}.\n\n"
        + picture("fig11", "Evaluations until the best is found, by search algorithm")
    )


def _number(found: list[int | None]) -> float:
    return statistics.median([float("inf") if n is None else n for n in found])


def _median(found: list[int | None]) -> str:
    number = _number(found)
    return "not found" if number == float("inf") else f"{number:g}"


def _range(found: list[int | None]) -> str:
    known = [n for n in found if n is not None]
    missed = f", {len(found) - len(known)} missed it" if len(known) < len(found) else ""
    return (f"{min(known)}-{max(known)}" if known else "-") + missed


def _draw(data: Json) -> None:
    with figure("fig11", 4.0 * len(data), 3.4, len(data)) as axes:
        for axis, (model, entry) in zip(axes, data.items(), strict=True):
            names = ["Kairos+", *(_NAMES[method] for method in METHODS)]
            values = [entry["kairosPlus"], *(_number(entry["pruned"][method]) for method in METHODS)]
            shown = [entry["space"] if value in {None, float("inf")} else value for value in values]
            marks = axis.bar(names, shown, 0.65, color=[COLOURS["hetserve"], *[COLOURS["kairos"]] * len(METHODS)])
            axis.bar_label(marks, fmt="%g")
            axis.set_ylabel("evaluations until the best, median")
            axis.set_title(f"{model} ({entry['space']} configurations)")
            axis.tick_params(axis="x", labelrotation=20)
