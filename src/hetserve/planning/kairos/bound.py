"""Kairos's upper bound on throughput, a pure function of rates (HPDC'23, section 5.2, Eq. 9-15).

u base instances serve Q_b queries/s each over the whole mix. A = sum of v_i Q_a^i is what the auxiliary
instances serve of the queries of at most s items, a share f of all queries that takes a share t of the base's
time. The base serves the rest, the larger ones, at Q_b^{s+} = Q_b (1 - f) / (1 - t). With several auxiliary
types f, t and s are the maxima over the types present, and every Q_a^i is taken at that s.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

Number = TypeVar("Number", float, Fraction)
"""Fractions for whoever wants the exact value: nothing here rounds."""

Floats = NDArray[np.float64]


def base_rate_for_large(q_base: Number, f: Number, t: Number) -> Number | None:
    """Q_b^{s+}, the rate of one base instance on queries larger than s; None: they take it no time (t = 1).

    f queries in every one are small and take the share t of its time, so 1 - f of them take 1 - t.
    """
    if t >= 1:
        return None
    return q_base * (1 - f) / (1 - t)


def paper_bound(u: int, q_base: Number, q_base_large: Number | None, aux_rate: Number, f: Number) -> Number:
    """Upper bound as printed, Eq. 14 and 15, in queries/s.

    u: base instances; q_base: Q_b; q_base_large: Q_b^{s+}; aux_rate: sum of v_i Q_a^i; f: share of queries of
    at most s items. The edges that Eq. 14 divides by: f = 0 or no auxiliary rate leaves the base alone, f = 1
    leaves it no query that only it can serve, and the rates add up.
    """
    base_rate = u * q_base
    if f <= 0 or aux_rate <= 0:
        return base_rate
    if f >= 1:
        return base_rate + aux_rate
    if q_base_large is None:
        return base_rate + aux_rate / f
    large_rate = u * q_base_large
    offloaded = aux_rate * (1 - f) / f
    if large_rate <= offloaded:
        return large_rate / (1 - f)
    return aux_rate / f + (large_rate - offloaded) / large_rate * base_rate


def closed_bound(u: int, q_base: Number, aux_rate: Number, f: Number, t: Number) -> Number:
    """Upper bound in closed form, in queries/s: min(u Q_b + (t/f) A, u Q_b / (1 - t)).

    Equal to Eq. 14 and 15 (put Q_b^{s+} = Q_b (1 - f) / (1 - t) into both cases) and continuous where they
    meet. It divides by neither 1 - f nor Q_b^{s+}, so that an f rounded to 1 while t < 1 does no harm.
    """
    base_rate = u * q_base
    if f <= 0 or t <= 0:
        return base_rate
    linear = base_rate + t / f * aux_rate
    return linear if t >= 1 else min(linear, base_rate / (1 - t))


def closed_bounds(u: Floats, q_base: float, aux_rate: Floats, f: Floats, t: Floats) -> Floats:
    """`closed_bound` of many configurations at once; every array has one entry per configuration."""
    base_rate = u * q_base
    useful = (f > 0) & (t > 0)
    slope = np.divide(t, f, out=np.zeros_like(t), where=useful)
    rest = np.where(useful & (t < 1), 1 - t, 1.0)
    plateau = np.where(useful & (t >= 1), np.inf, base_rate / rest)
    return np.minimum(base_rate + slope * aux_rate, plateau)
