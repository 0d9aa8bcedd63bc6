"""Bounds as whole numbers: sums are exact, and equal bounds compare equal.

Rates are multiples of 2**-50 of an upper limit of all bounds. Two bounds tie if they round to the same multiple of
2**-36 (1.5e-11) of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from hetserve.planning.kbest.space import Floats, Ints, Space

FINE: Final = 2.0**50
UNIT: Final = 2.0**14
"""Fine steps per step of a key."""


@dataclass(frozen=True, slots=True, eq=False)
class Grid:
    """Rates in fine steps. If auxiliary i leads, the bound is u base + min(sum of v_j weights[i, j], u slack[i]).

    That is min(u Q_b + (t/f) A, u Q_b / (1 - t)). slack: infinite without a plateau. scale: queries/s of a fine step.
    """

    base: float
    weights: Floats
    slack: Floats
    scale: float

    def keys(self, space: Space, counts: Ints) -> Floats:
        """Key [configuration]: higher is better; equal bounds have equal keys."""
        u = counts[:, 0].astype(np.float64)
        if counts.shape[1] == 1:
            return key_of(u * self.base)
        order = np.array(space.leading)
        present = counts[:, 1:] > 0
        leader = order[np.argmax(present[:, order], axis=1)]
        served = np.empty(len(counts))
        for i in range(len(order)):
            rows = leader == i
            served[rows] = counts[rows, 1:] @ self.weights[i]
        # u is at least 1: an infinite slack stays infinite.
        served = np.where(present.any(axis=1), np.minimum(served, u * self.slack[leader]), 0.0)
        return key_of(u * self.base + served)

    def key_for(self, qps: float) -> float:
        """Lowest key of bounds of at least `qps`."""
        return float(np.ceil(qps / self.scale / UNIT))


def key_of(fine: Floats) -> Floats:
    return np.asarray(np.floor((fine + UNIT / 2) / UNIT))


def grid_of(space: Space) -> Grid:
    useful = (space.f > 0) & (space.t > 0)
    ratio = np.divide(space.t, space.f, out=np.zeros_like(space.t), where=useful)
    weights = space.q_aux * ratio[:, None]
    below = useful & (space.t < 1)
    slack = np.where(useful, np.inf, 0.0)
    slack[below] = space.q_base * space.t[below] / (1 - space.t[below])
    ceiling = _ceiling(space, weights, slack)
    step = FINE / ceiling
    return Grid(
        base=float(np.round(space.q_base * step)),
        weights=np.minimum(np.round(weights * step), FINE),
        slack=np.where(slack * step > FINE, np.inf, np.round(np.where(np.isinf(slack), 0, slack) * step)),
        scale=ceiling / FINE,
    )


def _ceiling(space: Space, weights: Floats, slack: Floats) -> float:
    """Upper limit of all bounds: by money (fractional knapsack), or by the base that money buys."""
    bases = float(space.most[0])
    highest = bases * space.q_base
    spend = (space.most * space.prices).astype(np.float64)
    per_price = np.empty(len(space.prices))
    per_price[0] = space.q_base / space.prices[0]
    for i in range(len(space.limits)):
        allowed = np.concatenate([[True], space.limits <= space.limits[i]])
        per_price[1:] = weights[i] / space.prices[1:]
        order = np.argsort(-np.where(allowed, per_price, 0.0), kind="stable")
        money = np.minimum(np.cumsum(spend[order]), float(space.budget))
        share = np.diff(money, prepend=0.0)
        by_money = float((share * np.where(allowed, per_price, 0.0)[order]).sum())
        highest = max(highest, min(by_money, bases * (space.q_base + float(slack[i]))))
    return highest
