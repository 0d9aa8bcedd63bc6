"""A service of a fixed load takes the widest slow-down at which one instance still carries it, less a part."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from hetserve.base.units import Millionths
from hetserve.planning import Plan, Problem, TypeOption, build_problem, plan
from hetserve.planning.flow.tolerance import KEPT, own_tolerances
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


def test_one_instance_that_tolerates_less_takes_the_place_of_two() -> None:
    made, usual = plan(asked(16)), plan(without_own(asked(16)))
    own = of_t4(made)
    assert own is not None
    assert 1_200_000 < own < SIGMA
    assert (dict(made.counts)["t4"], dict(usual.counts)["t4"]) == (1, 2)
    assert made.cost < usual.cost
    assert usual.tolerances == ()


def test_one_that_leaves_nobody_room_beside_it_is_not_taken() -> None:
    """At 22 q/s one T4 carries the load hardly slowed: two at sigma leave more of their GPUs to others."""
    made = plan(asked(22))
    assert of_t4(made) is None
    assert dict(made.counts)["t4"] == 2


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
    slow = with_tolerances(problem, {"t4": Millionths(round(slowdown * 1_000_000))}).types[0]
    return replace(problem, types=(replace(slow, own=None),), unshared=problem.unshared[:1])


def test_without_trials_theory_says_no_more_than_they_do() -> None:
    problem = asked(12)
    quick, tried = own_tolerances(problem, quick=True)["t4"], own_tolerances(problem)["t4"]
    assert 0.9 * tried <= quick <= tried
    assert of_t4(plan(problem, quick=True)) == quick


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
