"""Placement quality on HetSev's testbed: our policies beside one GPU per instance, best fit and random.

Instances arrive in a seeded order until the first is refused.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from statistics import median, pstdev
from typing import Final

from benchmarks.placement.results import FOLDER, Scale
from benchmarks.placement.simulated.testbed import HETSEV_MODELS, MIXED_MODELS, TestbedModel, arrivals, testbed
from benchmarks.reporting import Json, table

from hetserve.base.units import MiB, Seconds
from hetserve.placement.decision.decide import decide
from hetserve.placement.ledger.inventory import Place
from hetserve.placement.ledger.ledger import Ledger
from hetserve.placement.pods.requests import AntiAffinity, GpuRequest, PolicyName

TITLE = "Placement quality on HetSev's testbed"
MIXES: Final = {"HetSev's four models, 3 GiB each": HETSEV_MODELS, "twelve models, 1 to 15 GiB": MIXED_MODELS}
AT: Final = 16
"""Instances after which the spread is read: one per GPU."""

Choose = Callable[[Ledger, GpuRequest, random.Random], tuple[Place, ...] | None]


@dataclass(frozen=True, slots=True)
class PlacementRule:
    """What a scheduler asks for on an instance's behalf, and the GPU that it chooses."""

    name: str
    ask: Callable[[GpuRequest], GpuRequest]
    choose: Choose


def measure(scale: Scale) -> Json:
    """Medians over seeded arrivals."""
    runs = 20 if scale.quick else 300
    return {
        "runs": runs,
        "mixes": {
            title: {rule.name: _over_seeds(rule, models, runs) for rule in RULES} for title, models in MIXES.items()
        },
    }


def describe(data: Json) -> str:
    """A table per mix and one picture."""
    parts = [
        f"Medians over {data['runs']} seeded orders of arrival, until the first instance is refused. "
        "A *pair* is two instances of one model on one GPU (HetSev, Fig. 3: what slows both the most). "
        f"The spread is the standard deviation of the free share of memory over GPUs after {AT} instances.\n"
    ]
    for title, rules in data["mixes"].items():
        rows = [
            (name, f"{row['placed']:.0f}", f"{row['pairs']:.0f}", f"{row['per_gpu']:.2f}", f"{row['spread']:.3f}")
            for name, row in rules.items()
        ]
        head = ("rule", "placed before the first refusal", "pairs of one model", "instances per GPU", "spread")
        parts.append(f"{title}:\n\n{table(head, rows)}")
    _draw(data)
    parts.append("![Instances placed and pairs of one model](placement/quality.png)\n")
    return "\n".join(parts)


def _over_seeds(rule: PlacementRule, models: tuple[TestbedModel, ...], runs: int) -> Json:
    results = [_run(rule, arrivals(models, 400, seed), random.Random(seed)) for seed in range(runs)]  # noqa: S311
    return {key: median(result[key] for result in results) for key in results[0]}


def _run(rule: PlacementRule, requests: Sequence[GpuRequest], rng: random.Random) -> dict[str, float]:
    ledger = Ledger()
    ledger.relist_nodes(testbed())
    spread = 0.0
    placed = 0
    for request in requests:
        places = rule.choose(ledger, rule.ask(request), rng)
        if places is None:
            break
        ledger.reserve(rule.ask(request), places, Seconds(float("inf")))
        placed += 1
        if placed == AT:
            spread = pstdev(use.free_mib / use.gpu.memory_mib for use in ledger.gpus())
    used = [use for use in ledger.gpus() if use.bookings]
    return {"placed": placed, "pairs": _pairs(ledger), "per_gpu": placed / max(len(used), 1), "spread": spread}


def _pairs(ledger: Ledger) -> int:
    """Pairs of instances of one model on one GPU."""
    models = (Counter(booking.request.model for booking in use.bookings) for use in ledger.gpus())
    return sum(count * (count - 1) // 2 for counter in models for count in counter.values())


def _ours(policy: PolicyName) -> Choose:
    def choose(ledger: Ledger, request: GpuRequest, _rng: random.Random) -> tuple[Place, ...] | None:
        names = sorted(ledger.inventories())
        chosen = decide(ledger.index, request, names, policy=policy).chosen
        return None if chosen is None else chosen.places

    return choose


def _random(ledger: Ledger, request: GpuRequest, rng: random.Random) -> tuple[Place, ...] | None:
    fits = [use for use in ledger.gpus() if use.free_mib >= request.memory_mib]
    if not fits:
        return None
    use = rng.choice(fits)
    return ((use.node, use.gpu.id),)


def _same(request: GpuRequest) -> GpuRequest:
    return request


def _whole(request: GpuRequest) -> GpuRequest:
    return replace(request, memory_mib=MiB(0), whole=True)


def _anywhere(request: GpuRequest) -> GpuRequest:
    return replace(request, anti_affinity=AntiAffinity.NONE)


RULES: Final = (
    PlacementRule("WorstFit, HetSev's rule (ours)", _same, _ours(PolicyName("WorstFit"))),
    PlacementRule("BestFit with anti-affinity (ours)", _same, _ours(PolicyName("BestFit"))),
    PlacementRule("Spread with anti-affinity (ours)", _same, _ours(PolicyName("Spread"))),
    PlacementRule("Kubernetes: a GPU per instance", _whole, _ours(PolicyName("WorstFit"))),
    PlacementRule("best fit without anti-affinity", _anywhere, _ours(PolicyName("BestFit"))),
    PlacementRule("random without anti-affinity", _anywhere, _random),
)


def _draw(data: Json) -> None:
    import matplotlib as mpl  # noqa: PLC0415

    mpl.use("Agg")
    from matplotlib import pyplot  # noqa: PLC0415

    figure, axes = pyplot.subplots(1, len(data["mixes"]), figsize=(11, 3.6), sharey=True, layout="constrained")
    for axis, (title, rules) in zip(axes, data["mixes"].items(), strict=True):
        names = list(rules)
        rows = range(len(names))
        axis.barh(rows, [rules[name]["placed"] for name in names], height=0.4, color="#4477aa", label="placed")
        lower = [row + 0.4 for row in rows]
        axis.barh(
            lower, [rules[name]["pairs"] for name in names], height=0.4, color="#cc6677", label="pairs of one model"
        )
        axis.set_yticks([row + 0.2 for row in rows], names)
        axis.set_title(title, fontsize=10)
        axis.set_xlabel("instances (pairs)")
    axes[0].invert_yaxis()
    axes[-1].legend(loc="lower right", fontsize=8)
    FOLDER.mkdir(parents=True, exist_ok=True)
    figure.savefig(FOLDER / "quality.png", dpi=110)
    pyplot.close(figure)
