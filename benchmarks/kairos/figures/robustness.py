"""Kairos and hetserve over homogeneous in other settings (Figs. 15 and 16)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import product
from typing import Final

from benchmarks.kairos.evaluation.limits import fluid
from benchmarks.kairos.evaluation.measure import STEPS, Scale, allowable, bound_of, in_parallel
from benchmarks.kairos.paper.setting import MODELS, TYPES, Case, homogeneous, kairos_plan, problem, short, system
from benchmarks.kairos.report.plots import bars, figure
from benchmarks.kairos.report.results import picture
from benchmarks.reporting import Json, table, verdict

from hetserve.dispatch import make_policy
from hetserve.planning.flow.planner import plan_flow
from hetserve.simulation.stability import ceiling

NOISE: Final = 0.005
"""Two rates this close are equal."""


def used(scale: Scale) -> Scale:
    """150 cells: quick runs have one seed of 20,000 queries."""
    return scale if scale.full else replace(scale, queries=20_000, seeds=scale.seeds[:1], steps=STEPS)


def measure_cases(cases: Mapping[str, Mapping[str, Case]], scale: Scale) -> Json:
    """cases: label -> model -> case."""
    at = used(scale)
    jobs = list(product(cases, MODELS, ("kairos", "hetserve", "homogeneous")))
    jobs.sort(key=lambda job: (-float(cases[job[0]][job[1]].budget), job))
    rates = in_parallel(lambda job: _one(cases[job[0]][job[1]], job[2], at), jobs, scale)
    found = dict(zip(jobs, rates, strict=True))
    return {
        label: {
            model: {name: found[label, model, name] for name in ("homogeneous", "kairos", "hetserve")}
            | {"misjudged": misjudged(cases[label][model])}
            for model in MODELS
        }
        for label in cases
    }


def _one(case: Case, what: str, scale: Scale) -> Json:
    if float(case.budget) > 5:
        # 19 to 60 instances: such matchings take most of the run.
        scale = replace(scale, seeds=scale.seeds[: 3 if scale.full else 1])
    factor, policy = 1.0, what
    if what == "homogeneous":
        counts, factor = homogeneous(case)
        policy = "fcfs"
    elif what == "kairos":
        counts = kairos_plan(case).counts
    else:
        counts = plan_flow(problem(case)).counts
    # Without the paper's base its bound says nothing; nor does the fluid bound where a batch seems late everywhere.
    start = bound_of(case, counts) or fluid(case, counts) or ceiling(system(case), dict(counts), case.mix)
    rate = allowable(case, counts, make_policy(policy), start, scale)
    return {"counts": short(counts), "qps": rate.mean * factor}


def misjudged(case: Case) -> Json:
    """By type, batches that the profile wrongly says to be in time, and their share of queries."""
    pool, out = system(case), {}
    truth, safe = pool.served.means, pool.predicted.arrays.safe
    for name, late in zip(pool.types, (truth > case.slo) & (safe <= case.slo), strict=True):
        if late.any():
            sizes = [int(size) for size in pool.predicted.batches[late]]
            share = sum(part for batch, part in zip(case.mix.batches, case.mix.shares, strict=True) if batch in sizes)
            out[name] = {"batches": sizes, "share": share}
    return out


def describe_misjudged(data: Json) -> str:
    """Where a profile misjudges more queries than may be late."""
    lines = [
        f"- {label}, {model}: on {name} batches {', '.join(map(str, found['batches']))} ({found['share']:.2%} of the "
        "queries) look safe and are never within the SLO, more than the 1 % that may be late.\n"
        for label, models in data.items()
        for model, entry in models.items()
        for name, found in entry.get("misjudged", {}).items()
        if name in _present(entry["hetserve"]["counts"]) and found["share"] > 0.01
    ]
    return "".join(lines)


def describe_cases(name: str, data: Json) -> str:
    """Table, verdicts and plot of settings measured by `measure_cases`."""
    rows = []
    for label, models in data.items():
        for model, entry in models.items():
            base, kairos, ours = (entry[key]["qps"] for key in ("homogeneous", "kairos", "hetserve"))
            rows.append(
                [
                    label,
                    model,
                    f"{kairos / base:.2f} {entry['kairos']['counts']}",
                    f"{ours / base:.2f} {entry['hetserve']['counts']}",
                    f"{ours / kairos:.3f}" if kairos else "-",
                    verdict(ours >= base * (1 - NOISE)),
                    verdict(ours >= kairos * (1 - NOISE)),
                ]
            )
    _draw(name, data)
    head = [
        "setting",
        "model",
        "Kairos / homogeneous",
        "ours / homogeneous",
        "ours / Kairos",
        "never below homogeneous",
        "not below Kairos",
    ]
    return (
        "Ours: planner flow's configuration under the hetserve policy. Kairos: its pick under its matching. "
        "Homogeneous is scaled to the budget.\n\n"
        + table(head, rows)
        + "\n"
        + picture(name, "Kairos and hetserve over homogeneous by setting")
    )


def _present(counts: str) -> list[str]:
    """Types of a configuration as `short` writes it."""
    return [name for name, number in zip(TYPES, counts.strip("()").split(","), strict=True) if int(number)]


def _draw(name: str, data: Json) -> None:
    with figure(name, 4.0 * min(len(data), 4), 3.2, len(data)) as made:
        axes = [made] if len(data) == 1 else list(made)
        for axis, (label, models) in zip(axes, data.items(), strict=True):
            series = {
                title: [entry[key]["qps"] / entry["homogeneous"]["qps"] for entry in models.values()]
                for title, key in (("Kairos", "kairos"), ("ours", "hetserve"))
            }
            bars(axis, list(models), series, {"Kairos": "kairos", "ours": "hetserve"})
            axis.axhline(1.0, color="#666666", linestyle="--", linewidth=1)
            axis.set_title(label)
        axes[0].set_ylabel("allowable q/s / homogeneous")
        axes[0].set_ylim(top=axes[0].get_ylim()[1] * 1.25)
        axes[0].legend(frameon=False, ncols=2, loc="upper left")
