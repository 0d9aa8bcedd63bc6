"""Fluid bound: the highest rate that instances could carry if queries were a fluid that never waits.

    max R  s.t.  sum_t x[t,b] + dropped[b] = R p[b]   each batch size b is served in full
                 sum_b x[t,b] mean[t,b] <= n_t        each type has its time
                 sum_b dropped[b] <= d R              x[t,b] only if mean[t,b] is within the SLO

In the long run a dispatcher exceeds it only if it drops or serves late more than a share d of the queries.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from hetserve.demand import BatchMix
from hetserve.dispatch.latency import LatencyModel, fastest_first

if TYPE_CHECKING:
    from scipy.sparse import csr_array


def fluid_bound(model: LatencyModel, counts: Sequence[int], mix: BatchMix, drop: float = 0.0) -> float:
    """Fluid bound of a configuration [queries/s].

    counts: by type of the model. drop: share of queries that may be dropped. 0 if some batch cannot be served within
    the SLO nor dropped. Raises ValueError for counts that do not fit, a batch that the model lacks, or a drop outside
    [0, 1).
    """
    from scipy.optimize import linprog  # noqa: PLC0415  slow to import

    if len(counts) != len(model.types) or any(count < 0 for count in counts):
        raise ValueError(f"counts {list(counts)}: need {len(model.types)} of at least 0, one per type")
    if not 0 <= drop < 1:
        raise ValueError(f"drop {drop}: must be at least 0 and below 1")
    mean, number = model.arrays.mean[:, [model.size_of(batch) for batch in mix.batches]], np.array(counts, np.float64)
    # The solver's last bits depend on the order of the types, which must not matter.
    order = fastest_first(mean, number[:, None])
    mean, number, slo = mean[order], number[order], model.arrays.slo
    balance, budget = _constraints(mix, drop, mean / slo, (mean <= slo) & (number > 0)[:, None])
    objective = np.zeros(balance.shape[1])
    objective[-1] = -1.0
    limits, nothing = np.append(number, 0.0), np.zeros(len(mix.batches))
    found = linprog(objective, A_ub=budget, b_ub=limits, A_eq=balance, b_eq=nothing, method="highs")
    if found.status != 0:
        raise RuntimeError(f"the fluid bound was not solved: {found.message}")
    return float(found.x[-1]) / slo


def _constraints(
    mix: BatchMix, drop: float, times: NDArray[np.float64], usable: NDArray[np.bool_]
) -> tuple[csr_array, csr_array]:
    """Balance of every batch (= 0); time of every type and the share dropped (<=).

    times: [type, batch], in SLOs. Variables: a flow per usable (type, batch), a dropped flow per batch, the rate.
    """
    from scipy.sparse import coo_array  # noqa: PLC0415

    kinds, batches = np.nonzero(usable)
    types, n, m = len(times), len(kinds), len(mix.batches)
    every = np.arange(m)
    served = np.concatenate([np.ones(n + m), -np.array(mix.shares)])
    of_batch = np.concatenate([batches, every, every]), np.concatenate([np.arange(n + m), np.full(m, n + m)])
    spent = np.concatenate([times[kinds, batches], np.ones(m), [-drop]])
    of_type = np.concatenate([kinds, np.full(m + 1, types)]), np.arange(n + m + 1)
    balance = coo_array((served, of_batch), shape=(m, n + m + 1))
    budget = coo_array((spent, of_type), shape=(types + 1, n + m + 1))
    return balance.tocsr(), budget.tocsr()
