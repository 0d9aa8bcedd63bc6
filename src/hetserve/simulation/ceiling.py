"""The most that instances serve in the long run, however late: from there on every backlog grows, run or not."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from hetserve.demand import BatchMix
from hetserve.dispatch import LatencyModel
from hetserve.dispatch.lp import fluid_bound
from hetserve.simulation.system import System


def ceiling(system: System, counts: Mapping[str, int], mix: BatchMix) -> float:
    """Rate [queries/s] of the fluid bound without its SLO: a query may run on any type that serves its batch at all.

    Above the fluid bound, since p99 lets one query in a hundred be late, and cheap types serve those. From the mean
    of the service times that are drawn, not of the profile; 0 where some batch is served by no instance.
    """
    served = system.served
    ratios = np.trapezoid(served.ratios, served.probabilities, axis=-1)
    mean = served.means * ratios
    slo = 2 * float(mean[np.isfinite(mean)].max())
    model = LatencyModel.of(system.types, served.batches.tolist(), mean, slo)
    return fluid_bound(model, [counts.get(name, 0) for name in system.types], mix).rate
