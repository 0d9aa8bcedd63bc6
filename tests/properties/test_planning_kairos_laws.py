"""Kairos's planner against an independent brute force in exact rationals, and laws of its plans."""

from __future__ import annotations

import dataclasses
import itertools
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from effort import examples
from hetserve.base.units import MicroDollarsPerHour, Seconds
from hetserve.planning import Plan, Problem, TypeOption
from hetserve.planning import plan as decide
from hetserve.planning.check import violations
from hetserve.profiles import LinearProfile
from testing.planning_strategies import throughput_problems

Counts = tuple[int, ...]


def plan(given: Problem) -> Plan:
    return decide(given, "kairos")


def mean(option: TypeOption, batch: int) -> Fraction | None:
    latency = option.profile.mean(batch)
    return None if latency is None else Fraction(latency)


def keeps(option: TypeOption, problem: Problem, batch: int) -> bool:
    latency = mean(option, batch)
    return latency is not None and latency <= Fraction(problem.slo.latency) * (1 + Fraction(1, 10**9))


def prefix(option: TypeOption, problem: Problem) -> list[int]:
    return list(itertools.takewhile(lambda batch: keeps(option, problem, batch), problem.mix.batches))


def rate(option: TypeOption, problem: Problem, batches: list[int]) -> Fraction:
    share = dict(zip(problem.mix.batches, map(Fraction, problem.mix.shares), strict=True))
    served = [(share[b], latency) for b in batches if (latency := mean(option, b)) is not None]
    return sum((s for s, _ in served), Fraction(0)) / sum((s * latency for s, latency in served), Fraction(0))


def exact_bound(base: TypeOption, held: list[tuple[TypeOption, int]], u: int, problem: Problem) -> Fraction:
    """Eq. 14 and 15 as printed, from the profiles: nothing of the planner is used."""
    everything = list(problem.mix.batches)
    share = dict(zip(everything, map(Fraction, problem.mix.shares), strict=True))
    whole = sum(share.values(), Fraction(0))
    q_base = rate(base, problem, everything)
    present = [(option, count) for option, count in held if count]
    if not present:
        return u * q_base
    covered = max((prefix(option, problem) for option, _ in present), key=len)
    aux = sum((count * rate(option, problem, covered) for option, count in present), Fraction(0))
    if covered == everything:
        return u * q_base + aux
    large = [batch for batch in everything if batch not in covered]
    f = sum((share[b] for b in covered), Fraction(0)) / whole
    q_large = rate(base, problem, large)
    offloaded = aux * (1 - f) / f
    if u * q_large <= offloaded:
        return u * q_large / (1 - f)
    return aux / f + (u * q_large - offloaded) / (u * q_large) * (u * q_base)


def best_bound(problem: Problem) -> Fraction | None:
    """Highest bound over all configurations; None if none is allowed."""
    budget = problem.budget or 0
    everything = list(problem.mix.batches)
    wanted = sum(o.price * o.min_instances for o in problem.types)
    if any(o.max_instances is not None and o.max_instances < o.min_instances for o in problem.types):
        return None
    bases = [
        option
        for option in problem.types
        if prefix(option, problem) == everything
        and wanted + (0 if option.min_instances else option.price) <= budget
        and option.max_instances != 0
    ]
    if not bases or any(o.min_instances and not prefix(o, problem) for o in problem.types):
        return None
    base = min(bases, key=lambda o: (-rate(o, problem, everything) / o.price, o.name))
    others = [option for option in problem.types if option != base and prefix(option, problem)]
    ranges = [
        range(o.min_instances, min(budget // o.price, 99 if o.max_instances is None else o.max_instances) + 1)
        for o in others
    ]
    best = Fraction(0)
    for counts in itertools.product(*ranges):
        left = budget - sum(o.price * n for o, n in zip(others, counts, strict=True))
        most = min(left // base.price, 99 if base.max_instances is None else base.max_instances)
        for u in range(max(base.min_instances, 1), most + 1):
            best = max(best, exact_bound(base, list(zip(others, counts, strict=True)), u, problem))
    return best


@settings(deadline=None, max_examples=examples(150))
@given(throughput_problems())
def test_the_ranking_begins_with_the_best_bound_of_all(problem: Problem) -> None:
    made, best = plan(problem), best_bound(problem)
    assert made.feasible == (best is not None), made.message
    if best is not None:
        assert made.ranking[0].qps == pytest.approx(float(best), rel=1e-9)
        assert made.counts in {entry.counts for entry in made.ranking}


@settings(deadline=None)
@given(throughput_problems())
def test_every_plan_passes_the_checker_and_explains_itself(problem: Problem) -> None:
    made = plan(problem)
    assert made.message
    assert made.verdict
    assert made.reason != "PlannerFailed", made.message
    if made.feasible:
        assert violations(problem, made) == ()
        assert (made.runner_up is None) == (len(made.ranking) == 1)


@settings(deadline=None)
@given(throughput_problems(), st.randoms(use_true_random=False))
def test_the_order_of_the_types_does_not_matter(problem: Problem, random: object) -> None:
    shuffled = list(problem.types)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    other = dataclasses.replace(problem, types=tuple(shuffled))
    assert described(plan(problem)) == described(plan(other))


def described(made: Plan) -> tuple[object, ...]:
    ranking = [(sorted(entry.counts), entry.cost, entry.qps) for entry in made.ranking]
    return made.feasible, made.reason, made.message.split(" for ")[-1], made.cost, sorted(made.counts), ranking


@settings(deadline=None)
@given(throughput_problems(), st.integers(2, 1000))
def test_prices_and_budget_in_another_currency_give_the_same_plan(problem: Problem, factor: int) -> None:
    scaled = dataclasses.replace(
        problem,
        budget=MicroDollarsPerHour((problem.budget or 0) * factor),
        types=tuple(dataclasses.replace(o, price=MicroDollarsPerHour(o.price * factor)) for o in problem.types),
    )
    assert plan(scaled).counts == plan(problem).counts


@settings(deadline=None)
@given(throughput_problems(), st.sampled_from([0.25, 0.5, 2.0, 1024.0]))
def test_time_in_another_unit_gives_the_same_plan_and_the_inverse_bound(problem: Problem, factor: float) -> None:
    def slower(option: TypeOption) -> TypeOption:
        profile = option.profile
        assert isinstance(profile, LinearProfile)
        line = LinearProfile(Seconds(profile.intercept * factor), Seconds(profile.slope * factor), profile.max_batch)
        return dataclasses.replace(option, profile=line)

    slo = dataclasses.replace(problem.slo, latency=Seconds(problem.slo.latency * factor))
    made = plan(problem)
    other = plan(dataclasses.replace(problem, slo=slo, types=tuple(map(slower, problem.types))))
    assert other.counts == made.counts
    if made.bound_qps is not None and other.bound_qps is not None:
        assert other.bound_qps == pytest.approx(made.bound_qps / factor)
