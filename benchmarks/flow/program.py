"""The fluid program, a second time and by another solver interface: candidates and bounds for the judge.

    max R  or  min sum_t price_t n_t
    sum_t x_tc = R w_c           every class of batches is served
    sum_c x_tc mean_tc <= n_t    every type has its time
    sum eps_tc x_tc <= delta R   few enough miss the SLO, eps = P(service > SLO - wait)

It shares no code with the planner. Times are in SLOs.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import LinearConstraint, linprog, milp
from scipy.sparse import coo_array, csr_array

from hetserve.planning import Problem
from hetserve.profiles import DenseLatency, LatencyProfile, dense

Floats = NDArray[np.float64]
Places = NDArray[np.intp]

MARGINS: Final = ((0.0, 0.2), (0.0, 0.5), (0.05, 0.5), (0.1, 0.2), (0.1, 0.8), (0.2, 0.5), (0.3, 0.5))
"""Wait as a share of the SLO, and the share of the percentile's misses that service times may spend."""
CLASSES: Final = 48
GAP: Final = 1e-3
_SECONDS: Final = 5.0
_NEVER: Final = 1e6


@dataclass(frozen=True, slots=True, eq=False)
class Classes:
    """weights: [class]. times: [type, class], mean in SLOs, infinite if not servable. late: [type, class]."""

    weights: Floats
    times: Floats
    late: Floats


def classes_of(given: Problem, wait: float = 0.0, most: int | None = None) -> Classes:
    """Every batch, or at most `most` groups of neighbours, each with its means; wait: share of the SLO."""
    served = _served(tuple(option.profile for option in given.types), given.mix.batches)
    drawn = served.means * np.trapezoid(served.ratios, served.probabilities, axis=-1)
    weights, times = np.array(given.mix.shares), drawn / given.slo.latency
    late = np.ones(times.shape)
    for kind, batch in zip(*np.nonzero(np.isfinite(times)), strict=True):
        ratio = (1 - wait) * given.slo.latency / served.means[kind, batch]
        late[kind, batch] = 1 - _in_time(ratio, served.ratios[kind, batch], served.probabilities)
    if most is None or len(weights) <= most:
        return Classes(weights, times, late)
    return _merged(weights, times, late, most)


@lru_cache(maxsize=4)
def _served(profiles: tuple[LatencyProfile, ...], batches: tuple[int, ...]) -> DenseLatency:
    return dense(profiles, batches)


def _in_time(ratio: float, ratios: Floats, probabilities: Floats) -> float:
    """Probability of at most `ratio`; where the distribution jumps, the upper one."""
    below = float(np.interp(ratio, ratios, probabilities, left=0.0, right=1.0))
    return float(probabilities[ratios <= ratio * (1 + 1e-9)].max(initial=below))


def _merged(weights: Floats, times: Floats, late: Floats, most: int) -> Classes:
    """Groups of nearly equal share of work on the first type that serves all."""
    work = np.cumsum(weights * np.where(np.isfinite(times), times, 0).max(axis=0))
    group = np.minimum((work / work[-1] * most).astype(int), most - 1)
    kept = np.unique(group)
    total = np.array([weights[group == g].sum() for g in kept])

    def mean(values: Floats) -> Floats:
        means = [[np.dot(row[group == g], weights[group == g]) for g in kept] for row in values]
        return np.asarray(np.array(means) / total)

    return Classes(total, mean(times), mean(late))


def fluid_limit(given: Problem, numbers: tuple[int, ...], classes: Classes) -> float:
    """Rate [queries/s] that no dispatcher exceeds at these counts if it serves every query; classes: every batch."""
    kinds, of = np.nonzero(np.isfinite(classes.times) & (np.array(numbers) > 0)[:, None])
    columns = len(kinds) + 1
    allowed = 1 - given.slo.percentile / 100
    balance, limits = _rows(classes, (kinds, of), allowed, columns)
    room = np.append(np.array(numbers, dtype=float), 0.0)
    cost = np.zeros(columns)
    cost[-1] = -1
    found = linprog(cost, A_ub=limits, b_ub=room, A_eq=balance, b_eq=np.zeros(len(classes.weights)), method="highs")
    return float(found.x[-1]) / given.slo.latency if found.status == 0 else 0.0


