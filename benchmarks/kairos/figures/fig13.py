"""Fig. 13: upper bounds against what is held in simulation, Kairos's dispatching."""

from __future__ import annotations

from typing import Final

from benchmarks.kairos.evaluation.measure import Scale, in_parallel, looked_up, ranking
from benchmarks.kairos.paper.reference import LARGEST_RATIO, SPEARMAN
from benchmarks.kairos.paper.setting import MODELS, Case, kairos_plan, short
from benchmarks.kairos.report.plots import COLOURS, figure
from benchmarks.kairos.report.results import qps
from benchmarks.reporting import Json, table, verdict
from scipy.stats import spearmanr

from hetserve.planning import Counts

TITLE: Final = "Fig. 13: upper bounds against simulated throughput"

SHOWN: Final = 20


def used(scale: Scale) -> Scale:
    return scale.searching


def measure(scale: Scale) -> Json:
    whole = MODELS if scale.full else ("NCF", "RM2")
    data: Json = {}
    for model in MODELS:
        case = Case(model)
        entries = ranking(case) if model in whole else ranking(case)[:SHOWN]

        def look(entry: tuple[Counts, float], case: Case = case) -> float:
            return looked_up(case, "kairos", entry[0], scale)

        rates = in_parallel(look, entries, scale)
        data[model] = {
            "pick": short(kairos_plan(case).counts),
            "configurations": [short(counts) for counts, _ in entries],
            "bounds": [bound for _, bound in entries],
            "simulated": rates,
        }
    return data


def describe(data: Json) -> str:
    rows = []
    inside, below = True, True
    for model, entry in data.items():
        bounds, held = entry["bounds"], entry["simulated"]
        every = len(bounds) > SHOWN
        best = held.index(max(held)) + 1
        ratio = max(rate / bound for rate, bound in zip(held, bounds, strict=True))
        inside, below = inside and best <= 10, below and ratio <= 1
        reference = SPEARMAN.get(model)
        rows.append(
            [
                model,
                _rho(bounds[:SHOWN], held[:SHOWN]) + (f" ({reference['top']})" if reference else ""),
                (_rho(bounds, held) if every else "-") + (f" ({reference['all']})" if reference else ""),
                f"{ratio:.3f}" + (f" ({LARGEST_RATIO[model]})" if model in LARGEST_RATIO else ""),
                best,
                f"{held[entry['configurations'].index(entry['pick'])] / max(held):.3f}",
                len(bounds),
            ]
        )
    _draw(data)
    head = [
        "model",
        "Spearman, top 20 (reference)",
        "Spearman, all (reference)",
        "largest simulated / bound",
        "rank of the best by bound",
        "pick / best",
        "simulated",
    ]
    return (
        table(head, rows) + f"\n- The best is among the top 10 bounds: {verdict(inside)}.\n"
        f"- Simulated throughput stays below the bound: {verdict(below)} (held in the reference; no claim of the "
        "paper).\n\n"
    )


def _rho(bounds: list[float], held: list[float]) -> str:
    return f"{spearmanr(bounds, held).statistic:.2f}"


def _draw(data: Json) -> None:
    with figure("fig13", 15.0, 3.2, len(data)) as axes:
        for axis, (model, entry) in zip(axes, data.items(), strict=True):
            bounds, held = entry["bounds"][:SHOWN], entry["simulated"][:SHOWN]
            at = range(1, len(bounds) + 1)
            axis.plot(at, bounds, color=COLOURS["bound"], linestyle="--", label="upper bound")
            axis.plot(at, held, color=COLOURS["kairos"], marker="o", markersize=4, label="simulated")
            if entry["pick"] in entry["configurations"][:SHOWN]:
                i = entry["configurations"].index(entry["pick"])
                axis.plot(
                    [i + 1],
                    [held[i]],
                    color=COLOURS["hetserve"],
                    marker="*",
                    markersize=13,
                    linestyle="none",
                    label="pick",
                )
            axis.set_title(f"{model} (best {qps(max(held))} q/s)")
            axis.set_xlabel("rank by bound")
            axis.set_ylim(bottom=0)
        axes[0].set_ylabel("q/s")
        axes[0].legend(frameon=False, loc="lower left")
