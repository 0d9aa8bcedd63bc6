"""The flow program by hand: what the papers' planners are loose about, spreads, rows, and the ceiling in simulation."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from hetserve.base.units import MiB, MilliCPU, Seconds
from hetserve.demand import BatchMix
from hetserve.dispatch import make_policy
from hetserve.planning import Pool, Problem, ResourceAmounts, plan
from hetserve.planning.flow.programs.classes import class_table
from hetserve.planning.flow.programs.program import CEILING, FixedMix, Margin, fixed, least_cost, most_load
from hetserve.planning.kairos.ranking import configuration_bounds
from hetserve.planning.rates import derive_rates
from hetserve.profiles import LinearProfile, Spread
from hetserve.registry.dispatch_policies import DISPATCH_POLICIES
from hetserve.serving.system import System
from hetserve.simulation.allowable import TrialSetup
from hetserve.simulation.criteria import Pooled
from hetserve.simulation.workload import draw_workload
from testing.flow_pools import flow_pool
from testing.planning import line, min_cost, option, problem

THREE = BatchMix.of([(1, 1), (2, 1), (4, 1)])
BASE, THIRD, TENTH = (option(name, "1", line(0, each)) for name, each in (("base", 10), ("third", 30), ("tenth", 100)))


def noisy(mean_ms: float, variation: float) -> LinearProfile:
    return LinearProfile(Seconds(mean_ms / 1e3), Seconds(0.0), None, Spread.of_variation(variation))


def of_counts(given: Problem, margin: Margin, **held: int) -> FixedMix:
    table = class_table(given)
    found = fixed(table, margin, table.values(tuple((one.name, held.get(one.name, 0)) for one in given.types)))
    assert found is not None
    return found


def test_kairos_bound_is_loose_where_it_credits_a_type_with_batches_that_it_cannot_serve() -> None:
    """One base, a third of one that serves batches 1 and 2 in time, forty tenths that serve batch 1 alone.

    The base must serve batch 4, four sevenths of the work, and what a third cannot of batch 2, two sevenths: W units of
    work with 4/7 W + 2/7 W - 1/3 = 1 are W = 14/9, at 70/3 ms each 66.7 queries/s. Kairos's common s is batch 2, so it
    credits the tenths with batch 2 too: the base alone is left with batch 4, 4/7 W = 1, 75 queries/s.
    """
    given = problem([BASE, THIRD, TENTH], mix=THREE, slo_ms=100)
    found = of_counts(given, Margin(), base=1, third=1, tenth=40)
    rates = derive_rates(BASE, (THIRD, TENTH), THREE, given.slo.latency)
    bound = configuration_bounds(rates, np.array([[1, 1, 40]]))[0]
    assert found.rate == pytest.approx(200 / 3)
    assert bound == pytest.approx(75)
    # What binds says so: batches 2 and 4 carry the price, and a tenth more is worth nothing.
    worth = dict(zip((one.name for one in class_table(given).types), found.per_instance, strict=True))
    assert worth == {"base": pytest.approx(50), "third": pytest.approx(50 / 3), "tenth": 0}
    assert found.per_class == pytest.approx([0, 1 / 3, 2 / 3], abs=1e-9)


def test_hetsevs_program_pays_for_types_that_keep_the_slo_at_every_batch() -> None:
    """Ninety of a hundred queries are small: the slow type, a fifth of the price, may serve these."""
    mix = BatchMix.of([(1, 90), (10, 10)])
    given = min_cost([option("fast", "1", line(0, 10)), option("slow", "0.2", line(0, 20))], 90, mix=mix, slo_ms=150)
    theirs, ours = plan(given, "ilp"), least_cost(class_table(given), Margin(), 90)
    assert ours is not None
    assert theirs.cost == 2_000_000
    assert dict(class_table(given).counts(ours.counts)) == {"fast": 1, "slow": 2}


def test_the_late_queries_that_the_slo_allows_may_be_planned() -> None:
    """Batch 10, one query in two hundred, is late on the slow type, which is still enough for a p99."""
    mix = BatchMix.of([(1, 199), (10, 1)])
    given = problem([option("slow", "1", line(0, 20))], mix=mix, slo_ms=100, budget="1")
    found = most_load(class_table(given), CEILING, budget=1_000_000)
    assert found is not None
    assert found.rate == pytest.approx(200 / (199 * 0.02 + 0.2))
    assert most_load(class_table(given), Margin(), budget=1_000_000) is None
    strict = replace(given, slo=replace(given.slo, percentile=99.9))
    assert most_load(class_table(strict), CEILING, budget=1_000_000) is None


def test_a_spread_and_a_wait_send_queries_to_the_steadier_type() -> None:
    types = [option("steady", "2", line(80)), option("noisy", "1", noisy(80, 0.15))]
    given = problem(types, slo_ms=100, budget="9")
    table = class_table(given)
    calm = most_load(table, Margin(late=1.0, most_late=1.0), budget=9_000_000)
    hasty = most_load(table, Margin(wait=0.1, late=1.0, most_late=1.0), budget=9_000_000)
    assert calm is not None
    assert hasty is not None
    assert [dict(table.counts(one.counts)) for one in (calm, hasty)] == [{"steady": 4, "noisy": 1}] * 2
    assert hasty.rate < calm.rate
    assert most_load(table, Margin(wait=0.3), budget=9_000_000) is None


def test_running_instances_are_kept_where_launching_is_dear() -> None:
    types = [option("new", "1", line(10), launch_time=3600.0), option("old", "1.5", line(10), running=2)]
    counts = {}
    for weight in (0.0, 1 / 3600):
        given = min_cost(types, 150, slo_ms=100, launch_weight=weight)
        found = least_cost(class_table(given), Margin(), 150)
        assert found is not None
        counts[weight] = dict(class_table(given).counts(found.counts))
    assert counts == {0.0: {"new": 2, "old": 0}, 1 / 3600: {"new": 0, "old": 2}}


def test_what_runs_takes_nothing_more_from_its_pool() -> None:
    """Two running, room for one more."""
    asks = ResourceAmounts(MilliCPU(1000), MiB(10))
    types = [option("gpu", "1", line(10), running=2, pool="p", demand=asks)]
    given = problem(types, slo_ms=100, budget="9", pools=(Pool("p", ResourceAmounts(MilliCPU(1500), MiB(15))),))
    found = most_load(class_table(given), Margin(), budget=9_000_000)
    assert found is not None
    assert found.counts == (3,)


def test_no_instance_is_bought_that_no_query_can_reach() -> None:
    """Only the fast type serves batch 10, and there is one: cheap ones beyond its pace would idle."""
    mix = BatchMix.of([(1, 3), (10, 1)])
    types = [option("fast", "1", line(0, 10), max_instances=1), option("cheap", "0.1", line(0, 40))]
    given = problem(types, mix=mix, slo_ms=200, budget="100")
    found = most_load(class_table(given), Margin(), budget=100_000_000)
    assert found is not None
    assert found.rate == pytest.approx(40)
    assert dict(class_table(given).counts(found.counts))["cheap"] <= 3
    assert plan(given, "flow", quick=True).cost <= 1_300_000


def test_any_number_of_batches_makes_a_hundred_classes() -> None:
    mix = BatchMix.of((batch, 1 / batch) for batch in range(1, 1001))
    given = problem([option("a", "1", line(5, 0.2)), option("b", "0.3", line(5, 0.5))], mix=mix, slo_ms=400, budget="4")
    merged, easy = class_table(given), class_table(given, "least")
    assert len(merged.shares) <= 100
    assert (merged.first[0], merged.last[-1]) == (1, 1000)
    assert [first - 1 for first in merged.first[1:]] == list(merged.last[:-1])
    low, high = (most_load(table, CEILING, budget=4_000_000) for table in (merged, easy))
    assert low is not None
    assert high is not None
    assert 0.97 * high.objective_bound <= low.rate <= high.objective_bound


@pytest.mark.parametrize("policy", DISPATCH_POLICIES.names)
@pytest.mark.parametrize("seed", [0, 3])
def test_above_the_ceiling_no_policy_keeps_the_slo(policy: str, seed: int) -> None:
    given = flow_pool(seed)
    counts = {one.name: 2 for one in given.types}
    top = of_counts(given, CEILING, **counts).rate
    system = System.of({one.name: one.profile for one in given.types}, given.mix.batches, given.slo.latency)
    works = [draw_workload(given.mix, 6000, seed) for seed in (880_001, 880_002, 880_003)]
    trial = TrialSetup(system, counts, make_policy(policy), given.slo.percentile, Pooled())
    assert not trial.at(1.02 * top, works).passed
    assert not trial.at(1.2 * top, works).passed


def test_the_trial_above_the_ceiling_would_see_what_holds() -> None:
    given = flow_pool(3)
    counts = {one.name: 2 for one in given.types}
    top = of_counts(given, CEILING, **counts).rate
    system = System.of({one.name: one.profile for one in given.types}, given.mix.batches, given.slo.latency)
    works = [draw_workload(given.mix, 6000, seed) for seed in (880_001, 880_002, 880_003)]
    assert TrialSetup(system, counts, make_policy("hetserve"), 99.0, Pooled()).at(0.5 * top, works).passed
