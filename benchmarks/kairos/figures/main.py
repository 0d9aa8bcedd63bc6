"""Kairos at its pick, every competitor at its own best, the oracle and the fluid bound, on all five models."""

from __future__ import annotations

from itertools import product
from typing import Final

from benchmarks.kairos.evaluation.limits import fluid, oracle
from benchmarks.kairos.evaluation.measure import SCHEMES, Scale, allowable, at, bound_of, in_parallel, own_best
from benchmarks.kairos.paper.reference import CONFIGURATIONS, RUNS, TOLERANCE
from benchmarks.kairos.paper.setting import MODELS, Case, homogeneous, kairos_plan, short
from benchmarks.kairos.report.results import qps
from benchmarks.reporting import Json, table, verdict

from hetserve.dispatch import make_policy

TITLE: Final = "Main table: allowable throughput at 2.5 $/h (queries/s)"

COMPETITORS: Final = ("fcfs", "threshold", "clockwork-earliest", "clockwork-least-wait")
_SCALED: Final = "homogeneous"
_TRUE_BEST: Final = "kairos_best"


def measure(scale: Scale) -> Json:
    jobs = list(product(MODELS, ("kairos", _SCALED, _TRUE_BEST, *COMPETITORS)))
    # The slow searches first.
    jobs.sort(key=lambda job: ("threshold", _TRUE_BEST, *COMPETITORS, "kairos", _SCALED).index(job[1]))
    found = dict(zip(jobs, in_parallel(lambda job: _one(*job, scale), jobs, scale), strict=True))
    data: Json = {}
    for model in MODELS:
        case = Case(model)
        plan = kairos_plan(case)
        data[model] = {
            "pick": short(plan.counts),
            "bound": plan.bound_qps,
            "oracle": oracle(case, plan.counts),
            "lp": fluid(case, plan.counts),
            **{name: found[model, name] for _, name in jobs if (model, name) in found},
        }
    return data


def _one(model: str, what: str, scale: Scale) -> Json:
    case = Case(model)
    if what == _SCALED:
        counts, factor = homogeneous(case)
        rate = allowable(case, counts, make_policy("fcfs"), bound_of(case, counts), scale)
        return {"counts": short(counts), "qps": rate.mean * factor, "seeds": [one * factor for one in rate.seeds]}
    if what == "kairos":
        best = at(case, what, kairos_plan(case).counts, scale)
    else:
        best = own_best(case, what.removesuffix("_best"), scale)
    return {"counts": short(best.counts), "parameters": list(best.policy.parameters), **best.rate.as_json()}


def describe(data: Json) -> str:
    rows = [
        ["Kairos's pick", *(entry["pick"] for entry in data.values())],
        ["upper bound", *(qps(entry["bound"]) for entry in data.values())],
        ["oracle at the pick", *(qps(entry["oracle"]) for entry in data.values())],
        ["fluid LP at the pick, all served", *(qps(entry["lp"]) for entry in data.values())],
        *([_label(name), *(_cell(entry[name]) for entry in data.values())] for name in _ROWS),
    ]
    return (
        table(["", *data], rows)
        + "\nBeside the reference runs (goal: within 3 %):\n\n"
        + table(["", "model", "ours", "reference", "difference", ""], _beside(data))
    )


_ROWS: Final = ("kairos", _TRUE_BEST, _SCALED, *COMPETITORS)


def _label(name: str) -> str:
    extra = {_SCALED: "homogeneous, scaled to the budget", _TRUE_BEST: "Kairos, own best"}
    where = ", at Kairos's pick" if name == "kairos" else ", own best"
    return extra.get(name) or SCHEMES[name] + where


def _cell(entry: Json) -> str:
    low, high = min(entry["seeds"]), max(entry["seeds"])
    return f"{qps(entry['qps'])} [{qps(low)}-{qps(high)}] {entry['counts']}"


def _beside(data: Json) -> list[list[str]]:
    rows = []
    for model, reference in RUNS.items():
        for name, value in reference.items():
            mine = data[model][name]
            own = mine if isinstance(mine, float) else mine["qps"]
            where = "" if isinstance(mine, float) else CONFIGURATIONS[model].get(name, mine["counts"])
            same = "" if isinstance(mine, float) or mine["counts"] == where else f", its configuration {where}"
            off = own / value - 1
            rows.append([name, model, qps(own), qps(value) + same, f"{off:+.1%}", verdict(abs(off) <= TOLERANCE)])
        for name in (_SCALED, *COMPETITORS):
            own, theirs = data[model]["kairos"]["qps"] / data[model][name]["qps"], reference["kairos"] / reference[name]
            off = own / theirs - 1
            rows.append(
                [
                    f"Kairos / {name}",
                    model,
                    f"{own:.2f}",
                    f"{theirs:.2f}",
                    f"{off:+.1%}",
                    verdict(abs(off) <= TOLERANCE),
                ]
            )
    return rows
