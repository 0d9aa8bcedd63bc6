"""Types that a program can do without: another one serves all that they serve, no slower, no later and no dearer."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from hetserve.planning.problem import Problem, TypeOption

Floats = NDArray[np.float64]


def needless(
    problem: Problem,
    types: Sequence[TypeOption],
    means: Floats,
    misses: Floats,
    *,
    most: Sequence[int],
    charge: Sequence[int],
) -> frozenset[int]:
    """Types, by index, whose instances another type can replace one by one without loss.

    means: [type, class], service times, infinite where a class must not go. misses: [type, class]. most: [type], more
    instances serve nothing, or a limit; a type at its own limit replaces none. charge: [type], of launching one
    instance. One takes the place of one, so bounds on all types together stay kept.
    """
    faster = (means[None] <= means[:, None]).all(axis=2)
    surer = ((misses[None] <= misses[:, None]) | np.isinf(means[:, None])).all(axis=2)
    price, launch = np.array([o.price for o in types]), np.array(charge)
    cheaper = (price <= price[:, None]) & (launch <= launch[:, None])
    limited = {pool.name for pool in problem.pools}
    free = np.array([n < o.most and o.pool not in limited for o, n in zip(types, most, strict=True)])
    kept = np.array([o.running > 0 for o in types]) & launch.any()
    # [i, j]: j replaces i.
    replaces = faster & surer & cheaper & free & ~kept[:, None]
    np.fill_diagonal(replaces, val=False)
    alike = replaces & replaces.T
    replaces &= ~(alike & np.triu(np.ones_like(alike), 1))
    return frozenset(np.flatnonzero(replaces.any(axis=1)).tolist())
