"""A service of a fixed load takes the widest slow-down at which one instance still carries it, less a part.

Never less than the installation's: narrower than that, an instance finds fewer places than two would.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from hetserve.base.units import MicroDollarsPerHour, Millionths
from hetserve.objects.gpu_sharing import ONE
from hetserve.planning import Plan, Problem, TypeOption, build_problem, plan
from hetserve.planning.flow.tolerance import KEPT, own_tolerances
from hetserve.planning.formatting import money_text
from hetserve.planning.registry import trial
from hetserve.planning.tenancy import SharingRule
from hetserve.planning.tolerances import with_tolerances
from testing.planning import inference_service, instance_type, model_profile

SIGMA = 1_750_000
T4 = {"product": "Tesla-T4", "memory": "15360Mi"}
V100 = {"product": "Tesla-V100", "memory": "32768Mi"}
MPS: dict[str, Any] = {"gpuMemory": "3Gi", "computeShare": "0.5", "sharingMode": "MPS"}


def asked(load: float, factor: str = "1.1", rule: SharingRule | None = None, **spec: Any) -> Problem:
    """Queries of 34 ms on T4s (0.36 $/h) and 16 ms on V100s (2 $/h), 98 % within 400 ms."""
    measured: dict[str, Any] = MPS | {"interference": [{"model": "other", "batch": 8, "factor": factor}]}
    types = [instance_type("t4", "0.36", per="GPU", gpu=T4), instance_type("v100", "2", per="GPU", gpu=V100)]
    profiles = [
        model_profile("m", name, latency={"linear": {"intercept": f"{mean}ms", "slope": "0ms"}}, **measured)
        for name, mean in (("t4", 34), ("v100", 16))
    ]
    fixed = {"objective": "MinCost", "budget": None, "slo": {"latency": "400ms", "percentile": "98"}}
    batches = {"expectedQPS": load, "batchSizes": [{"batch": 1, "weight": 1}]}
    built = build_problem(inference_service(**(fixed | {"load": batches} | spec)), types, profiles, sharing=rule)
    assert isinstance(built, Problem), built
    return built


def of_t4(made: Plan) -> Millionths | None:
    return dict(made.tolerances).get("t4")


def test_a_light_load_tolerates_more_than_the_installation_asks_and_pays_less() -> None:
    made = plan(asked(8))
    own = of_t4(made)
    assert own is not None
    assert 2_000_000 < own < 400 / 34 * 1_000_000
    assert dict(made.counts) == {"t4": 1, "v100": 0}
    assert made.cost == 360_000 * 500_000 // own + 1, "u / s of a GPU, rounded up once"
    assert f"t4 pays 0.22 of a GPU each, and takes at most {own / 1e6:.2f}".rstrip("0") in made.verdict


def test_where_one_instance_carries_the_load_only_at_less_than_sigma_two_keep_that() -> None:
    made = plan(asked(16))
    assert (dict(made.counts)["t4"], made.tolerances) == (2, ())


def test_the_part_that_is_kept_in_hand_never_makes_a_tolerance_narrower_than_sigma() -> None:
    problem = asked(13)
    carried = [trial(_only_t4(problem, s / ONE), (("t4", 1),)).holds for s in (SIGMA, 1.01 * SIGMA / KEPT)]
    assert carried == [True, False]
    assert own_tolerances(problem) == {}
    assert dict(plan(problem).counts)["t4"] == 1


@pytest.mark.parametrize(("least", "placed"), [(None, True), (2_100_000, True), (300_000_000, False)])
def test_where_sigma_finds_no_place_the_tolerance_does_if_it_is_wide_enough(least: int | None, *, placed: bool) -> None:
    """`least`: at which the cluster takes one; None: it takes some at sigma."""
    made = plan(crowded(asked(4), least))
    assert (made.feasible and dict(made.counts)["t4"] == 1) is placed


def test_a_cheap_type_whose_tolerance_finds_no_place_keeps_no_dearer_one_from_it() -> None:
    t4, v100 = crowded(asked(4), 300_000_000).types[0], crowded(asked(4), 2_100_000).types[1]
    made = plan(replace(asked(4), types=(t4, v100)))
    assert (made.feasible, dict(made.counts)["v100"]) == (True, 1)


def test_a_wanted_instance_that_only_a_tolerance_finds_a_place_for_is_planned() -> None:
    problem = crowded(asked(4), 2_100_000)
    wanted = replace(problem, types=tuple(replace(o, min_instances=1) for o in problem.types[:1]), unshared=())
    assert plan(wanted).feasible
    refused = plan(crowded(wanted, 300_000_000))
    assert (refused.reason, refused.message) == ("CapacityTooLow", "at least 1xt4 are wanted, none can be had")


@pytest.mark.parametrize("short", [1, 30_000])
@pytest.mark.parametrize("least", [0, 1])
def test_a_budget_that_is_too_low_names_what_one_instance_costs_at_its_own_tolerance(short: int, least: int) -> None:
    """At the installation's it costs 0.103 $/h: more than enough."""
    problem = asked(8)
    problem = replace(problem, types=(replace(problem.types[0], min_instances=least), problem.types[1]))
    cost = plan(problem).cost
    assert cost < problem.types[0].price
    refused = plan(replace(problem, budget=MicroDollarsPerHour(cost - short)))
    assert (refused.reason, refused.tolerances) == ("BudgetTooLow", ())
    assert money_text(cost) in refused.message
    assert money_text(problem.types[0].price) not in refused.message
    assert plan(replace(problem, budget=cost)).feasible


