"""Fig. 10: evaluations each scheme needs to find its own best configuration with the search of Kairos+."""

from __future__ import annotations

from typing import Final

from benchmarks.kairos.evaluation.guided import guided
from benchmarks.kairos.evaluation.measure import SCHEMES, Scale, in_parallel, looked_up, ranking
from benchmarks.kairos.paper.setting import MODELS, Case, short
from benchmarks.kairos.report.plots import COLOURS, figure
from benchmarks.kairos.report.results import picture
from benchmarks.reporting import Json, table, verdict

from hetserve.planning import Counts

TITLE: Final = "Fig. 10: evaluations with the search of Kairos+ under every scheme"

_SCHEMES: Final = ("kairos", "hetserve", "clockwork-least-wait", "clockwork-earliest", "threshold", "fcfs")


def used(scale: Scale) -> Scale:
    return scale.searching


def measure(scale: Scale) -> Json:
    # DRS tries a dozen thresholds per configuration.
    models = MODELS if scale.full else ("NCF", "RM2")
    jobs = [(model, scheme) for scheme in reversed(_SCHEMES) for model in models]
    found = dict(zip(jobs, in_parallel(lambda job: _one(*job, scale), jobs, scale), strict=True))
    return {model: {scheme: found[model, scheme] for scheme in _SCHEMES} for model in models}


def _one(model: str, scheme: str, scale: Scale) -> Json:
    case = Case(model)

    def evaluate(counts: Counts) -> float:
        return looked_up(case, scheme, counts, scale)

    trace = guided(case, evaluate)
    best = trace.best
    return {
        "space": len(ranking(case)),
        "evaluations": len(trace.evaluations),
        "until": trace.evaluations_until(best.qps),
        "best": short(best.counts),
        "qps": best.qps,
    }


def describe(data: Json) -> str:
    rows = []
    for model, schemes in data.items():
        for scheme, entry in schemes.items():
            share = entry["evaluations"] / entry["space"]
            rows.append([model, SCHEMES[scheme], entry["evaluations"], f"{share:.1%}", entry["until"], entry["best"]])
    plus = [schemes["kairos"]["evaluations"] / schemes["kairos"]["space"] for schemes in data.values()]
    wide = [schemes["kairos"]["evaluations"] / 697 for schemes in data.values()]
    rivals = [s[name]["evaluations"] / s[name]["space"] for s in data.values() for name in ("fcfs", "threshold")]
    _draw(data)
    head = ["model", "scheme", "evaluations", "of the space", "best found at", "best"]
    return (
        table(head, rows)
        + f"\n- Kairos+ under 1 % of the space: {verdict(max(plus) < 0.01)} ({min(plus):.1%}-{max(plus):.1%} of "
        f"the 331 configurations with a base; {min(wide):.1%}-{max(wide):.1%} of all 697).\n"
        f"- Ribbon and DRS evaluate 5-30 %: {verdict(all(0.05 <= r <= 0.30 for r in rivals))} "
        f"({min(rivals):.1%}-{max(rivals):.1%}; the search ends when all are evaluated or pruned).\n\n"
        + picture("fig10", "Evaluations of every scheme, log scale")
    )


def _draw(data: Json) -> None:
    with figure("fig10", 4.2 * len(data), 3.4, len(data)) as axes:
        for axis, (model, schemes) in zip(axes, data.items(), strict=True):
            names = [SCHEMES[name] for name in schemes]
            values = [entry["evaluations"] for entry in schemes.values()]
            marks = axis.barh(names, values, 0.7, color=[COLOURS[name] for name in schemes])
            axis.bar_label(marks, padding=3)
            axis.set_xscale("log")
            axis.set_xlim(0.7, 400)
            axis.set_xticks([1, 3, 10, 30, 100, 300], ["1", "3", "10", "30", "100", "300"])
            axis.minorticks_off()
            axis.set_xlabel("evaluations (log scale)")
            axis.set_title(model)
            axis.invert_yaxis()
