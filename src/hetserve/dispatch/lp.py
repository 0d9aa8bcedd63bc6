"""Fluid bound: the highest rate that instances could carry if queries were a fluid that never waits.

    max R  s.t.  sum_t x[t,b] + dropped[b] = R p[b]   each batch size b is served in full
                 sum_b x[t,b] mean[t,b] <= n_t        each type has its time
                 sum_b dropped[b] <= d R              x[t,b] only if mean[t,b] is within the SLO

In the long run a dispatcher exceeds it only if it drops or serves late more than a share d of the queries.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from hetserve.demand import BatchMix
from hetserve.dispatch.latency import LatencyModel, fastest_first

if TYPE_CHECKING:
    from scipy.sparse import csr_array


@dataclass(frozen=True, slots=True, eq=False)
class FluidBound:
    """rate: queries/s. shares: [type, batch of the mix], summing to 1 with dropped.

    utilisation: by type. dropped: share of all queries. time_prices: by type, queries/s of one more instance (dual).
    """

    rate: float
    shares: NDArray[np.float64]
    utilisation: Mapping[str, float]
    dropped: float
    time_prices: Mapping[str, float]


def fluid_bound(model: LatencyModel, counts: Sequence[int], mix: BatchMix, drop: float = 0.0) -> FluidBound:
    """Fluid bound of a configuration.

    counts: by type of the model. drop: share of queries that may be dropped. Rate 0 if some batch cannot be served
    within the SLO nor dropped. Raises ValueError for counts that do not fit, a batch that the model lacks, or a drop
    outside [0, 1).
    """
    if len(counts) != len(model.types) or any(count < 0 for count in counts):
        raise ValueError(f"counts {list(counts)}: need {len(model.types)} of at least 0, one per type")
    if not 0 <= drop < 1:
        raise ValueError(f"drop {drop}: must be at least 0 and below 1")
    sizes = np.array([model.size_of(batch) for batch in mix.batches])
    mean, number = model.arrays.mean[:, sizes], np.array(counts, dtype=np.float64)
    # The solver's last bits depend on the order of the types, which must not matter.
    order = fastest_first(mean, number[:, None])
    found = _solve(tuple(model.types[t] for t in order), number[order], mix, drop, mean[order], model.arrays.slo)
    return replace(found, shares=found.shares[np.argsort(order)])


def _solve(
    types: tuple[str, ...],
    counts: NDArray[np.float64],
    mix: BatchMix,
    drop: float,
    mean: NDArray[np.float64],
    slo: float,
) -> FluidBound:
    """Variables: a flow per usable (type, batch), a dropped flow per batch, the rate; time in SLOs."""
    from scipy.optimize import linprog  # noqa: PLC0415  slow to import

    kinds, batches = np.nonzero((mean <= slo) & (counts > 0)[:, None])
    balance, budget = _constraints(len(types), mix, drop, mean / slo, kinds, batches)
    objective = np.zeros(balance.shape[1])
    objective[-1] = -1.0
    found = linprog(
        objective,
        A_ub=budget,
        b_ub=np.append(counts, 0.0),
        A_eq=balance,
        b_eq=np.zeros(len(mix.batches)),
        method="highs",
    )
    if found.status != 0:
        raise RuntimeError(f"the fluid bound was not solved: {found.message}")
    prices = -found.ineqlin.marginals[: len(types)] / slo
    return _bound(types, counts, mix, mean / slo, kinds, batches, found.x, prices, float(found.x[-1]) / slo)


def _constraints(
    types: int,
    mix: BatchMix,
    drop: float,
    times: NDArray[np.float64],
    kinds: NDArray[np.intp],
    batches: NDArray[np.intp],
) -> tuple[csr_array, csr_array]:
    """Balance of every batch (= 0); time of every type and the share dropped (<=)."""
    from scipy.sparse import coo_array  # noqa: PLC0415

    n, m = len(kinds), len(mix.batches)
    every = np.arange(m)
    served = np.concatenate([np.ones(n + m), -np.array(mix.shares)])
    of_batch = np.concatenate([batches, every, every]), np.concatenate([np.arange(n + m), np.full(m, n + m)])
    spent = np.concatenate([times[kinds, batches], np.ones(m), [-drop]])
    of_type = np.concatenate([kinds, np.full(m + 1, types)]), np.arange(n + m + 1)
    balance = coo_array((served, of_batch), shape=(m, n + m + 1))
    budget = coo_array((spent, of_type), shape=(types + 1, n + m + 1))
    return balance.tocsr(), budget.tocsr()


def _bound(
    types: tuple[str, ...],
    counts: NDArray[np.float64],
    mix: BatchMix,
    times: NDArray[np.float64],
    kinds: NDArray[np.intp],
    batches: NDArray[np.intp],
    solution: NDArray[np.float64],
    prices: NDArray[np.float64],
    rate: float,
) -> FluidBound:
    shares = np.zeros(times.shape)
    if rate > 0:
        shares[kinds, batches] = solution[: len(kinds)] / (solution[-1] * np.array(mix.shares)[batches])
    time = np.zeros(len(counts))
    np.add.at(time, kinds, solution[: len(kinds)] * times[kinds, batches])
    use = {name: float(t / n) if n else 0.0 for name, t, n in zip(types, time, counts, strict=True)}
    dropped = float(solution[len(kinds) : -1].sum() / solution[-1]) if rate > 0 else 0.0
    return FluidBound(rate, shares, use, dropped, dict(zip(types, prices.tolist(), strict=True)))
