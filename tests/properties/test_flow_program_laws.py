"""Laws of the flow program: equal to brute force, monotone, free of units, honest about what it leaves out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from random import Random

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from effort import examples
from hetserve.base.units import QPS, MicroDollarsPerHour, Seconds
from hetserve.demand import BatchMix
from hetserve.planning import LatencySlo, Problem, TypeOption, plan
from hetserve.planning.flow.programs.classes import ClassTable, Values, class_table
from hetserve.planning.flow.programs.program import (
    CEILING,
    FixedMix,
    FluidRates,
    Margin,
    Mix,
    fixed,
    least_cost,
    most_load,
)
from hetserve.planning.highs import GAP
from hetserve.planning.kairos.ranking import configuration_bounds
from hetserve.planning.rates import Rates, derive_rates
from hetserve.profiles import LinearProfile
from testing import flow_brute_force as brute_force
from testing.planning import line, min_cost, problem
from testing.planning_strategies import flow_cost_problems, flow_problems, flow_types, lines, margins, mixes

WORSE = 1 + GAP + 1e-6
"""The solver may stop within GAP of the best."""
NEVER = 1 + 1e-6

some = settings(max_examples=examples(40))
few = settings(max_examples=examples(20))


def values_of(problem: Problem, mix: Mix) -> tuple[int, ...]:
    """Counts in the problem's order."""
    return tuple(count for _, count in class_table(problem).counts(mix.counts))


def budget_of(problem: Problem) -> int | None:
    return None if problem.budget is None else int(problem.budget)


def most(problem: Problem, margin: Margin, cuts: tuple[Values, ...] = ()) -> Mix | None:
    return most_load(class_table(problem), margin, cuts=cuts, budget=budget_of(problem))


def least(problem: Problem, margin: Margin) -> Mix | None:
    assert problem.load is not None
    return least_cost(class_table(problem), margin, problem.load, budget=budget_of(problem))


def rate_of(problem: Problem, margin: Margin) -> float:
    found = most(problem, margin)
    return 0.0 if found is None else found.rate


def objective_of(problem: Problem, mix: Mix) -> int:
    return brute_force.objective(problem, values_of(problem, mix))


@some
@given(flow_problems(), margins())
def test_the_most_load_is_that_of_all_counts(problem: Problem, margin: Margin) -> None:
    best = brute_force.highest_rate(problem, margin, problem.budget or 0)
    found = most(problem, margin)
    assert (found is None) == (best <= 0)
    if found is not None:
        assert best / WORSE <= found.rate <= best * NEVER
        assert best <= found.objective_bound * NEVER
        assert brute_force.allowed(problem, values_of(problem, found), budget_of(problem))
        assert found.rate <= brute_force.rates(problem, margin, [values_of(problem, found)])[0] * NEVER


@some
@given(flow_cost_problems(), margins())
def test_the_least_cost_is_that_of_all_counts(problem: Problem, margin: Margin) -> None:
    assert problem.load is not None
    best = brute_force.lowest_objective(problem, margin, problem.load, budget_of(problem))
    found = least(problem, margin)
    assert (found is None) == (best is None)
    if found is not None and best is not None:
        assert best <= objective_of(problem, found) <= best * WORSE
        assert found.objective_bound <= best * NEVER
        assert brute_force.allowed(problem, values_of(problem, found), budget_of(problem))
        assert brute_force.rates(problem, margin, [values_of(problem, found)])[0] * NEVER >= problem.load


@some
@given(flow_problems(), margins())
def test_the_flow_serves_every_class_in_full_and_in_the_time_of_its_types(problem: Problem, margin: Margin) -> None:
    table, found = class_table(problem), most(problem, margin)
    if found is None:
        return
    limit = problem.slo.latency * (1 - margin.wait)
    assert found.flow.sum(axis=0) == pytest.approx(found.rate * table.shares, rel=1e-6)
    late = 0.0
    for option, count, row in zip(table.types, found.counts, found.flow, strict=True):
        served = [brute_force.service(option, batch, limit) for batch in problem.mix.batches]
        used = [(rate, mean, missed) for rate, (mean, missed) in zip(row, served, strict=True) if rate > 0]
        assert sum(rate * mean for rate, mean, _ in used) <= margin.saturation * count + 1e-6
        assert all(missed <= margin.most_late for _, _, missed in used)
        late += sum(rate * missed for rate, _, missed in used)
    assert late <= margin.late * (1 - problem.slo.percentile / 100) * found.rate * NEVER + 1e-9


