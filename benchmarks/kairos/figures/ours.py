"""Ours on all five models: against Kairos, the strong CLKWRK and the fluid bound; who waits, and how long."""

from __future__ import annotations

import math
from typing import Final

from benchmarks.kairos.evaluation.limits import fluid
from benchmarks.kairos.evaluation.measure import Scale, at, in_parallel, own_best
from benchmarks.kairos.paper.reference import OF_LP_GOAL
from benchmarks.kairos.paper.setting import MODELS, Case, kairos_plan, short, system
from benchmarks.kairos.report.plots import COLOURS, figure
from benchmarks.kairos.report.results import kept_or_measured, picture, qps
from benchmarks.reporting import Json, table, verdict

from hetserve.dispatch import make_policy
from hetserve.simulation.run import simulate
from hetserve.simulation.workload import draw_workload

TITLE: Final = "Ours: the hetserve policy at Kairos's configuration, every query served"


def measure(scale: Scale) -> Json:
    """Our rates; Kairos's and CLKWRK's from the main table."""
    jobs = [(model, where) for where in ("own best", "pick") for model in MODELS]
    rates = dict(zip(jobs, in_parallel(lambda job: _rate(*job, scale), jobs, scale), strict=True))
    others = kept_or_measured("main", scale)
    out: Json = {}
    for model in MODELS:
        plan = kairos_plan(Case(model))
        theirs = {name: others[model][name]["qps"] for name in ("kairos", "clockwork-least-wait")}
        out[model] = {
            "best": rates[model, "own best"],
            "rates": theirs | {"hetserve": rates[model, "pick"]["qps"]},
            "seeds": rates[model, "pick"]["seeds"],
            "lp": fluid(Case(model), plan.counts),
            "lpDropping": fluid(Case(model), plan.counts, 0.01),
        }
    runs = [(model, policy, limit) for model in MODELS for policy, limit in _RUNS]
    reports = in_parallel(lambda run: _run(run[0], run[1], out[run[0]]["rates"][run[2]], scale), runs, scale)
    for (model, policy, limit), report in zip(runs, reports, strict=True):
        out[model][f"{policy} at {limit}'s rate"] = report
    return out


_RUNS: Final = (("kairos", "kairos"), ("hetserve", "hetserve"), ("hetserve", "kairos"))


def _rate(model: str, where: str, scale: Scale) -> Json:
    case = Case(model)
    if where == "pick":
        best = at(case, "hetserve", kairos_plan(case).counts, scale)
        return best.rate.as_json()
    best = own_best(case, "hetserve", scale)
    kairos = at(case, "kairos", best.counts, scale).rate.mean
    return {"counts": short(best.counts), "kairos": kairos, "lp": fluid(case, best.counts), **best.rate.as_json()}


def _run(model: str, policy: str, rate: float, scale: Scale) -> Json:
    case = Case(model)
    counts = dict(kairos_plan(case).counts)
    reports = [
        simulate(system(case), counts, make_policy(policy), draw_workload(case.mix, scale.queries, seed), rate)
        for seed in scale.seeds
    ]
    deciles = [
        {
            "batches": f"{tenth.smallest}-{tenth.largest}",
            "late": sum(r.deciles[i].violations for r in reports) / sum(r.deciles[i].queries for r in reports),
        }
        for i, tenth in enumerate(reports[0].deciles)
        if all(len(r.deciles) > i for r in reports)
    ]
    return {
        "rate": rate,
        "violationRatio": sum(r.violation_ratio for r in reports) / len(reports),
        "worstInSlos": max(r.worst_delay for r in reports) / case.slo,
        "p99InSlos": max(r.latencies[99.0] for r in reports) / case.slo,
        "dropped": sum(r.dropped for r in reports),
        "deciles": deciles,
    }


def describe(data: Json) -> str:
    over = {m: e["rates"]["hetserve"] / e["rates"]["kairos"] for m, e in data.items()}
    clock = {m: e["rates"]["hetserve"] / e["rates"]["clockwork-least-wait"] for m, e in data.items()}
    lp = {m: e["rates"]["hetserve"] / e["lp"] for m, e in data.items()}
    rows = [
        ["Kairos", *(qps(e["rates"]["kairos"]) for e in data.values())],
        ["ours, the same configuration", *(qps(e["rates"]["hetserve"]) for e in data.values())],
        ["fluid LP, all served", *(qps(e["lp"]) for e in data.values())],
        ["fluid LP, 1 % dropped free", *(qps(e["lpDropping"]) for e in data.values())],
        ["ours / Kairos (goal 1.05)", *(f"{r:.3f} {verdict(r >= 1.05)}" for r in over.values())],
        ["ours / CLKWRK (b) own best (goal 1.10)", *(f"{r:.3f} {verdict(r >= 1.10)}" for r in clock.values())],
        ["ours / LP (goal)", *(f"{r:.3f} ({OF_LP_GOAL[m]}) {verdict(r >= OF_LP_GOAL[m])}" for m, r in lp.items())],
        *_at_own_best(data),
        *_delays(data),
    ]
    geometric = math.prod(over.values()) ** (1 / len(over))
    _draw(data)
    return (
        table(["", *data], rows)
        + f"\n- Geometric mean over Kairos: {geometric:.3f} (goal 1.07): {verdict(geometric >= 1.07)}.\n"
        + f"- At Kairos's rate no worse than Kairos: {_fairness(data)}\n\n"
        + "Late queries by decile of batch size at Kairos's rate (deciles that one size fills are joined):\n\n"
        + table(["model", "policy", "late, smallest to largest batches"], _deciles(data))
        + "\n"
        + picture("ours", "Late queries by decile of batch size at Kairos's rate")
    )


