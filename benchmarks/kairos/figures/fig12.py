"""Fig. 12: the batch mix turns Gaussian; throughput of the first 20 configurations that each scheme evaluates, RM2."""

from __future__ import annotations

from typing import Final

from benchmarks.kairos.evaluation.guided import guided
from benchmarks.kairos.evaluation.limits import oracle
from benchmarks.kairos.evaluation.measure import SCHEMES, Scale, in_parallel, looked_up, ranking
from benchmarks.kairos.figures.fig02 import space_of
from benchmarks.kairos.paper.setting import Case, kairos_plan, short
from benchmarks.kairos.report.plots import COLOURS, figure
from benchmarks.kairos.report.results import picture, qps
from benchmarks.reporting import Json, table, verdict

from hetserve.planning import Counts
from hetserve.planning.search import SearchTrace, search

TITLE: Final = "Fig. 12: reaction to a Gaussian batch mix (RM2)"

BATCHES: Final = "normal:250,100"
"""The paper does not state its parameters."""
TRIES: Final = 20


def used(scale: Scale) -> Scale:
    return scale.searching


def measure(scale: Scale) -> Json:
    case = Case("RM2", batches=BATCHES)
    names = ("fcfs", "threshold", "clockwork-least-wait", "clockwork-earliest", "kairos", "hetserve")

    def explore(scheme: str) -> Json:
        def evaluate(counts: Counts) -> float:
            return looked_up(case, scheme, counts, scale)

        # Ribbon has its own search; the paper lets the others use that of Kairos+.
        trace: SearchTrace
        if scheme == "fcfs":
            trace = search(space_of(case), evaluate, "bayesian", limit=TRIES, seed=1)
        else:
            trace = guided(case, evaluate, TRIES)
        return {
            "qps": [evaluation.qps for evaluation in trace.evaluations],
            "configurations": [short(evaluation.counts) for evaluation in trace.evaluations],
        }

    walks = dict(zip(names, in_parallel(explore, names, scale), strict=True))
    pick = kairos_plan(case).counts
    top = [counts for counts, _ in ranking(case)[:20]]
    return {
        "pick": short(pick),
        "kairos": looked_up(case, "kairos", pick, scale),
        "oracle": max(oracle(case, counts) for counts in top),
        "walks": walks,
    }


def describe(data: Json) -> str:
    kairos, walks = data["kairos"], data["walks"]
    rows = []
    for scheme, walk in walks.items():
        reached = next((i for i, rate in enumerate(walk["qps"], 1) if rate >= kairos), None)
        top = max(walk["qps"])
        where = walk["configurations"][walk["qps"].index(top)]
        rows.append([SCHEMES[scheme], qps(top), where, len(walk["qps"]), reached or "never"])
    plus, ribbon = max(walks["kairos"]["qps"]), max(walks["fcfs"]["qps"])
    drs = max(walks["threshold"]["qps"])
    _draw(data)
    head = ["scheme", "best in 20", "configuration", "evaluations made", "reaches Kairos's pick at evaluation"]
    return (
        f"Batch sizes {BATCHES} (the paper's are not stated); Kairos takes {data['pick']} in one shot and holds "
        f"{qps(kairos)} queries/s; oracle {qps(data['oracle'])}.\n\n"
        + table(head, rows)
        + f"\n- Kairos in one shot 2x Ribbon and DRS: {verdict(kairos / max(ribbon, drs) >= 1.8)} "
        f"({kairos / ribbon:.2f} and {kairos / drs:.2f} of the best of their 20).\n"
        f"- Kairos+ done by its 8th evaluation: {verdict(len(walks['kairos']['qps']) <= 8)} "
        f"({len(walks['kairos']['qps'])}).\n"
        f"- Kairos and Kairos+ within 15 % of the oracle: {verdict(kairos / data['oracle'] >= 0.85)} "
        f"({kairos / data['oracle']:.2f}, {plus / data['oracle']:.2f}).\n\n"
        + picture("fig12", "Best throughput so far by evaluation after the mix has changed")
    )


def _draw(data: Json) -> None:
    with figure("fig12", 7.0, 3.6) as axis:
        for scheme, walk in data["walks"].items():
            best = [max(walk["qps"][: i + 1]) for i in range(len(walk["qps"]))]
            best += [best[-1]] * (TRIES - len(best))
            label = SCHEMES[scheme] + ("+" if scheme == "kairos" else "")
            axis.step(range(1, TRIES + 1), best, where="mid", label=label, color=COLOURS[scheme], linewidth=2)
        axis.axhline(data["kairos"], color=COLOURS["kairos"], linestyle=":", label="Kairos, one shot")
        axis.set_xlabel("evaluation after the change")
        axis.set_ylabel("best allowable q/s so far")
        axis.set_ylim(bottom=0)
        axis.set_xticks(range(1, TRIES + 1, 2))
        axis.legend(frameon=False, fontsize=8, loc="center left", bbox_to_anchor=(1.0, 0.5))
