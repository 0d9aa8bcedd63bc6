"""Independent check of a plan; shares no code with the planners.

Sums are exact. Tolerances: 1e-9 of the SLO (floating point), 1e-6 of the load (MILP solvers).
"""

from __future__ import annotations

import bisect
import functools
import itertools
import math
from collections import Counter
from collections.abc import Iterator
from fractions import Fraction
from itertools import pairwise

from hetserve.planning.plan import Plan
from hetserve.planning.problem import Problem, TypeOption
from hetserve.profiles import LatencyProfile, Spread

_LATENCY_SLACK = 1e-9
_LOAD_SLACK = Fraction(1, 1_000_000)


def violations(problem: Problem, plan: Plan) -> tuple[str, ...]:
    """Promises that a feasible plan breaks, one sentence each."""
    if [name for name, _ in plan.counts] != [option.name for option in problem.types]:
        return (f"counts name {[name for name, _ in plan.counts]}, the problem has {[o.name for o in problem.types]}",)
    held = [(option, count) for option, (_, count) in zip(problem.types, plan.counts, strict=True)]
    return (
        *_count_violations(held),
        *_total_violations(problem, sum(count for _, count in held)),
        *_money_violations(problem, plan, held),
        *_pool_violations(problem, held),
        *_promise_violations(problem, plan, held),
    )


def _promise_violations(problem: Problem, plan: Plan, held: list[tuple[TypeOption, int]]) -> Iterator[str]:
    if plan.tried is not None:
        return _flows(problem, plan, held)
    return _carries_load(problem, plan, held) if plan.capacity_qps is not None else _serves_mix(problem, plan, held)


def _count_violations(held: list[tuple[TypeOption, int]]) -> Iterator[str]:
    for option, count in held:
        if count < 0:
            yield f"{count} instances of {option.name}: fewer than none"
        if count < option.min_instances:
            yield f"{count} instances of {option.name}: at least {option.min_instances} are wanted"
        if option.max_instances is not None and count > option.max_instances:
            yield f"{count} instances of {option.name}: at most {option.max_instances} are allowed"
    if all(count <= 0 for _, count in held):
        yield "the plan holds no instance and calls itself feasible"


def _total_violations(problem: Problem, total: int) -> Iterator[str]:
    if total < problem.least_total:
        yield f"{total} instances in all: at least {problem.least_total} are wanted"
    if problem.most_total is not None and total > problem.most_total:
        yield f"{total} instances in all: at most {problem.most_total} are allowed"


def _money_violations(problem: Problem, plan: Plan, held: list[tuple[TypeOption, int]]) -> Iterator[str]:
    cost = sum(option.price * count for option, count in held)
    if cost != plan.cost:
        yield f"the plan says it costs {plan.cost} micro-dollars/h, its instances cost {cost}"
    if problem.budget is not None and cost > problem.budget:
        yield f"the plan costs {cost} micro-dollars/h, the budget is {problem.budget}"


def _pool_violations(problem: Problem, held: list[tuple[TypeOption, int]]) -> Iterator[str]:
    for pool in problem.pools:
        new = [(option, count - option.running) for option, count in held if option.pool == pool.name]
        asked = [(option.demand, more) for option, more in new if more > 0]
        for resource, unit, used, free in (
            ("CPU", "millicores", sum(d.cpu * n for d, n in asked), pool.free.cpu),
            ("memory", "MiB", sum(d.memory * n for d, n in asked), pool.free.memory),
            ("GPU memory", "MiB", sum(d.gpu_memory * n for d, n in asked), pool.free.gpu_memory),
            ("GPUs", "places", sum(d.gpus * n for d, n in asked), pool.free.gpus),
        ):
            if used > max(free, 0):
                yield f"new instances take {used} {unit} of {resource} from pool {pool.name}, {free} are free"


def _serves_mix(problem: Problem, plan: Plan, held: list[tuple[TypeOption, int]]) -> Iterator[str]:
    """MaxThroughput: some type serves every batch, every type some."""
    limit = problem.slo.latency * (1 + _LATENCY_SLACK)
    everything = False
    for option, count in held:
        if count <= 0:
            continue
        kept = [(mean := option.profile.mean(batch)) is not None and mean <= limit for batch in problem.mix.batches]
        everything = everything or all(kept)
        if not any(kept):
            yield f"{option.name} serves no batch within the SLO"
    if not everything:
        yield "no type of the plan serves every batch of the mix within the SLO"
    if plan.bound_qps is None or not (math.isfinite(plan.bound_qps) and plan.bound_qps > 0):
        yield f"the bound is {plan.bound_qps} q/s"