@some
@given(flow_problems(), margins(), st.integers(1, 12))
def test_more_budget_never_buys_less(problem: Problem, margin: Margin, cents: int) -> None:
    richer = replace(problem, budget=MicroDollarsPerHour((problem.budget or 0) + cents * 10_000))
    assert rate_of(problem, margin) <= rate_of(richer, margin) * WORSE


@some
@given(flow_cost_problems(), margins(), st.floats(1.01, 3.0))
def test_more_load_is_never_cheaper(problem: Problem, margin: Margin, factor: float) -> None:
    heavier = replace(problem, load=QPS((problem.load or 0) * factor))
    found, more = least(problem, margin), least(heavier, margin)
    if more is not None:
        assert found is not None
        assert objective_of(problem, found) <= objective_of(problem, more) * WORSE


@few
@given(flow_cost_problems(), margins(), st.integers(2, 1000))
def test_prices_in_another_currency_scale_the_cost(problem: Problem, margin: Margin, factor: int) -> None:
    # Launch charges are rounded to micro-dollars, which a currency may tip: leave them out.
    problem = replace(problem, launch_weight=0.0)
    dearer = tuple(replace(one, price=MicroDollarsPerHour(one.price * factor)) for one in problem.types)
    budget = None if problem.budget is None else MicroDollarsPerHour(problem.budget * factor)
    found, other = least(problem, margin), least(replace(problem, types=dearer, budget=budget), margin)
    assert (found is None) == (other is None)
    if found is not None and other is not None:
        cost, scaled = objective_of(problem, found) * factor, objective_of(problem, other) * factor
        assert cost / WORSE <= scaled <= cost * WORSE


def slowed(problem: Problem, factor: float) -> Problem:
    """All latencies and the SLO times a power of two, so that nothing is rounded."""

    def slow(profile: object) -> LinearProfile:
        assert isinstance(profile, LinearProfile)
        return replace(profile, intercept=Seconds(profile.intercept * factor), slope=Seconds(profile.slope * factor))

    types = tuple(replace(one, profile=slow(one.profile)) for one in problem.types)
    slo = LatencySlo(Seconds(problem.slo.latency * factor), problem.slo.percentile)
    return replace(problem, types=types, slo=slo)


@few
@given(flow_problems(), margins(), st.sampled_from((1 / 64, 0.5, 2.0, 1024.0)))
def test_times_in_another_unit_scale_the_rate(problem: Problem, margin: Margin, factor: float) -> None:
    rate, other = rate_of(problem, margin), rate_of(slowed(problem, factor), margin) * factor
    assert rate / WORSE <= other <= rate * WORSE


@some
@given(flow_problems(largest=3), margins(), st.data())
def test_one_more_type_to_choose_never_hurts(problem: Problem, margin: Margin, data: st.DataObject) -> None:
    added = replace(data.draw(flow_types("epsilon", counted=True)), min_instances=0)
    richer = replace(problem, types=(*problem.types, added))
    assert rate_of(problem, margin) <= rate_of(richer, margin) * WORSE


@some
@given(flow_problems(counted=True), margins())
def test_a_cut_gives_the_next_counts_and_never_more(problem: Problem, margin: Margin) -> None:
    """Upwards: it leaves what has an instance more of some type. What has an idle instance is no answer."""
    first = most(problem, margin)
    assume(first is not None)
    assert first is not None
    second = most(problem, margin, (first.counts,))
    held = brute_force.within_budget(problem, problem.budget or 0)
    rates = dict(zip(held, brute_force.rates(problem, margin, held), strict=True))
    left = [values for values in held if not at_most(values, values_of(problem, first))]
    best = max((rates[values] for values in left if all_work(problem, values, rates)), default=0.0)
    if second is None:
        assert best <= 0
    else:
        assert not at_most(second.counts, first.counts)
        assert second.rate <= first.rate * WORSE
        assert best / WORSE <= second.rate <= max(rates[values] for values in left) * NEVER


