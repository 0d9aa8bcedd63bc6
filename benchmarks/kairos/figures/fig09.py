"""Fig. 9: Kairos against Ribbon, DRS and CLKWRK, each at its own best configuration."""

from __future__ import annotations

from typing import Final

from benchmarks.kairos.evaluation.measure import SCHEMES, Scale
from benchmarks.kairos.report.plots import bars, figure
from benchmarks.kairos.report.results import kept_or_measured, picture
from benchmarks.reporting import Json, table, verdict

TITLE: Final = "Fig. 9: Kairos against other schemes, each at its own best configuration"

_SHOWN: Final = ("fcfs", "threshold", "clockwork-earliest", "clockwork-least-wait", "kairos", "hetserve")


def measure(scale: Scale) -> Json:
    """From the main table and ours."""
    data, own = (kept_or_measured(name, scale) for name in ("main", "ours"))
    return {
        model: {"oracle": entry["oracle"], "kairos_best": entry["kairos_best"]["qps"]}
        | {name: entry[name]["qps"] for name in _SHOWN[:-1]}
        | {"hetserve": own[model]["rates"]["hetserve"]}
        for model, entry in data.items()
    }


def describe(data: Json) -> str:
    over = {name: {m: e["kairos"] / e[name] for m, e in data.items()} for name in _SHOWN[:4]}
    rows = [[f"Kairos / {SCHEMES[name]}", *(f"{r:.2f}" for r in ratios.values())] for name, ratios in over.items()]
    rows.append(["Kairos / oracle at its pick", *(f"{e['kairos'] / e['oracle']:.2f}" for e in data.values())])
    rows.append(["Kairos+ / Kairos", *(f"{e['kairos_best'] / e['kairos']:.3f}" for e in data.values())])
    rows.append(["hetserve / Kairos", *(f"{e['hetserve'] / e['kairos']:.2f}" for e in data.values())])
    _draw(data)
    return (
        table(["", *data], rows)
        + "\n"
        + "\n".join(_claims(data, over))
        + "\n\n"
        + picture("fig09", "Allowable throughput of every scheme over the oracle")
    )


def _claims(data: Json, over: dict[str, dict[str, float]]) -> list[str]:
    ribbon = list(over["fcfs"].values())
    rivals = [r for name in ("threshold", "clockwork-earliest", "clockwork-least-wait") for r in over[name].values()]
    above = all(
        min(e["threshold"], e["clockwork-least-wait"], e["clockwork-earliest"]) > e["fcfs"] for e in data.values()
    )
    weakest = min(min(ratios.values()) for ratios in over.values())
    near = [entry["kairos"] / entry["oracle"] for entry in data.values()]
    plus = [entry["kairos_best"] / entry["kairos"] for entry in data.values()]
    return [
        f"- About 1.5x Ribbon on all: {verdict(all(1.35 <= r <= 1.7 for r in ribbon))} "
        f"({min(ribbon):.2f}-{max(ribbon):.2f}; counted as 1.35-1.7).",
        f"- Up to 44 % over DRS and CLKWRK: {verdict(abs(max(rivals) - 1.44) <= 0.05)} (most {max(rivals):.2f}).",
        f"- DRS and CLKWRK (both readings) above Ribbon on all: {verdict(above)}.",
        f"- Kairos above every scheme on all: {verdict(weakest > 1)} (least {weakest:.2f}).",
        f"- Close to the oracle: {min(near):.2f}-{max(near):.2f} of it.",
        f"- Kairos+ slightly better than Kairos: {min(plus):.3f}-{max(plus):.3f}.",
    ]


def _draw(data: Json) -> None:
    with figure("fig09", 8.5, 3.6) as axis:
        series = {SCHEMES[name]: [entry[name] / entry["oracle"] for entry in data.values()] for name in _SHOWN}
        bars(axis, list(data), series, {SCHEMES[name]: name for name in _SHOWN})
        axis.axhline(1.0, color="#666666", linestyle="--", linewidth=1)
        axis.set_ylabel("allowable q/s / oracle")
        axis.legend(frameon=False, ncols=3, loc="lower center", bbox_to_anchor=(0.5, 1.0))
