"""Fig. 15: other budgets (5 and 10 $/h) and a looser SLO (x 1.2)."""

from __future__ import annotations

from typing import Final

from benchmarks.kairos.evaluation.measure import Scale
from benchmarks.kairos.figures.robustness import describe_cases, measure_cases, used
from benchmarks.kairos.paper.setting import MODELS, Case
from benchmarks.reporting import Json

TITLE: Final = "Fig. 15: budgets of 5 and 10 $/h, SLO x 1.2"


__all__ = ["TITLE", "describe", "measure", "used"]


def measure(scale: Scale) -> Json:
    return measure_cases(
        {
            "5 $/h": {model: Case(model, budget="5") for model in MODELS},
            "10 $/h": {model: Case(model, budget="10") for model in MODELS},
            "SLO x 1.2": {model: Case(model, slo_factor=1.2) for model in MODELS},
        },
        scale,
    )


def describe(data: Json) -> str:
    return describe_cases("fig15", data)
