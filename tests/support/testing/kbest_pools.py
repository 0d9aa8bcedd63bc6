"""Seeded pools of configurations."""

from __future__ import annotations

from random import Random
from typing import Final

import numpy as np

from hetserve.planning.kbest.best import Space

FAMILIES: Final = ("plain", "tied", "nearly-all", "bases", "proportional", "coarse", "few")
"""plain: random. tied: few prices, rates and limits. nearly-all: auxiliaries cover up to 99.9 % of the queries.

bases: five types serve every batch. proportional: rates per price within a percent. coarse: whole cents and rates. few:
if capped, 1 to 5 of each.
"""


def full_pool(
    seed: int, family: str, *, capped: bool, types: int = 20, budget: int = 100_000_000, cent: int = 100
) -> Space:
    """20 types at 100 $/h by default; cent: prices are multiples of it, micro-dollars."""
    source = Random(f"{family}-{seed}-{capped}")  # noqa: S311
    step = {"tied": 100_000, "coarse": 10_000}.get(family, cent)
    prices = [_price(source, family, step) for _ in range(types)]
    limits = [source.randint(100, 900) for _ in range(types - 1)]
    if family == "tied":
        limits = [source.choice((200, 400, 800)) for _ in limits]
    if family == "bases":
        limits = [1000 if i < 5 else limit for i, limit in enumerate(limits)]
    most_covered = 0.999 if family == "nearly-all" else 0.97
    f = [1.0 if limit == 1000 else 0.2 + (most_covered - 0.2) * (limit / 900) ** 0.5 for limit in limits]
    base = source.uniform(10, 100)
    rates = [_rate(source, family, base / prices[0] * price) for price in prices[1:]]
    # The smaller the auxiliaries' queries, the more they serve.
    q_aux = [[rate * (1.8 - 0.8 * limit / 1000) for rate in rates] for limit in limits]
    most = [budget // price for price in prices]
    if capped:
        top = 5 if family == "few" else 30
        most = [min(m, source.randint(1 if family == "few" else 0, top)) for m in most]
        most[0] = max(most[0], 1)
    t = [share**1.7 for share in f]
    return space(budget, prices, most, base, limits=limits, f=f, t=t, q_aux=q_aux)


def space(
    budget: int,
    prices: list[int],
    most: list[int],
    base: float,
    *,
    limits: list[int],
    f: list[float],
    t: list[float],
    q_aux: list[list[float]],
) -> Space:
    """Space without shared resources, at least one base."""
    size = len(prices)
    least = np.zeros(size, np.int64)
    least[0] = 1
    return Space(
        budget=budget,
        prices=np.array(prices, np.int64),
        least=least,
        most=np.array(most, np.int64),
        q_base=base,
        limits=np.array(limits, np.int64),
        f=np.array(f, np.float64),
        t=np.array(t, np.float64),
        q_aux=np.array(q_aux, np.float64).reshape(size - 1, size - 1),
        demand=np.zeros((0, size), np.int64),
        free=np.zeros(0, np.int64),
        running=np.zeros(size, np.int64),
    )


def small_pool(seed: int) -> Space:
    """Up to five types with few prices, rates and limits, minima, caps, shared resources, and edges of f and t."""
    source = Random(f"small-{seed}")  # noqa: S311
    size = source.randint(0, 4)
    cent = source.choice((100_000, 50_000, 10_000, 1000))
    prices = [source.randint(1, 12) * cent for _ in range(size + 1)]
    f = {2: source.choice((0.0, 0.2, 0.5)), 3: source.choice((0.5, 0.8)), 5: source.choice((0.9, 1.0, 1.0))}
    t = {2: f[2] / source.choice((1, 2, 3)), 3: f[3] / source.choice((1, 2)), 5: 1.0 if f[5] == 1 else 0.75}
    t[3] = max(t[2], t[3])
    limits = [source.choice((2, 3, 5)) for _ in range(size)]
    rates = [source.randint(0, 5) * source.choice((1.0, 1 / 3, 2.0)) for _ in range(size)]
    q_aux = [[rate * {2: 1.5, 3: 1.2, 5: 1.0}[limit] for rate in rates] for limit in limits]
    budget = source.randint(1, 30) * source.choice((cent, 10 * cent // 4, 77_777))
    most = [min(budget // price, source.choice((99, 99, 99, 1, 2, 3, 0))) for price in prices]
    plain = space(
        budget,
        prices,
        most,
        source.randint(1, 6) * source.choice((1.0, 10.0, 1 / 3)),
        limits=limits,
        f=[f[limit] for limit in limits],
        t=[t[limit] for limit in limits],
        q_aux=q_aux,
    )
    for i in range(size):
        plain.least[1 + i] = source.choice((0,) * 12 + (1, 2))
    return _with_resources(plain, source)


def _with_resources(plain: Space, source: Random) -> Space:
    rows, size = source.choice((0, 0, 0, 1, 2)), len(plain.prices)
    demand = np.array([[source.randint(0, 3) for _ in range(size)] for _ in range(rows)], np.int64)
    return Space(
        plain.budget,
        plain.prices,
        plain.least,
        plain.most,
        plain.q_base,
        plain.limits,
        plain.f,
        plain.t,
        plain.q_aux,
        demand.reshape(rows, size),
        np.array([source.randint(0, 20) for _ in range(rows)], np.int64),
        np.array([source.choice((0, 0, 1, 3)) for _ in range(size)], np.int64),
    )


def _price(source: Random, family: str, step: int) -> int:
    if family == "tied":
        return source.choice((1, 2, 3, 4, 6)) * step
    return max(round(10 ** source.uniform(-1.3, 0.6) * 1e6 / step), 1) * step


def _rate(source: Random, family: str, fair: float) -> float:
    if family == "tied":
        return fair * source.choice((0.5, 1.0, 1.0, 2.0))
    spread = 0.005 if family == "proportional" else 0.3
    rate = fair * 10 ** source.uniform(-spread, spread)
    return float(max(round(rate), 1)) if family == "coarse" else rate
