"""Fig. 16: Gaussian batch sizes and wrong or noisy latencies."""

from __future__ import annotations

from typing import Final

from benchmarks.kairos.evaluation.measure import Scale
from benchmarks.kairos.figures.robustness import describe_cases, describe_misjudged, measure_cases, used
from benchmarks.kairos.paper.setting import MODELS, Case
from benchmarks.reporting import Json

TITLE: Final = "Fig. 16: Gaussian batch sizes, errors of the profiles, noise of the service"


__all__ = ["TITLE", "describe", "measure", "used"]


def measure(scale: Scale) -> Json:
    cases = {
        f"normal {text}": {model: Case(model, batches=f"normal:{text}") for model in MODELS}
        for text in ("165,16", "250,100", "500,150")
    }
    for percent in (5, 10):
        cases[f"profile error {percent} %"] = {model: Case(model, wrong=percent / 100) for model in MODELS}
        cases[f"service noise {percent} %"] = {model: Case(model, noisier=percent / 100) for model in MODELS}
    return measure_cases(cases, scale)


def describe(data: Json) -> str:
    return (
        "Profile error: every mean that the dispatcher believes is off by a normal error of that standard deviation. "
        "Service noise: every service time carries such an error, which no dispatcher can know. The paper adds white "
        "noise of 5 % to the predictions and states no parameters of its Gaussian.\n\n"
        + describe_cases("fig16", data)
        + "\nMisjudged by more than may be late (one that trusts the profile cannot know, one that learns could):\n\n"
        + describe_misjudged(data)
    )