def best_counts(
    given: Problem, classes: Classes, delta: float, load: float | None = None
) -> tuple[tuple[int, ...], float] | None:
    """Counts of the program, and its rate [queries/s]; None: infeasible, or no answer in time.

    delta: share of misses. load: least cost for it; None: most throughput within the budget. No class goes where a
    tenth of it is late.
    """
    found = _solved(given, classes, delta, load, most_late=max(10 * delta, 0.1))
    if found.x is None:
        return None
    types = len(given.types)
    return tuple(int(n) for n in np.rint(found.x[-types:])), float(found.x[-types - 1]) / given.slo.latency


def ceiling(given: Problem, classes: Classes) -> float | None:
    """Rate [queries/s] that no configuration within the budget exceeds; None: no answer in time."""
    found = _solved(given, classes, 1 - given.slo.percentile / 100, None, most_late=1.0)
    bound = found.mip_dual_bound
    return None if bound is None else -float(bound) / given.slo.latency


def _solved(given: Problem, classes: Classes, delta: float, load: float | None, *, most_late: float) -> Any:
    """Columns: flows, rate, counts."""
    kinds, of = np.nonzero(np.isfinite(classes.times) & (classes.late <= most_late))
    flows, types = len(kinds), len(given.types)
    columns = flows + 1 + types
    balance, limits = _rows(classes, (kinds, of), delta, columns, types)
    prices = np.array([option.price for option in given.types]) / 1e6
    rows: list[Any] = [LinearConstraint(balance, 0, 0), LinearConstraint(limits, -np.inf, 0)]
    cost = np.zeros(columns)
    low, high = np.zeros(columns), np.full(columns, np.inf)
    high[flows + 1 :] = [_NEVER if option.max_instances is None else option.max_instances for option in given.types]
    if load is None:
        cost[flows] = -1
        rows.append(LinearConstraint(np.append(np.zeros(flows + 1), prices), -np.inf, (given.budget or 0) / 1e6))
    else:
        cost[flows + 1 :] = prices
        low[flows] = high[flows] = load * given.slo.latency
    integral = np.append(np.zeros(flows + 1), np.ones(types))
    options = {"mip_rel_gap": GAP, "time_limit": _SECONDS}
    return milp(cost, constraints=rows, integrality=integral, bounds=(low, high), options=options)


def _rows(
    classes: Classes, arcs: tuple[Places, Places], delta: float, columns: int, types: int = 0
) -> tuple[csr_array, csr_array]:
    """Balance of every class; time of every type and misses. Columns: flows, rate, then counts if `types`.

    arcs: type and class of every flow.
    """
    kinds, of = arcs
    flows, every = len(kinds), np.arange(len(classes.weights))
    served = np.concatenate([np.ones(flows), -classes.weights])
    where = np.concatenate([of, every]), np.concatenate([np.arange(flows), np.full(len(every), flows)])
    balance = coo_array((served, where), shape=(len(every), columns)).tocsr()
    kind_rows, last = len(classes.times), len(classes.times)
    spent = [classes.times[kinds, of], classes.late[kinds, of], np.array([-delta]), -np.ones(types)]
    rows = [kinds, np.full(flows, last), np.array([last]), np.arange(types)]
    cols = [np.arange(flows), np.arange(flows), np.array([flows]), flows + 1 + np.arange(types)]
    limits = coo_array(
        (np.concatenate(spent), (np.concatenate(rows), np.concatenate(cols))), shape=(kind_rows + 1, columns)
    )
    return balance, limits.tocsr()
