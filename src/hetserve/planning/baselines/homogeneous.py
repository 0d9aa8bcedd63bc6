"""The best pool of one type alone.

Under a budget: the type that serves most; the paper also scales that rate to the whole budget (HPDC'23, section 7).
Under MinCost: the cheapest type that carries the load.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator
from typing import Final

from hetserve.api.conditions import Reason
from hetserve.base.units import QPS, MicroDollarsPerHour
from hetserve.planning.formatting import difference_text, latency_text, money_text, qps_text, share_text, step_text
from hetserve.planning.kairos.ranking import ranking_inputs
from hetserve.planning.mincost.greedy import addable
from hetserve.planning.mincost.ilp import explain, model_of, nothing_for_the_budget, refused, step_to
from hetserve.planning.mincost.model import CostChoice, CostModel, for_budget, for_more, with_more
from hetserve.planning.plan import NOTICEABLE, Evaluator, NextStep, Plan, RankedConfiguration, StepSearch, infeasible
from hetserve.planning.problem import MOST_REPLICAS, Problem, TypeRefusal
from hetserve.planning.rates import throughput
from hetserve.planning.slo import ROUNDING, serves_whole_mix, slo_miss

NAME: Final = "homogeneous"


def plan_homogeneous(problem: Problem, _evaluate: Evaluator | None = None, _seed: int | None = None) -> Plan:
    """Best single type; the SLO applies to the mean under MaxThroughput, to its percentile under MinCost."""
    if problem.objective == "MinCost" or problem.budget is None:
        return _least_cost(problem)
    inputs = ranking_inputs(problem, NAME)
    if isinstance(inputs, Plan):
        return inputs
    found = sorted(pools(problem), key=lambda pool: (-pool.qps, pool.cost, sorted(pool.counts)))
    if not found:
        return infeasible(problem, NAME, Reason.CAPACITY_TOO_LOW, _nothing_alone(problem, inputs.budget))
    best, second = found[0], found[1] if len(found) > 1 else None
    (name, count), rate = next((n, c) for n, c in best.counts if c), best.qps
    step, whole = next_step(problem, best), scaled(problem, best)
    return Plan(
        reason=Reason.PLAN_FEASIBLE,
        message=f"{count}x{name} for {money_text(best.cost)}, {qps_text(rate)}",
        planner=NAME,
        counts=best.counts,
        cost=best.cost,
        bound_qps=rate,
        why_not_runner_up=""
        if second is None
        else difference_text(second.qps - rate, second.cost - best.cost, "bound"),
        ranking=tuple(found),
        refusals=problem.left_out + tuple(_refusals(problem, best)),
        verdict=(
            f"{qps_text(rate)} within {latency_text(problem.slo.latency)} if no query had to wait; scaled to the whole "
            f"budget {qps_text(whole)}; {money_text(inputs.budget - best.cost)} of "
            f"{money_text(inputs.budget)} left; {step_text(step)}"
        ),
        next_step=step,
        scaled_qps=whole,
    )


def pools(problem: Problem) -> list[RankedConfiguration]:
    """Per type that serves every batch, as many as budget, limits and free resources allow."""
    budget = problem.budget or 0
    found = []
    for option in problem.types:
        others = [other for other in problem.types if other.min_instances and other != option]
        rate = throughput(option.profile, problem.mix)
        if others or rate is None or not serves_whole_mix(option, problem):
            continue
        most = problem.most_of(option)
        count = min(budget // option.price, MOST_REPLICAS if most is None else most)
        if count < max(option.min_instances, 1):
            continue
        counts = tuple((other.name, count if other == option else 0) for other in problem.types)
        found.append(RankedConfiguration(counts, MicroDollarsPerHour(count * option.price), QPS(count * rate)))
    return found


def next_step(problem: Problem, best: RankedConfiguration) -> NextStep | None:
    """Least budget for which one type alone serves NOTICEABLE more."""
    richer = dataclasses.replace(problem, budget=MicroDollarsPerHour(2**53))
    enough: list[RankedConfiguration] = []
    for most in pools(richer):
        name, limit = next((name, count) for name, count in most.counts if count)
        option = next(option for option in problem.types if option.name == name)
        each = most.qps / limit
        count = math.ceil(best.qps * (1 + NOTICEABLE) / each * (1 - ROUNDING))
        if count <= limit:
            counts = tuple((other, count if other == name else 0) for other, _ in most.counts)
            enough.append(RankedConfiguration(counts, MicroDollarsPerHour(count * option.price), QPS(count * each)))
    if not enough or problem.budget is None:
        return None
    first = min(enough, key=lambda pool: (pool.cost, -pool.qps, sorted(pool.counts)))
    extra = MicroDollarsPerHour(first.cost - problem.budget)
    return NextStep(extra, QPS(first.qps - best.qps), first.counts, first.cost)


def scaled(problem: Problem, best: RankedConfiguration) -> QPS:
    """Rate of a pool if the whole budget bought its type, in fractions."""
    return QPS(best.qps * (problem.budget or best.cost) / best.cost)


def _refusals(problem: Problem, best: RankedConfiguration) -> Iterator[TypeRefusal]:
    for option in sorted(problem.types, key=lambda o: o.name):
        if not dict(best.counts)[option.name]:
            less = "serves less for the budget when it is alone"
            why = less if serves_whole_mix(option, problem) else slo_miss(option, problem, None)
            yield TypeRefusal(option.name, why)


def _nothing_alone(problem: Problem, budget: int) -> str:
    wanted = ", ".join(sorted(option.name for option in problem.types if option.min_instances))
    besides = f", and the instances wanted of {wanted}" if wanted else ""
    return f"no type alone fits the limits and the budget of {money_text(budget)}{besides}"


def _least_cost(problem: Problem) -> Plan:
    model = model_of(problem, NAME)
    if isinstance(model, Plan):
        return model
    if problem.load is None:
        return _most_for_the_budget(model)
    found = sorted(map(model.choice, model.single_type()), key=lambda choice: choice.key)
    if not found:
        message = (
            f"no type alone carries {qps_text(model.needed)} ({qps_text(problem.load or 0)} at "
            f"{share_text(problem.saturation_threshold)} saturation) within its limits and the budget"
        )
        return refused(model, Reason.CAPACITY_TOO_LOW, message)
    return explain(model, found[0], found[1:], "the cheapest type alone", _least_cost_step(model, found[0]))


def _most_for_the_budget(model: CostModel) -> Plan:
    found = sorted(_largest(for_budget(model)), key=lambda choice: (-choice.capacity, choice.key))
    if not found:
        answer, budget = nothing_for_the_budget(model), model.problem.budget or 0
        alone = answer.reason == Reason.BUDGET_TOO_LOW
        return answer if alone else dataclasses.replace(answer, message=_nothing_alone(model.problem, budget))
    best, proof = found[0], "the most of one type for the budget"
    return explain(model, best, found[1:], proof, _least_cost_step(model, best), carries=best.capacity)


def _largest(model: CostModel) -> Iterator[CostChoice]:
    for i, option in enumerate(model.types):
        fewest = tuple(option.min_instances if i == j else 0 for j in range(len(model.types)))
        made = with_more(fewest, i, addable(model, fewest, i, math.inf))
        if made[i] and model.allowed(made):
            yield model.choice(made)


def _least_cost_step(model: CostModel, best: CostChoice) -> StepSearch:
    richer = for_more(model, best)
    return step_to(richer, best, min(map(richer.choice, richer.single_type()), key=lambda c: c.key, default=None))
