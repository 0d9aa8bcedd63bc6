"""Kairos's upper bound for one configuration: as printed, and in closed form; exact with Fractions."""

from __future__ import annotations

from fractions import Fraction
from typing import TypeVar

Number = TypeVar("Number", float, Fraction)


def base_rate_for_large(q_base: Number, f: Number, t: Number) -> Number | None:
    """Q_b^{s+}: rate of one base instance on queries larger than s; None if t = 1.

    A share f of queries is small and takes a share t of its time.
    """
    if t >= 1:
        return None
    return q_base * (1 - f) / (1 - t)


def paper_bound(u: int, q_base: Number, q_base_large: Number | None, aux_rate: Number, f: Number) -> Number:
    """Upper bound as printed (HPDC'23, Eq. 14 and 15), queries/s.

    u: base instances; q_base: Q_b; q_base_large: Q_b^{s+}; aux_rate: sum of v_i Q_a^i; f: share of queries of at most s
    items. f = 0 or no auxiliary rate: the base alone. f = 1: the rates add up.
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
    """Upper bound in closed form, queries/s: min(u Q_b + (t/f) A, u Q_b / (1 - t))."""
    base_rate = u * q_base
    if f <= 0 or t <= 0:
        return base_rate
    linear = base_rate + t / f * aux_rate
    return linear if t >= 1 else min(linear, base_rate / (1 - t))