def _flows(problem: Problem, plan: Plan, held: list[tuple[TypeOption, int]]) -> Iterator[str]:
    """Planner flow: its flow serves every batch, within each type's time and the share that may be late."""
    shares = dict(zip(problem.mix.batches, map(Fraction, problem.mix.shares), strict=True))
    ordered, total, late = sorted(shares), Fraction(0), Fraction(0)
    served: dict[tuple[int, int], Fraction] = {}
    busy = {option.name: Fraction(0) for option, _ in held}
    profiles = {option.name: option.profile for option, _ in held}
    for flow in plan.flow:
        rate, batches = Fraction(flow.qps), _between(flow.first, flow.last, ordered)
        whole = sum(shares[b] for b in batches) if len(batches) > 1 else 1
        total += rate
        served[flow.first, flow.last] = served.get((flow.first, flow.last), Fraction(0)) + rate
        for batch in batches:
            mean, misses = _service(profiles[flow.type], batch, problem.slo.latency)
            part = rate if len(batches) == 1 else rate * shares[batch] / whole
            busy[flow.type] += part * mean
            if misses:
                late += part * misses
    yield from _unserved(shares, served, total)
    for option, count in held:
        if busy[option.name] > count * (1 + _LOAD_SLACK):
            yield f"{option.name} is planned for {float(busy[option.name]):.6g} instances, there are {count}"
    if late > total * Fraction(1 - problem.slo.percentile / 100) * (1 + _LOAD_SLACK):
        yield f"{float(late / total):.3%} of the queries are late by plan, more than the SLO allows"
    promised = max(plan.held_qps or 0.0, problem.load or 0.0 if problem.objective == "MinCost" else 0.0)
    if total < Fraction(promised) * (1 - _LOAD_SLACK) or not total:
        yield f"the flow is {float(total):.6g} q/s, {promised:.6g} q/s are promised"


def _between(first: int, last: int, batches: list[int]) -> list[int]:
    """Those of a class; batches: rising."""
    return batches[bisect.bisect_left(batches, first) : bisect.bisect_right(batches, last)]


def _unserved(shares: dict[int, Fraction], served: dict[tuple[int, int], Fraction], total: Fraction) -> Iterator[str]:
    """Batches that no class has, or that two have; classes that do not get their share."""
    ordered = sorted(shares)
    classes = {one: _between(*one, ordered) for one in served}
    found = Counter(itertools.chain(*classes.values()))
    for batch in shares:
        if found[batch] != 1:
            yield f"batch {batch} is in {found[batch]} classes of the flow"
    slack = total * _LOAD_SLACK
    for (first, last), rate in served.items():
        due = total * sum(shares[batch] for batch in classes[first, last])
        if abs(rate - due) > slack:
            yield f"batches {first} to {last} get {float(rate):.6g} q/s of {float(due):.6g} q/s"


def _service(profile: LatencyProfile, batch: int, slo: float) -> tuple[Fraction, Fraction]:
    """Mean service time in seconds, and the probability that it is above the SLO."""
    mean, spread = profile.mean(batch), profile.spread(batch)
    if mean is None or spread is None:
        return Fraction(0), Fraction(1)
    knots, ratio = _knots(spread)
    limit, above = Fraction(slo) / Fraction(mean), Fraction(0)
    if limit < knots[-1][1]:
        for (left, low), (right, high) in pairwise(knots):
            if limit < high:
                above += (right - left) * (min((high - limit) / (high - low), Fraction(1)) if high > low else 1)
    return Fraction(mean) * ratio, above


@functools.lru_cache(maxsize=64)
def _knots(spread: Spread) -> tuple[list[tuple[Fraction, Fraction]], Fraction]:
    """(probability, ratio) of each point, ratios rising, and the mean ratio."""
    knots = list(zip(map(Fraction, spread.probabilities), map(Fraction, spread.ratios), strict=True))
    return knots, sum(((b - a) * (low + high) / 2 for (a, low), (b, high) in pairwise(knots)), Fraction(0))


def _carries_load(problem: Problem, plan: Plan, held: list[tuple[TypeOption, int]]) -> Iterator[str]:
    """MinCost: every type keeps the SLO at every batch; together they carry the load."""
    limit = problem.slo.latency * (1 + _LATENCY_SLACK)
    capacity = Fraction(0)
    for option, count in held:
        if count <= 0:
            continue
        busy = Fraction(0)
        for batch, share in zip(problem.mix.batches, problem.mix.shares, strict=True):
            slow = option.profile.quantile(batch, problem.slo.percentile)
            mean = option.profile.mean(batch)
            if slow is None or mean is None or slow > limit:
                yield f"{option.name} does not keep the SLO at batch {batch}"
                break
            busy += Fraction(share) * Fraction(mean)
        else:
            capacity += count / busy
    if problem.load is None and problem.budget is None:
        yield "the plan claims a capacity, and there is neither a load to carry nor a budget to spend"
        return
    needed = Fraction(problem.load or 0) / Fraction(problem.saturation_threshold)
    if capacity < needed * (1 - _LOAD_SLACK):
        yield f"the plan carries {float(capacity):.6g} q/s, {float(needed):.6g} q/s are needed"
    if plan.capacity_qps is not None and abs(Fraction(plan.capacity_qps) - capacity) > capacity * _LOAD_SLACK:
        yield f"the plan says it carries {plan.capacity_qps:.6g} q/s, its instances carry {float(capacity):.6g} q/s"