def all_work(problem: Problem, values: tuple[int, ...], rates: Mapping[tuple[int, ...], float]) -> bool:
    """Whether one instance less of any type would hold less."""
    fewer = [(*values[:i], count - 1, *values[i + 1 :]) for i, count in enumerate(values)]
    spare = [
        one for one, option, count in zip(fewer, problem.types, values, strict=True) if count > option.min_instances
    ]
    return all(rates[one] < rates[values] / NEVER for one in spare)


def at_most(values: tuple[int, ...], others: tuple[int, ...]) -> bool:
    return all(one <= other for one, other in zip(values, others, strict=True))


@st.composite
def held_counts(draw: st.DrawFn) -> tuple[Problem, tuple[int, ...]]:
    """A problem and any counts of its types, limits or not."""
    problem = draw(flow_problems())
    return problem, tuple(draw(st.integers(0, 5)) for _ in problem.types)


def fixed_of(problem: Problem, margin: Margin, values: tuple[int, ...]) -> FixedMix | None:
    table = class_table(problem)
    return fixed(table, margin, in_order(table, values))


def in_order(table: ClassTable, values: tuple[int, ...]) -> tuple[int, ...]:
    return table.values(tuple((one.name, value) for one, value in zip(table.problem.types, values, strict=True)))


@some
@given(held_counts(), margins())
def test_the_rate_of_given_counts_is_that_of_another_solver(
    held: tuple[Problem, tuple[int, ...]], margin: Margin
) -> None:
    problem, values = held
    found, other = fixed_of(problem, margin, values), brute_force.rates(problem, margin, [values])[0]
    assert (0.0 if found is None else found.rate) == pytest.approx(other, rel=1e-6, abs=1e-9)


@some
@given(held_counts(), margins())
def test_an_instances_worth_lies_between_what_the_last_gave_and_the_next_will(
    held: tuple[Problem, tuple[int, ...]], margin: Margin
) -> None:
    """The rate is concave in the counts, and all of it is the instances' doing."""
    problem, values = held
    table = class_table(problem)
    counts = in_order(table, values)
    found = fixed(table, margin, counts)
    if found is None:
        return
    worth = found.per_instance
    assert sum(worth * counts) == pytest.approx(found.rate, rel=1e-6)
    assert found.per_class.sum() == pytest.approx(1)
    assert min(found.per_class) >= 0
    rates = FluidRates(table, margin)
    for i, count in enumerate(counts):
        step = found.rate * 1e-6
        assert rates((*counts[:i], count + 1, *counts[i + 1 :])) - found.rate <= worth[i] + step
        if count:
            assert found.rate - rates((*counts[:i], count - 1, *counts[i + 1 :])) >= worth[i] - step


@some
@given(flow_problems(), margins(), st.randoms(use_true_random=False))
def test_rates_do_not_depend_on_what_was_asked_before(problem: Problem, margin: Margin, random: Random) -> None:
    table = class_table(problem)
    questions = [tuple(random.choice((0, 1, 2, 7)) for _ in table.types) for _ in range(8)]
    fluid = FluidRates(table, margin)
    for counts in (*questions, *questions[::-1]):
        alone = fixed(table, margin, counts)
        assert fluid(counts) == pytest.approx(0.0 if alone is None else alone.rate, rel=1e-6, abs=1e-9)


@some
@given(held_counts(), margins(), st.integers(1, 3))
def test_merged_classes_lie_on_their_own_side_of_the_exact_rate(
    held: tuple[Problem, tuple[int, ...]], margin: Margin, classes: int
) -> None:
    """A class with its members' mean is a flow that exists; one as easy as its easiest member is a bound.

    But a mean may hide that one member is late too often for a type: without that limit.
    """
    problem, values = held
    margin = replace(margin, most_late=1.0)
    exact = class_table(problem)
    rates = {}
    for merge in ("mean", "least"):
        table = class_table(problem, merge, classes)
        assert len(table.shares) <= classes
        assert table.shares.sum() == pytest.approx(1)
        rates[merge] = FluidRates(table, margin)(in_order(table, values))
    rate = FluidRates(exact, margin)(in_order(exact, values))
    assert rates["mean"] <= rate * NEVER + 1e-9
    assert rate <= rates["least"] * NEVER + 1e-9


