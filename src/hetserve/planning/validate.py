"""Rejects problems before any planner runs."""

from __future__ import annotations

import math
from collections.abc import Iterator

from hetserve.api.conditions import Reason
from hetserve.planning.formatting import money_text
from hetserve.planning.problem import RESOURCES, Pool, Problem, TypeOption
from hetserve.registry.planners import PLANNERS


def problem_error(problem: Problem, planner: str | None = None) -> str | None:
    """First error of a problem: field, value and what is allowed; None: it is valid. planner: None: the problem's."""
    return next(_errors(problem, planner or problem.planned_by), None)


def unattainable(problem: Problem) -> tuple[Reason, str] | None:
    """Why no planner can keep the least instances of a problem, whatever they serve; None: they can be had."""
    return next(_reasons(problem), None)


def _errors(problem: Problem, planner: str) -> Iterator[str]:
    if not problem.types:
        yield "the problem has no instance types: at least one is needed"
    names = [option.name for option in problem.types]
    for name in sorted({name for name in names if names.count(name) > 1}):
        yield f"type {name} is there {names.count(name)} times; each may be there once"
    if not (math.isfinite(problem.slo.latency) and problem.slo.latency > 0):
        yield f"SLO latency {problem.slo.latency} s: must be positive"
    if not 50 < problem.slo.percentile < 100:
        yield f"SLO percentile {problem.slo.percentile:.10g}: must be above 50 and below 100, for example 99"
    yield from _demand_errors(problem)
    yield from _total_errors(problem, planner)
    for option in problem.types:
        yield from _type_errors(option, problem)
    pools = [pool.name for pool in problem.pools]
    for option in problem.types:
        if option.pool is not None and option.pool not in pools:
            yield f"type {option.name} draws on pool {option.pool}, which is not given; there are: {pools}"


def _demand_errors(problem: Problem) -> Iterator[str]:
    if problem.budget is not None and problem.budget <= 0:
        yield f"budget {problem.budget} micro-dollars/h: must be more than 0"
    if problem.load is not None and not (math.isfinite(problem.load) and problem.load >= 0):
        yield f"load {problem.load} q/s: must be a positive finite number"
    if problem.load is not None and float(problem.load) == 0 and not _keeps_some(problem):
        yield (
            "load 0 q/s: must be a positive finite number, or, for MinCost, at least one instance must be wanted "
            "(least_total or a type's min_instances)"
        )
    if not 0 < problem.saturation_threshold <= 1:
        yield f"saturation threshold {problem.saturation_threshold}: must be above 0 and at most 1, for example 0.8"
    elif problem.load is not None and not math.isfinite(problem.load / problem.saturation_threshold):
        yield f"load {problem.load:g} q/s at a saturation threshold of {problem.saturation_threshold:g} is no number"
    if not (math.isfinite(problem.launch_weight) and problem.launch_weight >= 0):
        yield f"launch weight {problem.launch_weight}: must be 0 or a positive finite number"
    shares = problem.mix.shares
    if not shares or len(shares) != len(problem.mix.batches) or abs(math.fsum(shares) - 1) > 1e-9:
        yield "the shares of the batch mix must sum to 1: build it with BatchMix.of"


def _keeps_some(problem: Problem) -> bool:
    """Whether a least cost without load is one of some instances."""
    wanted = problem.least_total > 0 or any(option.min_instances > 0 for option in problem.types)
    return problem.objective == "MinCost" and wanted


def _total_errors(problem: Problem, planner: str) -> Iterator[str]:
    least, most = problem.least_total, problem.most_total
    if least < 0:
        yield f"least_total {least}: must be 0 or more"
    if most is not None and most < 1:
        yield f"most_total {most}: must be 1 or more"
    if most is not None and most < least:
        yield f"least_total {least} is more than most_total {most}: lower the first or raise the second"
    if problem.bounds_total and planner in PLANNERS and not PLANNERS[planner].bounds_total:
        keeping = ", ".join(PLANNERS.names_of(lambda member: member.bounds_total))
        yield (
            f"planner {planner} keeps no bounds on the instances of all types together (least_total {least}, "
            f"most_total {most}); those that do: {keeping}"
        )


def _type_errors(option: TypeOption, problem: Problem) -> Iterator[str]:
    if option.price <= 0:
        yield f"type {option.name}: price {option.price} micro-dollars/h must be more than 0"
    for what, value in (
        (f"{option.running} running instances", option.running),
        (f"min_instances {option.min_instances}", option.min_instances),
        (f"max_instances {option.max_instances}", option.most),
        (f"launch time {option.launch_time} s", option.launch_time),
    ):
        if not 0 <= value < math.inf:
            yield f"type {option.name}: {what}; must be 0 or more"
    for batch in problem.mix.batches:
        mean = option.profile.mean(batch)
        if mean is not None and not (math.isfinite(mean) and mean > 0):
            yield f"type {option.name}: mean latency {mean} s at batch {batch}; must be positive"
            return


def _reasons(problem: Problem) -> Iterator[tuple[Reason, str]]:
    wanted = [option for option in sorted(problem.types, key=lambda o: o.name) if option.min_instances]
    for option in wanted:
        if option.max_instances is not None and option.max_instances < option.min_instances:
            had = f"only {option.max_instances} can be had" if option.max_instances else "none can be had"
            yield Reason.CAPACITY_TOO_LOW, f"at least {_wanted_text(option)} are wanted, {had}"
    yield from _total_reasons(problem, wanted)
    for pool in problem.pools:
        yield from _too_large(pool, [option for option in wanted if option.pool == pool.name])
    cost = sum(option.price * option.min_instances for option in wanted)
    if problem.budget is not None and cost > problem.budget:
        yield (
            Reason.BUDGET_TOO_LOW,
            f"the least instances wanted ({', '.join(map(_wanted_text, wanted))}) cost {money_text(cost)}, "
            f"{money_text(cost - problem.budget)} more than the budget of {money_text(problem.budget)}",
        )


def _total_reasons(problem: Problem, wanted: list[TypeOption]) -> Iterator[tuple[Reason, str]]:
    """wanted: types of which a least number is."""
    least, most = sum(option.min_instances for option in wanted), problem.most_total
    if most is not None and least > most:
        yield (
            Reason.CAPACITY_TOO_LOW,
            f"the least instances wanted ({', '.join(map(_wanted_text, wanted))}) are {least}, at most {most} are "
            "allowed in all (maxInstances)",
        )
    had = sum(option.most for option in problem.types)
    if had < problem.least_total:
        can = f"only {had} can be had" if had else "none can be had"
        yield (
            Reason.CAPACITY_TOO_LOW,
            f"at least {problem.least_total} instances are wanted in all (minInstances), {can}",
        )


def _too_large(pool: Pool, wanted: list[TypeOption]) -> Iterator[tuple[Reason, str]]:
    new = [(option.demand, max(option.min_instances - option.running, 0)) for option in wanted]
    for resource, ((what, unit), free) in enumerate(zip(RESOURCES, pool.free.all, strict=True)):
        asked = sum(demand.all[resource] * count for demand, count in new)
        if asked > max(free, 0):
            names = ", ".join(map(_wanted_text, wanted))
            message = f"the least instances wanted ({names}) take {asked} {unit} of {what} more, {free} are free"
            yield Reason.CAPACITY_TOO_LOW, message


def _wanted_text(option: TypeOption) -> str:
    return f"{option.min_instances}x{option.name}"
