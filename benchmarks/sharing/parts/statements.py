"""What HetSev says of shared GPUs, recomputed with the product's stretch and played in its joint simulation."""

from __future__ import annotations

import statistics
from itertools import combinations_with_replacement, product
from typing import Final

from benchmarks.reporting import Json, table
from benchmarks.sharing.results import goals
from benchmarks.sharing.tenants import LARGEST, MODELS, models, stretches, throughput

TITLE: Final = "HetSev's statements"
BATCHES: Final = (2, 4, 8, 16)
SCALES: Final = (0.8, 1.0, 1.2)
LIMIT: Final = 1.18
_WORDS: Final = """160 pairs: 10 pairs of the four models, 16 pairs of batches. Played: each copy always busy. Service
times of a GPU type cancel out of every figure here, so that a T4 20 % faster or slower changes none; what it changes
in the demo is said there.
"""


def measure(quick: bool) -> Json:
    queries = 200 if quick else 5_000
    return {
        "pairs": {f"{scale:g}": pairs(scale) for scale in SCALES},
        "replicas": [_replicas(model, queries) for model in MODELS],
        "gains": {f"{scale:g}": [_gains(model, scale) for model in MODELS] for scale in SCALES},
    }


def pairs(scale: float = 1.0) -> list[Json]:
    """Every pair of models and batches, the worst first; stretch of either: c is symmetric."""
    found = []
    for (one, other), (mine, theirs) in product(combinations_with_replacement(MODELS, 2), product(BATCHES, repeat=2)):
        stretch = max(stretches(models([(one, mine), (other, theirs)], scale)))
        found.append({"models": [one, other], "batches": [mine, theirs], "stretch": stretch})
    return sorted(found, key=lambda pair: -pair["stretch"])


def _gains(model: str, scale: float = 1.0) -> list[float]:
    """Throughput of 1, 2 and 3 copies over that of one."""
    return [n / max(stretches(models([(model, LARGEST[model])] * n, scale))) for n in (1, 2, 3)]


def _replicas(model: str, queries: int) -> Json:
    played = [throughput(models([(model, LARGEST[model])] * n), queries) for n in (1, 2, 3)]
    return {"model": model, "computed": _gains(model), "played": [figure / played[0] for figure in played]}


def describe(data: Json) -> str:
    copies = data["replicas"]
    rows = [
        (f"`{row['model']}`", *(f"{row[how][n]:.3f}" for how in ("computed", "played") for n in (1, 2)))
        for row in copies
    ]
    computed, played = (statistics.fmean(row[how][2] for row in copies) for how in ("computed", "played"))
    less = sum(row[how][2] - row[how][1] < row[how][1] - 1 for row in copies for how in ("computed", "played"))
    below = {scale: sum(pair["stretch"] < LIMIT for pair in found) for scale, found in data["pairs"].items()}
    worst = data["pairs"]["1"][:2]
    named = "; ".join(f"{' and '.join(w['models'])} at {w['batches']}: {w['stretch'] - 1:.0%}" for w in worst)
    own = all(w["models"][0] == w["models"][1] in {"inception-v3", "resnet50"} for w in worst)
    three = {scale: statistics.fmean(gain[2] for gain in found) for scale, found in data["gains"].items()}
    return "\n".join(
        [
            _WORDS,
            table(("model", "2 copies, computed", "3 computed", "2 played", "3 played"), rows),
            goals(
                [
                    ("pairs slowed by less than 18 %", "90 %", _share(below["1"]), below["1"] / 160 >= 0.895),
                    ("worst pairs", "Inception-v3 and ResNet50 with themselves", named, own),
                    ("three copies, computed", "1.85 x", f"{computed:.3f} x", abs(computed - 1.85) < 0.01),
                    ("three copies, played always busy", "1.85 x", f"{played:.3f} x", abs(played - 1.85) < 0.02),
                    ("gains less from 2 to 3 copies than from 1 to 2", "all 8", f"{less} of 8", less == 8),
                    *(
                        (
                            f"every c x {s}: pairs below 18 %; three copies",
                            "",
                            f"{_share(below[s])}; {three[s]:.3f} x",
                            None,
                        )
                        for s in ("0.8", "1.2")
                    ),
                ]
            ),
        ]
    )


def _share(number: int) -> str:
    return f"{number} of 160 ({number / 160:.1%})"
