"""Laws of scaling decisions, whatever the facts."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import assume, given
from hypothesis import strategies as st

from hetserve.base.units import QPS, Seconds
from hetserve.demand.observed import Demand, Freshness, RateSample
from hetserve.demand.windows import highest
from hetserve.planning import TypeOption
from hetserve.scaling import Action, Answer, Decision, Facts, InForce, Pause, Pending, ScalingReason, decide
from hetserve.scaling.plans.answers import Answers
from hetserve.scaling.plans.capacity import by_rates
from hetserve.scaling.plans.counts import cost_of, covers, total
from testing.scaling import facts, measured, scaled_problem, steady
from testing.scaling_strategies import demands, following, scaling_rules, service_types, situations


def decided(given_facts: Facts) -> Decision:
    return decide(given_facts, Answers(quick=True))


def before(given_facts: Facts) -> tuple[tuple[str, int], ...]:
    assert given_facts.in_force is not None
    return given_facts.in_force.counts


@given(situations() | following())
def test_no_type_loses_an_instance_in_a_scale_up_and_none_gains_one_in_a_scale_down(case: Facts) -> None:
    found = decided(case)
    if found.action is Action.SCALE_UP:
        assert covers(found.counts or (), before(case))
        assert total(found.counts or ()) > total(before(case))
    if found.action is Action.SCALE_DOWN:
        assert covers(before(case), found.counts or ())
        assert total(found.counts or ()) < total(before(case))
    if found.action is Action.HOLD:
        assert found.counts == before(case)


@given(situations())
def test_for_its_load_nothing_shrinks_unless_fresh_samples_cover_the_window(case: Facts) -> None:
    unknown = highest(case.demand, max(case.rules.down.window, Seconds(1e-3))) is None
    found = decided(case)
    if unknown and found.reason in (ScalingReason.LOAD_FITS_ON_LESS, ScalingReason.NO_LOAD, ScalingReason.CHEAPER_MIX):
        raise AssertionError(f"{found.action} although the window is not known")
    if unknown and found.action is Action.SCALE_DOWN:
        assert found.reason is ScalingReason.LIMITS_CHANGED


@given(situations() | following())
def test_what_shrinks_still_carries_the_largest_load_of_the_window(case: Facts) -> None:
    found = decided(case)
    if found.reason in (ScalingReason.LOAD_FITS_ON_LESS, ScalingReason.NO_LOAD) and found.changes:
        seen = found.measured.highest
        assert seen is not None
        assert seen <= case.rules.saturation * by_rates(case.problem, found.counts or ()) * (1 + 1e-6)


@given(situations() | following())
def test_no_change_exceeds_the_budget_or_the_most_instances(case: Facts) -> None:
    found = decided(case)
    if not found.changes:
        return
    budget, most = case.problem.budget, case.rules.most
    assert budget is None or cost_of(found.counts or (), case.problem) <= budget
    if found.reason is not ScalingReason.BUDGET_CUT:
        assert most is None or total(found.counts or ()) <= most


@given(situations() | following())
def test_no_change_leaves_fewer_than_the_least_instances_unless_the_budget_does(case: Facts) -> None:
    found = decided(case)
    if found.changes and found.reason is not ScalingReason.BUDGET_CUT:
        assert total(found.counts or ()) >= case.rules.least


@given(situations())
def test_a_pause_keeps_what_it_names_but_for_a_budget_cut(case: Facts) -> None:
    found = decided(case)
    if found.reason is ScalingReason.BUDGET_CUT or case.pause is Pause.NONE:
        return
    if case.pause is Pause.ALL:
        assert not found.changes
    if case.pause is Pause.SCALE_DOWN:
        assert found.action is not Action.SCALE_DOWN
    if case.pause is Pause.SCALE_UP:
        assert found.action is not Action.SCALE_UP


@given(situations())
def test_what_is_not_fresh_changes_nothing_but_for_limits(case: Facts) -> None:
    found = decided(replace(case, demand=replace(case.demand, freshness=Freshness.STALE)))
    assert not found.changes or found.reason in (
        ScalingReason.BUDGET_CUT,
        ScalingReason.LIMITS_CHANGED,
        ScalingReason.BELOW_MINIMUM,
        ScalingReason.TYPE_SCARCE,
    )


@given(situations())
def test_until_planners_answer_nothing_changes(case: Facts) -> None:
    def later(_: object) -> Answer:
        return Pending()

    assert not decide(replace(case, problem=replace(case.problem, planner=None)), later).changes


@given(situations() | following(), st.randoms())
def test_the_order_of_types_and_changes_does_not_matter(case: Facts, chance: object) -> None:
    types, changes = list(case.problem.types), list(case.changes)
    chance.shuffle(types)  # type: ignore[attr-defined]
    chance.shuffle(changes)  # type: ignore[attr-defined]
    shuffled = replace(case, problem=replace(case.problem, types=tuple(types)), changes=tuple(changes))

    one, other = decided(case), decided(shuffled)
    assert (one.action, one.reason, dict(one.counts or ())) == (other.action, other.reason, dict(other.counts or ()))


@given(situations())
def test_what_a_decision_says_is_said_in_words_and_its_counts_are_of_the_problem(case: Facts) -> None:
    found = decided(case)
    assert found.words
    assert [name for name, _ in found.counts or ()] == [option.name for option in case.problem.types]
    assert all(n >= 0 for _, n in found.counts or ())


@given(following())
def test_the_same_load_leads_to_rest_and_what_was_removed_for_it_is_not_added_again(case: Facts) -> None:
    rules = replace(case.rules, up=replace(case.rules.up, limits=()), down=replace(case.rules.down, limits=()))
    state, seen = replace(case, rules=rules), []
    for _ in range(total(before(case)) + 10):
        found = decided(state)
        if not found.changes:
            break
        counts = found.counts or ()
        seen.append(found.action)
        state = replace(state, in_force=InForce(counts, found.load), ready=dict(counts), bound=dict(counts))

    assert not found.changes, f"no rest after {seen}"
    first_removal = seen.index(Action.SCALE_DOWN) if Action.SCALE_DOWN in seen else len(seen)
    assert Action.SCALE_UP not in seen[first_removal:]


def scaled(demand: Demand, factor: float) -> Demand:
    return replace(demand, samples=tuple(RateSample(s.at, QPS(s.qps * factor)) for s in demand.samples))


@given(
    service_types(),
    demands(whole=True),
    scaling_rules(limited=False),
    st.lists(st.integers(0, 4), min_size=3, max_size=3),
    st.sampled_from([1.001, 1.1, 2.0, 10.0]),
)
def test_more_demand_never_makes_a_smaller_plan(
    types: tuple[TypeOption, ...], demand: Demand, rules: object, held: list[int], factor: float
) -> None:
    unbounded = scaled_problem(tuple(replace(o, max_instances=None) for o in types))
    now = {o.name: n for o, n in zip(types, held, strict=False)}
    assume(sum(now.values()) >= 1)
    less = decided(facts(demand, now, problem=unbounded, rules=rules))
    more = decided(facts(scaled(demand, factor), now, problem=unbounded, rules=rules))

    assert cost_of(more.counts or (), unbounded) >= cost_of(less.counts or (), unbounded)


SHARES = st.sampled_from([0.45, 0.6, 0.7, 0.75, 0.8, 0.85, 0.87, 0.89])


@given(following(), SHARES, st.lists(SHARES, min_size=25, max_size=41))
def test_at_loads_that_are_said_to_be_quiet_the_next_decision_is_the_same(
    case: Facts, share: float, later: list[float]
) -> None:
    holds = by_rates(case.problem, before(case))
    case = replace(case, rules=replace(case.rules, replaces=False, saturation=0.8, tolerance=0.1))
    at_first = decided(replace(case, demand=steady(share * holds)))
    then = measured([one * holds for one in later])
    if at_first.dead_band is None or not at_first.dead_band.covers(then):
        return
    found = decided(replace(case, demand=then))
    assert found.action is Action.HOLD
    assert found.reason is ScalingReason.LOAD_CARRIED
    assert [one.reason for one in found.limits] == [one.reason for one in at_first.limits]


def test_a_load_within_the_quiet_ones_is_found() -> None:
    case = facts(steady(60), {"t4": 3})
    quiet = decided(case).dead_band
    assert quiet is not None
    assert quiet.covers(steady(58))
    assert not quiet.covers(steady(70)), "88 % of the 75 queries/s that three hold are 66"
    assert not quiet.covers(steady(20))