_AT: Final = {"kairos": "kairos at kairos's rate", "hetserve": "hetserve at kairos's rate"}
_OWN: Final = {"kairos": "kairos at kairos's rate", "hetserve": "hetserve at hetserve's rate"}


def _at_own_best(data: Json) -> list[list[str]]:
    """Where our own best configuration is not Kairos's pick."""
    best = {model: entry["best"] for model, entry in data.items()}
    clock = {m: e["best"]["qps"] / e["rates"]["clockwork-least-wait"] for m, e in data.items()}
    return [
        ["ours at its own best", *(f"{qps(b['qps'])} {b['counts']}" for b in best.values())],
        ["the same / Kairos there", *(f"{b['qps'] / b['kairos']:.3f}" for b in best.values())],
        ["the same / CLKWRK (b) own best", *(f"{r:.3f} {verdict(r >= 1.10)}" for r in clock.values())],
        [
            "the same / LP there",
            *(f"{b['qps'] / b['lp']:.3f} {verdict(b['qps'] / b['lp'] >= OF_LP_GOAL[m])}" for m, b in best.items()),
        ],
    ]


def _delays(data: Json) -> list[list[str]]:
    def row(label: str, key: str, what: str) -> list[str]:
        return [label, *(f"{entry[key][what]:.1f} x SLO" for entry in data.values())]

    return [
        row("worst delay, Kairos at its limit", _OWN["kairos"], "worstInSlos"),
        row("worst delay, ours at Kairos's rate", _AT["hetserve"], "worstInSlos"),
        row("worst delay, ours at its own limit", _OWN["hetserve"], "worstInSlos"),
        ["late, Kairos at its limit", *(f"{e[_AT['kairos']]['violationRatio']:.2%}" for e in data.values())],
        ["late, ours at Kairos's rate", *(f"{e[_AT['hetserve']]['violationRatio']:.2%}" for e in data.values())],
    ]


def _fairness(data: Json) -> str:
    worst = [m for m, e in data.items() if e[_AT["hetserve"]]["worstInSlos"] > e[_AT["kairos"]]["worstInSlos"]]
    tenths = []
    for model, entry in data.items():
        pairs = zip(entry[_AT["hetserve"]]["deciles"], entry[_AT["kairos"]]["deciles"], strict=True)
        # Differences below a thousandth are a matter of seeds.
        tenths += [f"{model} {a['batches']}" for a, b in pairs if a["late"] > b["late"] + 0.001]
    delay = f"worst delay {verdict(not worst)}" + (f" ({', '.join(worst)} longer)" if worst else "")
    return delay + f", lateness by decile {verdict(not tenths)}" + (f" ({', '.join(tenths)})." if tenths else ".")


def _deciles(data: Json) -> list[list[str]]:
    return [
        [model, name, ", ".join(f"{tenth['batches']}: {tenth['late']:.1%}" for tenth in entry[key]["deciles"])]
        for model, entry in data.items()
        for name, key in (("Kairos", _AT["kairos"]), ("ours", _AT["hetserve"]))
    ]


def _draw(data: Json) -> None:
    with figure("ours", 15.0, 3.4, len(data)) as axes:
        for axis, (model, entry) in zip(axes, data.items(), strict=True):
            for name, key in _AT.items():
                tenths = entry[key]["deciles"]
                late = [tenth["late"] * 100 for tenth in tenths]
                shift = -0.2 if name == "kairos" else 0.2
                label = "Kairos" if name == "kairos" else "ours"
                axis.bar([i + shift for i in range(len(late))], late, 0.38, color=COLOURS[name], label=label)
            axis.set_xticks(range(len(tenths)), [tenth["batches"] for tenth in tenths], rotation=60, fontsize=7)
            axis.set_title(f"{model} at {qps(entry[_AT['kairos']]['rate'])} q/s")
            axis.set_xlabel("batch sizes")
        axes[0].set_ylabel("late queries, %")
        axes[0].legend(frameon=False)
