"""What a service may be slowed by on its own account: never past its SLO, its load or what leaves others room.

By theory, as trials of these problems take long: what theory says is where trials begin.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from effort import examples
from hetserve.base.units import QPS, MicroDollarsPerHour, format_ratio, parse_money
from hetserve.planning import Problem, build_problem
from hetserve.planning.check import violations
from hetserve.planning.flow.search.judge import Judge
from hetserve.planning.flow.tolerance import own_tolerances
from hetserve.planning.registry import plan
from hetserve.planning.tolerances import with_tolerances
from hetserve.profiles.sharing import check_terms
from testing.planning import inference_service, instance_type, model_profile

ONE = 1_000_000
ratios = st.integers(ONE, 3 * ONE) | st.sampled_from([ONE, 50 * ONE])


@st.composite
def fixed_loads(draw: st.DrawFn) -> Problem:
    """Types up to a thousand times apart, mixes, trickles and floods."""
    names = ("a", "b", "c")[: draw(st.integers(1, 3))]
    kinds, profiles = [], []
    for name in names:
        gpu = {"product": name, "memory": "16Gi"}
        per = draw(st.sampled_from(["GPU", "GiB"]))
        kinds.append(instance_type(name, str(draw(st.integers(1, 1000)) / 100), per=per, gpu=gpu))
        mean = draw(st.floats(0.01, 10.0))
        entries = [
            {"model": f"n{k}", "batch": 4, "factor": format_ratio(f)}
            for k, f in enumerate(draw(st.lists(ratios, max_size=3)))
        ]
        measured: dict[str, Any] = {
            "gpuMemory": f"{draw(st.integers(1, 16))}Gi",
            "computeShare": format_ratio(draw(st.integers(1, ONE))),
            "sharingMode": draw(st.sampled_from(["MPS", "TimeSlicing"])),
        } | ({"interference": entries} if entries else {})
        line = {"intercept": f"{mean:.4f}ms", "slope": f"{mean / 10:.5f}ms", "coefficientOfVariation": "0.05"}
        profiles.append(model_profile("m", name, latency={"linear": line}, **measured))
    sizes = draw(st.lists(st.integers(1, 500), min_size=1, max_size=4, unique=True))
    weights = [{"batch": b, "weight": draw(st.integers(1, 1000))} for b in sorted(sizes)]
    load = draw(st.floats(1e-3, 1e4))
    service = inference_service(
        objective="MinCost",
        budget=None,
        slo={"latency": f"{draw(st.integers(1, 5000))}ms", "percentile": draw(st.sampled_from(["95", "98", "99"]))},
        load={"expectedQPS": load, "batchSizes": weights},
    )
    built = build_problem(service, kinds, profiles)
    assert isinstance(built, Problem), built
    return built


@pytest.fixture(autouse=True, scope="module")
def by_theory() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Judge, "can_try", lambda *_: False)
        yield


@settings(deadline=None, max_examples=examples(120))
@given(fixed_loads())
def test_a_tolerance_is_within_the_slo_and_the_load_and_leaves_room_for_others(problem: Problem) -> None:
    shortest, mix = min(problem.mix.batches), problem.mix
    for name, tolerance in own_tolerances(problem).items():
        (option,) = [one for one in problem.types if one.name == name]
        own = option.own
        assert own is not None
        slowdown, mean = tolerance / ONE, own.profile.mean
        assert slowdown * (mean(shortest) or 0.0) <= problem.slo.latency
        busy = sum(share * (mean(batch) or 0.0) for batch, share in zip(mix.batches, mix.shares, strict=True))
        assert float(problem.load or 0) * busy * slowdown < 1
        terms = own.at(tolerance).terms
        assert terms is not None
        check_terms(terms)
        assert tolerance % 10_000 == 0
        assert tolerance > (option.slowdown or ONE)


@settings(deadline=None, max_examples=examples(60))
@given(fixed_loads(), st.floats(1.01, 100))
def test_less_load_is_never_tolerated_worse(problem: Problem, times: float) -> None:
    single = replace(problem, types=problem.types[:1], unshared=problem.unshared[:1])
    less = replace(single, load=QPS(float(single.load or 0) / times))
    more, eased = own_tolerances(single), own_tolerances(less)
    # Both are found by halving, to one percent.
    assert all(name not in eased or eased[name] >= 0.98 * tolerance for name, tolerance in more.items())


@settings(deadline=None, max_examples=examples(60))
@given(fixed_loads())
def test_a_plan_keeps_what_it_promises_at_its_tolerances(problem: Problem) -> None:
    tolerant = with_tolerances(problem, own_tolerances(problem))
    made = plan(tolerant, quick=True)
    assert made.reason != "PlannerFailed", made.message
    if made.feasible:
        assert violations(tolerant, made) == ()


@settings(deadline=None, max_examples=examples(60))
@given(fixed_loads(), st.floats(0.01, 1.0), st.integers(0, 1))
def test_no_budget_that_is_enough_is_below_what_a_refusal_names(problem: Problem, part: float, least: int) -> None:
    wanted = replace(problem, types=(replace(problem.types[0], min_instances=least), *problem.types[1:]))
    made = plan(wanted)
    budget = max(int(part * made.cost) - 1, 0)
    if not made.feasible or not budget:
        return
    refused = plan(replace(wanted, budget=MicroDollarsPerHour(budget)))
    if refused.feasible:
        return
    assert refused.reason == "BudgetTooLow", refused.message
    for figure in re.findall(r"at least ([0-9.]+) \$/h|\) cost ([0-9.]+) \$/h", refused.message):
        assert budget < parse_money("".join(figure)) <= made.cost
