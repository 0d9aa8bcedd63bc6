"""Kairos's upper bound on throughput, a pure function of rates (HPDC'23, section 5.2, Eq. 9-15).

u base instances serve Q_b queries/s each. The auxiliaries serve A = sum of v_i Q_a^i queries/s of at most s items: a
share f of all queries, a share t of the base's time. With several auxiliary types f, t and s are maxima over those
present, and every Q_a^i is at that s.

The bound is min(u Q_b + (t/f) A, u Q_b / (1 - t)). It equals Eq. 14 and 15 with Q_b^{s+} = Q_b (1 - f) / (1 - t),
without their division by 1 - f, which may round to 0.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hetserve.planning.configurations import Ints
from hetserve.planning.rates import Rates

Floats = NDArray[np.float64]


def closed_bounds(u: Floats, q_base: float, aux_rate: Floats, f: Floats, t: Floats) -> Floats:
    """Bounds in closed form, queries/s; every array is [configuration]."""
    base_rate = u * q_base
    useful = (f > 0) & (t > 0)
    slope = np.divide(t, f, out=np.zeros_like(t), where=useful)
    rest = np.where(useful & (t < 1), 1 - t, 1.0)
    plateau = np.where(useful & (t >= 1), np.inf, base_rate / rest)
    return np.minimum(base_rate + slope * aux_rate, plateau)


def configuration_bounds(rates: Rates, counts: Ints) -> Floats:
    """Upper bound of every configuration, queries/s.

    counts: [configuration, type], the base first, then as in `rates`. The present auxiliary with the largest s gives f,
    t and s.
    """
    u = counts[:, 0].astype(np.float64)
    if not rates.auxiliaries:
        return u * rates.q_base
    present = counts[:, 1:] > 0
    order = sorted(range(len(rates.auxiliaries)), key=lambda i: (-rates.auxiliaries[i].limit, i))
    leader = np.asarray(order)[np.argmax(present[:, order], axis=1)]
    f = np.array([aux.f for aux in rates.auxiliaries])[leader]
    t = np.array([aux.t for aux in rates.auxiliaries])[leader]
    aux_rate = (np.asarray(rates.q_aux)[leader] * counts[:, 1:]).sum(axis=1)
    alone = ~present.any(axis=1)
    return np.asarray(np.where(alone, u * rates.q_base, closed_bounds(u, rates.q_base, aux_rate, f, t)))
