"""Bayesian optimisation over counts, as Ribbon does it (SC'21): Gaussian process, expected improvement.

Counts are scaled to 0..1; the acquisition is computed for every open configuration, ties to the first.
"""

from __future__ import annotations

import warnings
from random import Random
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr
from threadpoolctl import threadpool_limits

from hetserve.planning.search.session import SearchSession

FIRST: Final = 5
EVERY: Final = 20
"""The kernel is fitted up to this evaluation, then every EVERY-th time."""

Floats = NDArray[np.float64]


def run(session: SearchSession, seed: int) -> None:
    scale = np.maximum(session.space.counts.max(axis=0), 1)
    points = session.space.counts / scale
    order = list(range(len(session.space)))
    Random(seed).shuffle(order)  # noqa: S311  reproducible, nothing secret
    first = iter(order)
    while not session.over and len(session.evaluations) < FIRST:
        session.value(next(first))
    kernel: object = None
    while not session.over:
        measured, candidates = session.measured, session.candidates
        values = np.array([session.value(int(i)) for i in measured])
        learn = kernel is None or len(measured) <= EVERY or len(measured) % EVERY == 0
        model, kernel = _fit(points[measured], values, kernel, learn=learn)
        mean, deviation = model.predict(points[candidates], return_std=True)
        improvement = expected_improvement(mean, deviation, float(values.max()))
        session.value(int(candidates[int(np.argmax(improvement))]))


def expected_improvement(mean: Floats, deviation: Floats, best: float) -> Floats:
    """Expected gain over the best known value; mean, deviation: predictions [point]."""
    gain = mean - best
    z = np.divide(gain, deviation, out=np.zeros_like(gain), where=deviation > 0)
    density = np.exp(-(z**2) / 2.0) / np.sqrt(2 * np.pi)
    uncertain = gain * ndtr(z) + deviation * density
    return np.asarray(np.where(deviation > 0, uncertain, np.maximum(gain, 0.0)))


def _fit(known: Floats, values: Floats, kernel: object, *, learn: bool) -> tuple[Any, object]:
    """Gaussian process through the known values, and its kernel. learn: fit the kernel."""
    from sklearn.gaussian_process import GaussianProcessRegressor  # noqa: PLC0415  late: a second to import
    from sklearn.gaussian_process.kernels import Matern, WhiteKernel  # noqa: PLC0415

    if learn:
        matern = Matern(length_scale=np.ones(known.shape[1]), length_scale_bounds=(0.05, 20.0), nu=2.5)
        kernel = 1.0 * matern + WhiteKernel(1e-3, (1e-6, 0.1))
    process = GaussianProcessRegressor(kernel, normalize_y=True, optimizer="fmin_l_bfgs_b" if learn else None)
    # Few dozen rows: threads cost ten times what they save.
    with threadpool_limits(1), warnings.catch_warnings():
        # With few points length scales end at their limits.
        warnings.simplefilter("ignore")
        process.fit(known, values)
    return process, process.kernel_
