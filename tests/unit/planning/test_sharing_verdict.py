"""What a plan says of sharing: both sides, who has a GPU alone and why; none of it changes what is planned."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from hetserve.api.conditions import Reason
from hetserve.base.units import Millionths, Seconds
from hetserve.objects.gpu_sharing import SharingTerms
from hetserve.planning import (
    ClusterFacts,
    Plan,
    PlanSettings,
    Pool,
    Problem,
    ResourceAmounts,
    TypeFacts,
    build_problem,
    plan,
)
from hetserve.planning.sharing import alone_notes
from hetserve.planning.tenancy import SharingRule
from testing.planning import inference_service, instance_type, model_profile

GPUS = {"t4": ("0.024", "Tesla-T4", "15360Mi", "40ms"), "v100": ("0.191", "Tesla-V100", "32768Mi", "20ms")}
TIGHT = PlanSettings(max_slowdown=Millionths(1_250_000))
MEASURED = {"computeShare": "0.5", "sharingMode": "TimeSlicing"}


def asked(measured: tuple[str, ...] = ("t4", "v100"), facts: ClusterFacts | None = None, **spec: Any) -> Problem:
    """Least cost of 60 q/s on T4s (25 q/s alone) and V100s (50 q/s alone), priced by memory, 3 GiB of it needed."""
    types = [instance_type(name, hourly, per="GiB", gpu=_gpu(name)) for name, (hourly, *_) in GPUS.items()]
    profiles = [
        model_profile("m", name, gpuMemory="3Gi", latency=_latency(name), **(MEASURED if name in measured else {}))
        for name in GPUS
    ]
    least = {"objective": "MinCost", "budget": None, "planner": "ilp"}
    load = {"expectedQPS": 60, "batchSizes": [{"batch": 1, "weight": 1}]}
    built = build_problem(inference_service(**{**least, "load": load, **spec}), types, profiles, facts, settings=TIGHT)
    assert isinstance(built, Problem), built
    return built


def _gpu(name: str) -> dict[str, str]:
    return {"product": GPUS[name][1], "memory": GPUS[name][2]}


def _latency(name: str) -> dict[str, Any]:
    return {"linear": {"intercept": GPUS[name][3], "slope": "0ms"}}


def most(planner: str = "kairos") -> Problem:
    load = {"batchSizes": [{"batch": 1, "weight": 1}]}
    return asked(objective="MaxThroughput", budget={"hourly": "1"}, load=load, planner=planner)


@pytest.mark.parametrize("planner", ["ilp", "greedy", "homogeneous"])
def test_the_verdict_says_what_sharing_saves(planner: str) -> None:
    made = plan(asked(planner=planner))
    # 60 q/s at 80 % need 75 q/s: 20 q/s of a shared T4, 25 q/s of one alone.
    assert dict(made.counts) == {"t4": 4, "v100": 0}
    assert "sharing saves 0.792 $/h: exclusive 3xt4, 1.08 $/h; shared 4xt4, 0.288 $/h" in made.verdict
    assert made.sharing is not None
    assert made.sharing.planner == planner


def test_planner_flow_compares_what_its_program_says_of_both() -> None:
    made = plan(asked(planner="flow"), quick=True)
    sides = "exclusive 3xt4, 1.08 $/h; shared 3xt4, 0.216 $/h (both as if no query waited)"
    assert f"sharing saves 0.864 $/h: {sides}" in made.verdict


def test_under_a_budget_it_says_what_the_money_carries_each_way() -> None:
    each = "exclusive 2xt4, 50.0 q/s for 0.72 $/h; shared 13xt4, 260.0 q/s for 0.936 $/h"
    assert f"sharing gains 210.0 q/s: {each}" in plan(most("homogeneous")).verdict
    assert f"sharing gains 210.0 q/s: {each} (both as if no query waited)" in plan(most("flow"), quick=True).verdict


def test_where_memory_is_the_whole_gpu_sharing_costs() -> None:
    types = [instance_type("t4", "0.024", per="GiB", gpu=_gpu("t4"))]
    profiles = [model_profile("m", "t4", gpuMemory="15Gi", latency=_latency("t4"), **MEASURED)]
    service = inference_service(objective="MinCost", budget=None, planner="ilp", load={"expectedQPS": 60})
    built = build_problem(service, types, profiles, settings=TIGHT)
    assert isinstance(built, Problem)
    assert "sharing costs 0.36 $/h: exclusive 3xt4, 1.08 $/h; shared 4xt4, 1.44 $/h" in plan(built).verdict


def test_nothing_is_said_where_nobody_could_share() -> None:
    made = plan(asked(sharing="Exclusive"))
    assert made.sharing is None
    assert "sharing saves" not in made.verdict
    assert made.verdict.endswith("t4, v100: planned with a GPU of its own: spec.sharing is Exclusive")


def test_each_type_that_has_its_gpu_alone_is_named_with_the_reason() -> None:
    made = plan(asked(measured=("v100",)))
    assert made.verdict.endswith(
        "t4: planned with a GPU of its own: ModelProfile m-t4 has no computeShare; "
        "measure it: docs/how-to-measure-sharing.md"
    )
    assert made.sharing is not None


def test_a_problem_with_many_reasons_names_some_and_counts_the_rest() -> None:
    given = asked(measured=("v100",))
    option = given.types[0]
    assert option.gpu is not None
    many = tuple(
        dataclasses.replace(option, name=f"t{k}", gpu=dataclasses.replace(option.gpu, why=f"reason {k}"))
        for k in range(9)
    )
    notes = alone_notes(dataclasses.replace(given, types=many))
    assert len(notes) == 5
    assert notes[-1] == "5 more share no GPU"


def test_what_runs_without_a_booking_is_said_to_promise_nothing() -> None:
    types = [instance_type("t4", "0.024", per="GiB", gpu=_gpu("t4"))]
    profiles = [model_profile("m", "t4", gpuMemory="3Gi", latency=_latency("t4"))]
    built = build_problem(inference_service(), types, profiles, sharing=SharingRule(undeclared=("t4",)))
    assert isinstance(built, Problem)
    (note,) = alone_notes(built)
    assert note.startswith("t4: its pods share GPUs without a booking, and nothing is promised beside others: ")


def test_an_slo_that_only_gpus_of_their_own_keep_is_refused_with_that_plan() -> None:
    made = plan(asked(slo={"latency": "22ms"}))
    assert made.reason == Reason.NO_TYPE_MEETS_SLO
    remedy = "with a GPU for each instance there is a plan (2xv100, 12.224 $/h): set spec.sharing to Exclusive"
    assert made.message.endswith(remedy)
    assert made.verdict.endswith(remedy)


@pytest.mark.parametrize("planner", ["flow", "ilp", "greedy", "homogeneous", "exhaustive", "kairos", "kairos-plus"])
def test_an_slo_that_the_slow_down_alone_breaks_names_it_and_what_would_keep_it(planner: str) -> None:
    """22 ms are 1.1 times 20: a sigma below that leaves time to wait."""
    problem = most(planner) if planner.startswith("kairos") else asked(planner=planner, budget={"hourly": "20"})
    made = plan(dataclasses.replace(problem, slo=dataclasses.replace(problem.slo, latency=Seconds(0.022))))
    assert made.reason == Reason.NO_TYPE_MEETS_SLO
    assert "at batch 1 is over the SLO of 22 ms, 20 ms alone (sharing.maxSlowdown is 1.25)" in made.message
    assert "t4: 50 ms" in made.message
    assert "40 ms alone" not in made.message, "alone it misses the SLO, too"
    assert "lower sharing.maxSlowdown below 1.1" in made.message
    assert "set spec.sharing to Exclusive" in made.message.split("with a GPU for each")[0]


@pytest.mark.parametrize("planner", ["ilp", "kairos"])
def test_a_wanted_type_that_the_slow_down_alone_keeps_from_the_slo_says_so(planner: str) -> None:
    problem = dataclasses.replace(most(planner) if planner == "kairos" else asked(), base="t4")
    types = tuple(dataclasses.replace(o, min_instances=int(o.name == "t4")) for o in problem.types)
    slo = dataclasses.replace(problem.slo, latency=Seconds(0.045))
    made = plan(dataclasses.replace(problem, types=types, slo=slo))
    assert made.reason == Reason.NO_TYPE_MEETS_SLO
    remedies = "; lower sharing.maxSlowdown below 1.12 or set spec.sharing to Exclusive"
    assert f"is over the SLO of 45 ms, 40 ms alone (sharing.maxSlowdown is 1.25){remedies}" in made.message


def test_a_slow_down_that_is_recorded_is_not_called_the_installations() -> None:
    types = [instance_type("t4", "0.024", per="GiB", gpu=_gpu("t4"))]
    profiles = [model_profile("m", "t4", gpuMemory="3Gi", latency=_latency("t4"))]
    terms = SharingTerms(Millionths(500_000), Millionths(2_000_000))
    rule = SharingRule(recorded={"t4": terms})
    built = build_problem(inference_service(slo={"latency": "45ms"}), types, profiles, sharing=rule)
    assert isinstance(built, Problem)
    message = plan(built, "kairos").message
    assert "40 ms alone (its recorded slow-down is 2); set spec.sharing to Exclusive" in message
    assert "lower sharing" not in message


def test_a_plan_that_neither_side_has_says_no_more_of_sharing() -> None:
    made = plan(asked(slo={"latency": "2ms"}))
    assert made.reason == Reason.NO_TYPE_MEETS_SLO
    assert "spec.sharing" not in made.message


def test_a_load_that_unmeasured_types_cannot_carry_says_that_they_are_unmeasured() -> None:
    made = plan(asked(measured=(), budget={"hourly": "0.3"}))
    assert not made.feasible
    assert "ModelProfile m-t4 has no computeShare; measure it" in made.message


@pytest.mark.parametrize(
    "given",
    [asked(planner=name) for name in ("flow", "ilp", "greedy", "homogeneous")]
    + [most(name) for name in ("flow", "kairos", "homogeneous")],
    ids=lambda given: f"{given.planner}, {given.objective}",
)
def test_the_choice_is_what_it_is_without_the_comparison(given: Problem) -> None:
    made, bare = (plan(one, quick=True) for one in (given, dataclasses.replace(given, unshared=())))
    for field in dataclasses.fields(Plan):
        if field.name not in {"verdict", "sharing"}:
            assert getattr(made, field.name) == getattr(bare, field.name)


def test_both_sides_are_those_of_a_cluster_with_room() -> None:
    """Neither side knows what runs or what is free: the figure changes with prices and profiles alone."""
    facts = ClusterFacts(
        {"t4": TypeFacts(running=2, room=2, pool="p"), "v100": TypeFacts(room=5)}, (Pool("p", ResourceAmounts()),)
    )
    full, empty = plan(asked(facts=facts)), plan(asked())
    assert full.counts != empty.counts
    assert full.sharing == empty.sharing


def test_the_order_of_the_types_turns_both_sides_too() -> None:
    given = asked()
    reverse = dataclasses.replace(given, types=given.types[::-1], unshared=given.unshared[::-1])
    one, other = plan(given), plan(reverse)
    assert one.sharing is not None
    assert other.sharing is not None
    for side in ("exclusive", "shared"):
        assert dict(getattr(one.sharing, side).counts) == dict(getattr(other.sharing, side).counts)


def test_a_status_holds_the_verdict_of_long_names() -> None:
    from hetserve.reconcile.plans.plan_record import RecordedGpus, plan_record

    made: Plan = plan(asked())
    assert "sharing saves" in plan_record(made, "x", RecordedGpus()).verdict
    assert len(made.verdict) < 1000


def test_a_defect_in_what_is_said_of_sharing_costs_no_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise ArithmeticError("no sides")

    sound = plan(asked())
    monkeypatch.setattr("hetserve.planning.sharing.compare_sharing", broken)
    made = plan(asked())
    assert made.feasible
    assert made.counts == sound.counts
    assert made.verdict.endswith("what sharing saves is not known: ArithmeticError: no sides")
