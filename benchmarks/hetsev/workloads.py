"""The workloads of HetSev's sections 6.1, 6.2 and 6.3, drawn by a seed.

The paper's traces are not published. These have their shapes: rates are averages over windows of 120 s, in steps of
15 s, of a course with noise.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
from benchmarks.hetsev.assumptions import Assumptions
from benchmarks.hetsev.policy import STEP
from benchmarks.hetsev.scene import Scene, Workload

from hetserve.dispatch.kernel import Floats

WARM_UP: Final = 120.0
WINDOW: Final = 120.0
_NOISE: Final = 0.25
"""Standard deviation of the course's noise in a step, as a share: about 9 % are left of it in a window's average."""
INSTANCES: Final = 18
"""Of all models together in section 6.2."""
_EACH: Final = INSTANCES // 3


def production(assumed: Assumptions, seed: int = 0, end: float = 6000.0) -> Scene:
    """Section 6.1: 200 to 1000 queries/s, 60 % to ResNet50 and 40 % to Inception-v3; a spike at 3500 s of 6000."""
    marks = ((0.0, 0.25), (0.2, 0.3), (0.35, 0.2), (0.5, 0.35), (7 / 12, 0.35), (0.6, 1.0), (0.8, 1.0), (0.9, 0.5))
    rates = 1000.0 * _course(marks, end, np.random.default_rng([61, seed]))
    shares = {"resnet50": 0.6, "inception-v3": 0.4}
    return _scene(assumed, {model: share * rates for model, share in shares.items()}, end, seed, waits=True)


def waves(assumed: Assumptions, seed: int = 0, end: float = 2500.0) -> Scene:
    """Section 6.2: three vision models, Poisson, two waves: to 60 and 90 % of what 18 instances carry, each on a T4."""
    marks = ((0.0, 0.2), (0.2, 0.6), (0.4, 0.2), (0.48, 0.2), (0.72, 0.9), (0.96, 0.2))
    models = ("resnet50", "inception-v3", "ssd-resnet50")
    rates = {
        model: _EACH * assumed.rate(model, "t4") * _course(marks, end, np.random.default_rng([62, k, seed]))
        for k, model in enumerate(models)
    }
    return _scene(assumed, rates, end, seed, waits=False, most=INSTANCES)


def cost(assumed: Assumptions, seed: int = 0, end: float = 3000.0) -> Scene:
    """Section 6.3: four models with spikes at times of their own, at the peak 1.2 times what a V100 serves alone."""
    rates: dict[str, Floats] = {}
    for k, model in enumerate(assumed.models):
        rng = np.random.default_rng([63, k, seed])
        at = rng.uniform(0.3, 0.6)
        marks = ((0.0, 0.3), (at - 0.02, 0.3), (at, 1.0), (at + 0.2, 1.0), (at + 0.3, 0.4))
        rates[model] = 1.2 * assumed.rate(model, "v100") * _course(marks, end, rng)
    return _scene(assumed, rates, end, seed, waits=True)


def _course(marks: Sequence[tuple[float, float]], end: float, rng: np.random.Generator) -> Floats:
    """[step] From the warm-up on, between the least and the greatest level, which it reaches.

    marks: (share of the time, level).
    """
    behind = round(WINDOW / STEP)
    at = np.arange(round((WARM_UP + end) / STEP) + behind - 1) * STEP - WARM_UP - WINDOW / 2
    places, heights = zip(*marks, strict=True)
    levels = np.interp(at / end, np.array(places), np.array(heights))
    noisy = levels * np.maximum(1 + _NOISE * rng.standard_normal(len(at)), 0.0)
    averages = np.convolve(noisy, np.full(behind, 1 / behind), mode="valid")
    least, most = min(heights), max(heights)
    scaled: Floats = least + (averages - averages.min()) * (most - least) / np.ptp(averages)
    return scaled


def _scene(
    assumed: Assumptions, rates: Mapping[str, Floats], end: float, seed: int, *, waits: bool, most: int | None = None
) -> Scene:
    given = {model: tuple(float(rate) for rate in course) for model, course in rates.items()}
    return Scene(assumed, Workload(-WARM_UP, end, given, waits), most, seed)
