"""Fig. 3: what a configuration serves depends on how queries are distributed (RM2, the configurations of Fig. 1)."""

from __future__ import annotations

from itertools import product
from typing import Final

from benchmarks.kairos.evaluation.limits import oracle
from benchmarks.kairos.evaluation.measure import SCHEMES, Scale, allowable, at, bound_of, in_parallel
from benchmarks.kairos.paper.setting import Case, counts_of, homogeneous, short
from benchmarks.kairos.report.plots import COLOURS, bars, figure
from benchmarks.kairos.report.results import picture
from benchmarks.reporting import Json, table, verdict

from hetserve.dispatch import make_policy

TITLE: Final = "Fig. 3: the same configurations under other dispatchers (RM2)"

_CONFIGURATIONS: Final = tuple(counts_of(*row) for row in ((3, 1, 3, 0), (2, 0, 9, 0), (1, 4, 2, 0)))
_RIVALS: Final = ("fcfs", "threshold", "clockwork-earliest", "clockwork-least-wait")
_SHOWN: Final = (*_RIVALS, "kairos", "hetserve")


def measure(scale: Scale) -> Json:
    case, jobs = Case("RM2"), list(product(_CONFIGURATIONS, _SHOWN))
    rates = in_parallel(lambda job: at(case, job[1], job[0], scale).rate.mean, jobs, scale)
    found = dict(zip(jobs, rates, strict=True))
    counts, factor = homogeneous(case)
    return {
        "homogeneous": allowable(case, counts, make_policy("fcfs"), bound_of(case, counts), scale).mean * factor,
        "configurations": {
            short(row): {scheme: found[row, scheme] for scheme in _SHOWN} | {"oracle": oracle(case, row)}
            for row in _CONFIGURATIONS
        },
    }


def describe(data: Json) -> str:
    made, base = data["configurations"], data["homogeneous"]
    names = {**SCHEMES, "oracle": "oracle"}
    rows = [[name, *(f"{entry[key] / base:.2f}" for entry in made.values())] for key, name in names.items()]
    below = all(max(e[key] for key in _RIVALS) < e["oracle"] for e in made.values())
    firsts = sorted({SCHEMES[max(_RIVALS[1:], key=entry.__getitem__)] for entry in made.values()})
    with figure("fig03", 7.5, 3.4) as axis:
        series = {names[key]: [entry[key] / base for entry in made.values()] for key in _SHOWN}
        bars(axis, list(made), series, {names[key]: key for key in _SHOWN})
        for group, entry in enumerate(made.values()):
            axis.hlines(entry["oracle"] / base, group - 0.42, group + 0.42, color=COLOURS["bound"], linestyle="--")
        axis.set_ylabel("allowable q/s / homogeneous")
        axis.legend(frameon=False, ncols=3, loc="lower center", bbox_to_anchor=(0.5, 1.0))
    return (
        "Over the homogeneous configuration, scaled to the budget. The paper does not name the model and the "
        "configurations of this figure; these are those of Fig. 1.\n\n"
        + table(["", *made], rows)
        + f"\n- Ribbon, DRS and CLKWRK are below the oracle: {verdict(below)}.\n"
        f"- DRS or CLKWRK, neither is always better: {verdict(len(firsts) > 1)} (first: {', '.join(firsts)}).\n\n"
        + picture("fig03", "Throughput of three configurations by dispatcher; dashed: the oracle")
    )
