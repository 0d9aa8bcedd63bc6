"""The flow program by brute force: every count in turn, and SciPy's linear program for the flow.

Shares with the planner only what a Margin is.
"""

from __future__ import annotations

import itertools
import math
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog
from scipy.sparse import block_diag, csr_array, identity, kron

from hetserve.planning import Problem, TypeOption
from hetserve.planning.flow.programs.program import Margin
from hetserve.profiles import Spread

Floats = NDArray[np.float64]
Values = tuple[int, ...]
"""Instances by type, in the problem's order."""


def late_share(spread: Spread, ratio: float) -> float:
    """Share of the queries whose latency is above `ratio` times the mean."""
    i = bisect_right(spread.ratios, ratio)
    if i in {0, len(spread.ratios)}:
        return 1.0 if i == 0 else 0.0
    (low, high), (left, right) = spread.ratios[i - 1 : i + 1], spread.probabilities[i - 1 : i + 1]
    return 1 - left - (right - left) * (ratio - low) / (high - low)


def service(option: TypeOption, batch: int, limit: float) -> tuple[float, float]:
    """Mean service time in seconds, infinite if not servable, and the share that takes longer than `limit`."""
    mean, spread = option.profile.mean(batch), option.profile.spread(batch)
    if mean is None or spread is None:
        return math.inf, 1.0
    return mean * spread.mean, late_share(spread, limit / mean)


def rates(problem: Problem, margin: Margin, held: Sequence[Values]) -> list[float]:
    """Highest fluid rate [queries/s] of each of these counts; 0: some batch is not served."""
    if not held:
        return []
    flows, work, late = _columns(problem, margin)
    shares = problem.mix.shares
    balance = np.zeros((len(shares), len(flows) + 1))
    spent = np.zeros((len(problem.types) + 1, len(flows) + 1))
    balance[:, -1] = [-share for share in shares]
    for column, (t, b) in enumerate(flows):
        balance[b, column], spent[t, column], spent[-1, column] = 1.0, work[column], late[column]
    spent[-1, -1] = -margin.late * (1 - problem.slo.percentile / 100)
    limits = [[margin.saturation * count for count in values] + [0.0] for values in held]
    blocks = identity(len(held))
    answer = linprog(
        np.tile([0.0] * len(flows) + [-1.0], len(held)),
        A_ub=csr_array(kron(blocks, spent)),
        b_ub=np.ravel(limits),
        A_eq=csr_array(block_diag([balance] * len(held))),
        b_eq=np.zeros(len(shares) * len(held)),
        method="highs",
    )
    if answer.status != 0:
        raise RuntimeError(f"the linear program was not solved: {answer.message}")
    return [max(float(rate), 0.0) for rate in answer.x[len(flows) :: len(flows) + 1]]


def _columns(problem: Problem, margin: Margin) -> tuple[list[tuple[int, int]], list[float], list[float]]:
    """(type, batch) of every flow, its seconds a query, and the share of it that is late."""
    limit = problem.slo.latency * (1 - margin.wait)
    flows, work, late = [], [], []
    for (t, option), (b, batch) in itertools.product(enumerate(problem.types), enumerate(problem.mix.batches)):
        mean, missed = service(option, batch, limit)
        if math.isfinite(mean) and missed <= margin.most_late:
            flows.append((t, b))
            work.append(mean)
            late.append(missed)
    return flows, work, late


def allowed(problem: Problem, values: Values, budget: int | None) -> bool:
    """Whether limits, pools and a budget [micro-dollars/h] allow these counts."""
    held = list(zip(problem.types, values, strict=True))
    if any(count < option.min_instances or count > option.most for option, count in held):
        return False
    most = sum(values) if problem.most_total is None else problem.most_total
    if not problem.least_total <= sum(values) <= most:
        return False
    if budget is not None and cost(problem, values) > budget:
        return False
    for pool in problem.pools:
        new = [(option.demand, count - option.running) for option, count in held if option.pool == pool.name]
        for name in ("cpu", "memory", "gpu_memory", "gpus"):
            taken = sum(getattr(demand, name) * more for demand, more in new if more > 0)
            if taken > max(getattr(pool.free, name), 0):
                return False
    return True


def cost(problem: Problem, values: Values) -> int:
    """Micro-dollars/h."""
    return sum(option.price * count for option, count in zip(problem.types, values, strict=True))


def objective(problem: Problem, values: Values) -> int:
    """Cost, and price x lambda x launch time of each new instance, micro-dollars/h."""
    charges = (
        round(Fraction(option.price) * Fraction(problem.launch_weight) * Fraction(option.launch_time))
        * max(count - option.running, 0)
        for option, count in zip(problem.types, values, strict=True)
    )
    return cost(problem, values) + sum(charges)


def within_budget(problem: Problem, budget: int) -> list[Values]:
    """Everything that a budget buys and the limits allow."""
    return _every(problem, [min(option.most, budget // option.price) for option in problem.types], budget)


def enough(problem: Problem, load: float, saturation: float, budget: int | None) -> list[Values]:
    """All counts that a least cost may have: no type with more than it needs to serve every batch that it can, or
    to make the least total."""
    most = []
    for option in problem.types:
        pairs = zip(problem.mix.batches, problem.mix.shares, strict=True)
        means = ((service(option, batch, math.inf)[0], share) for batch, share in pairs)
        work = math.fsum(mean * share for mean, share in means if math.isfinite(mean))
        needed = max(math.ceil(load * work / saturation), problem.least_total)
        most.append(min(option.most, max(needed, option.min_instances)))
    return _every(problem, most, budget)


def _every(problem: Problem, most: Sequence[int], budget: int | None) -> list[Values]:
    ranges = (range(option.min_instances, top + 1) for option, top in zip(problem.types, most, strict=True))
    return [values for values in itertools.product(*ranges) if allowed(problem, values, budget)]


def highest_rate(problem: Problem, margin: Margin, budget: int) -> float:
    """The most queries/s of all that the budget buys; 0: nothing serves every batch."""
    return max(rates(problem, margin, within_budget(problem, budget)), default=0.0)


def lowest_objective(problem: Problem, margin: Margin, load: float, budget: int | None) -> int | None:
    """The least cost with launch charges of all that carries a load; None: nothing does."""
    held = enough(problem, load, margin.saturation, budget)
    return min(_carrying(problem, margin, load, held), default=None)


def _carrying(problem: Problem, margin: Margin, load: float, held: Sequence[Values]) -> Iterator[int]:
    found = zip(held, rates(problem, margin, held), strict=True)
    return (objective(problem, values) for values, rate in found if rate >= load * (1 - 1e-7))