@some
@given(flow_problems(), margins())
def test_nothing_in_hand_is_the_ceiling_of_every_margin(problem: Problem, margin: Margin) -> None:
    found, top = most(problem, margin), most(problem, CEILING)
    assert found is None or (top is not None and found.rate <= top.objective_bound * NEVER)


@st.composite
def fractions_of_a_base(draw: st.DrawFn) -> tuple[Problem, Rates]:
    """A base that serves every batch, and types that need a multiple of its time for every batch."""
    base = replace(draw(lines()), max_batch=None)
    mix = BatchMix.of((batch, draw(st.integers(1, 9))) for batch in draw(st.sets(st.integers(1, 20), min_size=1)))
    slo = Seconds((base.mean(mix.largest) or 0.0) * draw(st.sampled_from((1.01, 2.01, 4.01))))
    slower = draw(st.lists(st.sampled_from((1.5, 2.0, 3.0, 5.0)), min_size=1, max_size=3))
    others = tuple(
        TypeOption(name, MicroDollarsPerHour(1), line(base.intercept * 1e3 * times, base.slope * 1e3 * times))
        for name, times in zip("bcd", slower, strict=False)
    )
    types = (TypeOption("a", MicroDollarsPerHour(1), base), *others)
    return problem(types, mix=mix, slo=LatencySlo(slo)), derive_rates(types[0], types[1:], mix, slo)


@some
@given(fractions_of_a_base(), st.lists(st.integers(0, 6), min_size=3, max_size=3), st.integers(1, 4))
def test_kairos_bound_is_never_below_the_fluid_rate_where_auxiliaries_are_fractions_of_the_base(
    given_types: tuple[Problem, Rates], auxiliaries: list[int], bases: int
) -> None:
    """And equal to it with one kind of auxiliary; with several it may credit one with batches that only another
    serves (`test_kairos_bound_is_loose_where_it_credits_a_type_with_batches_that_it_cannot_serve`).
    """
    asked, rates = given_types
    held = {option.name: count for option, count in zip(asked.types[1:], auxiliaries, strict=False)}
    present = [held[auxiliary.option.name] for auxiliary in rates.auxiliaries]
    bound = configuration_bounds(rates, np.array([[bases, *present]]))[0]
    useful = {auxiliary.option.name for auxiliary in rates.auxiliaries}
    found = fixed_of(asked, Margin(), (bases, *(held[o.name] * (o.name in useful) for o in asked.types[1:])))
    assert found is not None
    assert found.rate <= bound * NEVER
    if sum(count > 0 for count in present) <= 1:
        assert found.rate == pytest.approx(bound, rel=1e-6)


@some
@given(
    st.lists(lines(), min_size=1, max_size=3),
    mixes(),
    st.floats(0.5, 300.0),
    st.sampled_from((1.0, 0.8, 0.5)),
    st.data(),
)
def test_with_one_class_or_one_type_it_is_hetsevs_integer_program(
    profiles: list[LinearProfile], mix: BatchMix, load: float, saturation: float, data: st.DataObject
) -> None:
    """HetSev's program knows rates of instances over the whole mix: with one class of batches, or one type, so does
    this one.
    """
    if len(profiles) > 1:
        mix = BatchMix.single(mix.largest)
    types = [replace(data.draw(flow_types(name, counted=False)), pool=None) for name in "abc"[: len(profiles)]]
    whole = (replace(one, max_batch=None) for one in profiles)
    types = [replace(one, profile=profile) for one, profile in zip(types, whole, strict=True)]
    asked = min_cost(types, load, mix=mix, slo_ms=1000, saturation_threshold=saturation, launch_weight=1 / 3600)
    theirs, ours = plan(asked, "ilp"), least(asked, Margin(saturation=saturation))
    assert theirs.feasible == (ours is not None)
    if ours is not None:
        values = tuple(count for _, count in theirs.counts)
        assert objective_of(asked, ours) == pytest.approx(brute_force.objective(asked, values), rel=GAP)
