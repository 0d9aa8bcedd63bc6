"""Where measurements are kept, how docs/results/hetsev.md is made, and tables of controllers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from benchmarks.hetsev.intervals import Estimate, estimate, ratio
from benchmarks.hetsev.rivals.kinds import RIVALS
from benchmarks.hetsev.runs import BOUND, Result
from benchmarks.hetsev.scale import Scale
from benchmarks.reporting import Json, Kept, machine, table, verdict

from hetserve.placement.pods.requests import DEFAULT_POLICY

PARTS: Final = ("settings", "production", "waves", "cost", "ablation", "sensitivity")
COMMAND: Final = "bench-hetsev"
KEPT: Final = Kept("hetsev", "hetsev.parts")
OURS: Final = ("hetserve", "hetserve-count")
PLACED: Final = tuple(f"hetserve-{name}" for name in ("WorstFit", "BestFit") if name != DEFAULT_POLICY)
"""`hetserve-count` under the placement policies that are not the default."""
CONTROLLERS: Final = (*RIVALS, OURS[0])
Goals = Iterable[tuple[str, str, str, bool | None]]
Of = Callable[[Json], float]

_KEPT_FIGURES: Final = (
    "sent",
    "throughput",
    "response",
    "response_p98",
    "attainment",
    "late",
    "gpu_use",
    "instances",
    "gpu_hours",
    "all_gpu_hours",
    "dollars",
    "paper",
    "paper_by_model",
    "held",
    "whole",
)
_HEAD: Final = """# HetSev's evaluation, redone

`make bench-hetsev` measures everything below and writes this page (`FLAGS="cost ablation"`: only these parts;
`--quick`: less, and no page; `--report`: only the page; half an hour on two cores). It plays sections 6.1 to 6.3 of
HetSev (Electronics 2023) with a whole cluster in virtual time: 8 V100 of 32 GiB and 8 T4 of 16 GiB, two a node,
clients, queues, launches of 30 s, and tenants that slow each other down. **No GPU was used.** The paper publishes
neither its latencies nor its traces nor its settings: those of `benchmarks/hetsev/assumptions.yaml` are assumptions,
with which the statements of its section 3 come out. So published ratios stand beside ours, and are no target.

| controller | what it does |
|---|---|
| `kubernetes` | the paper's baseline: an autoscaler for each service, one instance a GPU, a random type, round robin |
| `hpa-v100`, `hpa-t4` | the same on one type, with one queue for each service |
| `ilp-exclusive` | least money by an integer program at each look, one instance a GPU (Melange, AIBrix) |
| `ilp-exclusive-count` | the same for the fewest GPUs |
| `hetsev` | as published: 80 % saturation for a time, cheapest type, cool-down, no swap; GPUs shared by memory alone |
| `hetserve` | this project: the operator's own steps and placement, at the paper's prices |
| `hetserve-count` | the same where a GPU of either type costs the same; placed by the default policy |
| `hetserve-WorstFit`, `-BestFit` | `hetserve-count`, placed by that policy: HetSev's rule, and the densest |
| `clairvoyant` | a lower bound for who answers all queries: rates known, no launches, queues or SLO |

`kubernetes`, `hpa-*`, `ilp-*` and `hetsev` have the best of the settings that were tried, for each section, on other
seeds than those reported ([below](#settings-of-the-other-controllers)); those can be late on a reported seed all the
same. Nothing of ours was tuned here: settings are
the product's defaults. All controllers meet the same rates, look at least every 15 s, and wait for launches. ± is a
95 % confidence interval over the seeds. *Late*: the service with the largest share beyond its SLO, 2 % are allowed.
*GPU-hours*: GPUs on which an instance holds memory, counted whole. *Dollars*: these at the paper's prices, of which one
V100 costs as much as 16 T4s. *Paper's cost*: GiB x normalized price x seconds; who shares pays for its own memory, who
does not for the GPU's.
"""


def save(scale: Scale, part: str, data: Json, seconds: float) -> None:
    about = {"command": f"make {COMMAND} FLAGS={part}", "seconds": round(seconds, 1), "jobs": scale.jobs}
    KEPT.save(part, about | {"machine": machine("numba", "NumPy", "highspy")}, data)


def write() -> Path:
    """Names parts that were never measured."""
    return KEPT.write(_HEAD, PARTS, f"make {COMMAND} FLAGS={{}}", _facts)


def _facts(about: Json) -> str:
    return f"*`{about['command']}`: {about['seconds']:.0f} s, {about['jobs']} processes; {about['machine']}.*\n"


def by_controller(results: Iterable[Result]) -> Json:
    """{controller: figures by seed}."""
    found: dict[str, list[Json]] = {}
    for result in results:
        names = _KEPT_FIGURES if result.run.controller != BOUND else tuple(result.figures)
        found.setdefault(result.run.controller, []).append({name: result.figures[name] for name in names})
    return found


def of(figures: Mapping[str, Any], name: str, what: Of) -> list[float]:
    """A figure of a controller, by seed."""
    return [what(one) for one in figures[name]]


def against(figures: Mapping[str, Any], above: str, below: str, what: Of) -> Estimate:
    """Ratio of two controllers, seed by seed."""
    return ratio(of(figures, above, what), of(figures, below, what))


def comparison(figures: Json) -> str:
    """A row for each controller, and the bound."""
    head = (
        "",
        "queries/s",
        "mean response",
        "98 %",
        "late",
        "GPU use",
        "GPU-hours",
        "V100",
        "T4",
        "dollars",
        "paper's cost",
    )
    rows = [_row(name, some) for name, some in figures.items() if name != BOUND]
    if BOUND in figures:
        hours, dollars, memory = (
            estimate([one[key] for one in figures[BOUND]]).text(spec)
            for key, spec in (("gpu_hours", ".2f"), ("dollars", ".2f"), ("memory", ".0f"))
        )
        rows.append((f"`{BOUND}`", "", "", "", "", "", f">= {hours}", "", "", f">= {dollars}", f">= {memory}"))
    return table(head, rows)


def _row(name: str, some: Sequence[Json]) -> tuple[str, ...]:
    def mean(what: Of, spec: str, unit: str = "", scale: float = 1.0) -> str:
        return estimate([scale * what(one) for one in some]).text(spec, unit)

    return (
        f"`{name}`",
        mean(lambda one: one["throughput"], ".1f"),
        mean(lambda one: one["response"], ".0f", " ms", 1000),
        mean(lambda one: one["response_p98"], ".0f", " ms", 1000),
        mean(lambda one: one["late"], ".2f", " %", 100),
        mean(lambda one: one["gpu_use"], ".1f", " %", 100),
        mean(lambda one: one["all_gpu_hours"], ".2f"),
        mean(lambda one: one["gpu_hours"]["v100"], ".2f"),
        mean(lambda one: one["gpu_hours"]["t4"], ".2f"),
        mean(lambda one: one["dollars"], ".2f"),
        mean(lambda one: one["paper"], ".0f"),
    )


def goals(rows: Goals) -> str:
    """What, goal, figure, held; None: only reported."""
    marked = [(what, goal, figure, "" if held is None else verdict(held)) for what, goal, figure, held in rows]
    return table(("what", "goal or published", "figure", ""), marked)
