"""Fig. 14: the ten highest bounds of RM2 under every dispatcher."""

from __future__ import annotations

from itertools import product
from typing import Final

from benchmarks.kairos.evaluation.limits import oracle
from benchmarks.kairos.evaluation.measure import SCHEMES, Scale, in_parallel, looked_up, ranking
from benchmarks.kairos.paper.setting import Case, short
from benchmarks.kairos.report.plots import COLOURS, figure
from benchmarks.kairos.report.results import picture, qps
from benchmarks.reporting import Json, table, verdict

TITLE: Final = "Fig. 14: the ten highest bounds under other dispatchers (RM2)"

_TOP: Final = 10
_REFERENCE_FIRST: Final = {
    "kairos": 128.1,
    "fcfs": 23.7,
    "threshold": 111.9,
    "clockwork-earliest": 89.4,
    "clockwork-least-wait": 121.1,
}


def used(scale: Scale) -> Scale:
    return scale.searching


def measure(scale: Scale) -> Json:
    case = Case("RM2")
    top = ranking(case)[:_TOP]
    jobs = list(product(SCHEMES, [counts for counts, _ in top]))
    rates = dict(zip(jobs, in_parallel(lambda job: looked_up(case, *job, scale), jobs, scale), strict=True))
    return {
        "configurations": [short(counts) for counts, _ in top],
        "bounds": [bound for _, bound in top],
        "oracle": [oracle(case, counts) for counts, _ in top],
        "schemes": {scheme: [rates[scheme, counts] for counts, _ in top] for scheme in SCHEMES},
    }


def describe(data: Json) -> str:
    rows = [
        [name, qps(data["bounds"][i]), *(qps(data["schemes"][s][i]) for s in SCHEMES), qps(data["oracle"][i])]
        for i, name in enumerate(data["configurations"])
    ]
    reference = [f"{_REFERENCE_FIRST[s]}" if s in _REFERENCE_FIRST else "" for s in SCHEMES]
    rows.insert(1, ["reference, first row", "143.4", *reference, "143.5"])
    best = max(data["oracle"])
    close = max(data["bounds"]) / best
    _draw(data)
    return (
        table(["configuration", "bound", *SCHEMES.values(), "oracle"], rows)
        + f"\n- The bound is below but close to the oracle: {verdict(0.9 <= close <= 1.005)} ({close:.3f} of it).\n"
        f"- Bound and Kairos are close: Kairos holds {_shares(data, 'kairos')} of the bound, hetserve "
        f"{_shares(data, 'hetserve')}.\n"
        f"- Other dispatchers fall below it: FCFS {_shares(data, 'fcfs')}, DRS {_shares(data, 'threshold')}, CLKWRK "
        f"(a) {_shares(data, 'clockwork-earliest')}; CLKWRK (b) hardly: {_shares(data, 'clockwork-least-wait')}.\n\n"
        + picture("fig14", "The ten highest bounds of RM2 under every dispatcher")
    )


def _shares(data: Json, scheme: str) -> str:
    shares = [rate / bound for rate, bound in zip(data["schemes"][scheme], data["bounds"], strict=True)]
    return f"{min(shares):.2f}-{max(shares):.2f}"


def _draw(data: Json) -> None:
    with figure("fig14", 8.5, 3.8) as axis:
        at = range(_TOP)
        axis.plot(at, data["bounds"], color=COLOURS["bound"], marker="_", label="upper bound")
        for scheme, label in SCHEMES.items():
            axis.plot(at, data["schemes"][scheme], color=COLOURS[scheme], marker="o", markersize=4, label=label)
        axis.axhline(max(data["oracle"]), color="#666666", linestyle="--", linewidth=1, label="oracle")
        axis.set_xticks(at, data["configurations"], rotation=30, ha="right")
        axis.set_ylabel("allowable q/s")
        axis.set_ylim(bottom=0)
        axis.legend(frameon=False, fontsize=8, loc="center left", bbox_to_anchor=(1.0, 0.5))