def crowded(problem: Problem, least: int | None) -> Problem:
    """The problem where no type has a place at sigma, and each has one from a tolerance on."""
    room = None if least is None else 0
    types = tuple(
        replace(
            o,
            max_instances=room,
            own=None if o.own is None else replace(o.own, least=None if least is None else Millionths(least)),
        )
        for o in problem.types
    )
    return replace(problem, types=types)


def test_where_nobody_shares_no_service_has_a_tolerance() -> None:
    made = plan(problem := asked(8, rule=SharingRule(Millionths(ONE))))
    assert [(o.shares, o.own) for o in problem.types] == [(False, None)] * 2
    assert made.tolerances == ()
    assert "planned with a GPU of its own: sharing.maxSlowdown is 1" in made.verdict


def test_trials_see_times_as_long_as_sharing_may_make_them() -> None:
    shared = asked(16)
    alone = replace(shared, types=shared.unshared)
    assert [trial(one, (("t4", 1), ("v100", 0))).holds for one in (alone, shared)] == [True, False]


def test_a_load_that_takes_several_instances_keeps_the_installations() -> None:
    assert plan(asked(60)).tolerances == ()


def test_the_tolerance_is_the_last_that_trials_let_pass_less_a_part() -> None:
    problem = asked(12)
    own = own_tolerances(problem)["t4"] / 1e6
    slowdowns = own, own / KEPT * 0.99, own / KEPT * 1.06
    assert [trial(_only_t4(problem, s), (("t4", 1),)).holds for s in slowdowns] == [True, True, False]


def _only_t4(problem: Problem, slowdown: float) -> Problem:
    """The problem on T4s alone at a slow-down, without tolerances of its own."""
    slow = with_tolerances(problem, {"t4": Millionths(round(slowdown * ONE))}).types[0]
    return replace(problem, types=(replace(slow, own=None),), unshared=problem.unshared[:1])


def test_a_plan_that_nothing_has_tried_promises_no_tolerance() -> None:
    assert own_tolerances(asked(12))
    assert plan(asked(12), quick=True).tolerances == ()


def test_a_factor_that_nobody_tolerates_at_sigma_is_shared_where_the_service_tolerates_more() -> None:
    problem = asked(4, factor="2.2")
    assert not problem.types[0].shares
    made = plan(problem)
    own = of_t4(made)
    assert own is not None
    assert own >= 2_200_000
    assert made.cost < 360_000


@pytest.mark.parametrize(
    "spec",
    [
        {"scaling": {"maxInstances": 4}, "metrics": {"source": "Hetserve"}},
        {"planner": "ilp"},
        {"sharing": "Exclusive"},
        {"objective": "MaxThroughput", "budget": {"hourly": "3"}},
    ],
    ids=["follows its load", "tries nothing", "exclusive", "most throughput"],
)
def test_only_a_fixed_load_that_is_tried_has_a_tolerance_of_its_own(spec: dict[str, Any]) -> None:
    assert plan(asked(8, **spec)).tolerances == ()


def test_more_instances_than_one_keep_the_installations() -> None:
    several = replace(asked(8), least_total=2)
    limited = asked(8)
    wanted = replace(limited, types=tuple(replace(o, min_instances=2) for o in limited.types))
    assert own_tolerances(several) == own_tolerances(wanted) == {}


def test_a_recorded_percentage_stays_at_the_slow_down_of_its_plan() -> None:
    booked = asked(8, rule=SharingRule(booked={"t4": 40, "v100": 40}, by_percent=True))  # type: ignore[dict-item]
    assert {o.slowdown for o in booked.types} == {1_250_000}
    assert plan(booked).tolerances == ()


def test_equal_problems_get_equal_tolerances_whatever_runs() -> None:
    problem = asked(12)
    running = replace(problem, types=tuple(replace(o, running=1) for o in problem.types))
    assert own_tolerances(problem) == own_tolerances(running)


def without_own(problem: Problem) -> Problem:
    return replace(problem, types=tuple(replace(o, own=None) for o in problem.types))


def test_a_tolerance_of_a_type_that_has_none_is_an_error() -> None:
    with pytest.raises(KeyError, match="type t4 has no tolerance of its own"):
        with_tolerances(without_own(asked(8)), {"t4": Millionths(2_000_000)})


def test_service_times_of_the_plan_are_the_tolerance_times_those_alone() -> None:
    problem = with_tolerances(asked(8), {"t4": Millionths(2_500_000)})
    t4: TypeOption = problem.types[0]
    assert t4.profile.mean(1) == pytest.approx(0.085)
    assert (t4.slowdown, problem.types[1].slowdown) == (2_500_000, SIGMA)
