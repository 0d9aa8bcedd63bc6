from __future__ import annotations

from typing import Any

import pytest

from hetserve.api.conditions import ConditionType, Reason
from hetserve.base.units import QPS, MiB
from hetserve.planning import (
    ClusterFacts,
    PlanSettings,
    Pool,
    Problem,
    ResourceAmounts,
    TypeFacts,
    Unplannable,
    build_problem,
)
from testing.planning import inference_service, instance_type, model_profile

T4 = {"product": "Tesla-T4", "memory": "15360Mi"}


def built(answer: Problem | Unplannable) -> Problem:
    assert isinstance(answer, Problem), answer
    return answer


def variants(*names: str) -> dict[str, Any]:
    """Spec of a profile: the first variant takes 10 ms, each further one ten more."""
    lines = [{"intercept": f"{10 * k}ms", "slope": "0ms"} for k in range(1, len(names) + 1)]
    listed = [{"name": name, "latency": {"linear": line}} for name, line in zip(names, lines, strict=True)]
    return {"latency": None, "variants": listed}


def test_the_most_accurate_variant_is_planned_on_each_type() -> None:
    accuracies = [{"name": "tiny", "accuracy": "70"}, {"name": "full", "accuracy": "80"}]
    service = inference_service(variants=accuracies)
    profiles = [
        model_profile("m", "a", **variants("tiny", "full")),
        model_profile("m", "b", **variants("full", "x", "tiny")),
    ]
    problem = built(build_problem(service, [instance_type("a"), instance_type("b")], profiles))
    assert [option.profile.mean(1) for option in problem.types] == [0.02, 0.01]


def test_by_default_every_type_with_a_profile_of_the_model_is_used_sorted_by_name() -> None:
    types = [instance_type(name) for name in ("c", "a", "b")]
    profiles = [
        model_profile("m", "c"),
        model_profile("m", "a"),
        model_profile("other", "b"),
        model_profile("m", "b", "elsewhere"),
    ]
    problem = built(build_problem(inference_service(), types, profiles))
    assert [option.name for option in problem.types] == ["a", "c"]
    assert built(build_problem(inference_service(), types[::-1], profiles[::-1])) == problem


def test_a_selector_uses_matching_types_and_names_those_without_a_profile() -> None:
    types = [
        instance_type("a", labels={"tier": "gold"}),
        instance_type("b", labels={"tier": "gold"}),
        instance_type("c"),
    ]
    service = inference_service(instanceTypes={"selector": {"matchLabels": {"tier": "gold"}}})
    problem = built(build_problem(service, types, [model_profile("m", "a"), model_profile("m", "c")]))
    assert [option.name for option in problem.types] == ["a"]
    assert [(r.subject, r.reason) for r in problem.left_out] == [("b", "no ModelProfile of model m in this namespace")]


PRICES: dict[str, tuple[dict[str, Any], str | None, int, int]] = {
    "per instance": ({"hourly": "0.526"}, None, 526_000, 0),
    "per GiB, whole GPU": ({"hourly": "0.024", "per": "GiB", "gpu": T4}, None, 360_000, 15360),
    "per GiB, 3 GiB of it": ({"hourly": "0.024", "per": "GiB", "gpu": T4}, "3Gi", 72_000, 3072),
    "per GiB, rounded up once": ({"hourly": "0.000001", "per": "GiB", "gpu": T4}, "1Mi", 1, 1),
    "per GiB, uneven": ({"hourly": "0.191", "per": "GiB", "gpu": T4}, "1000Mi", 186_524, 1000),
    "per instance, the whole GPU whatever the profile holds": ({"hourly": "0.5", "gpu": T4}, "3Gi", 500_000, 15360),
}


@pytest.mark.parametrize("case", PRICES)
def test_price_and_gpu_memory_of_an_instance(case: str) -> None:
    spec, held, price, gpu_memory = PRICES[case]
    measured = {"computeShare": "0.5", "sharingMode": "TimeSlicing"}
    profile = model_profile("m", "t", **({} if held is None else {"gpuMemory": held, **measured}))
    problem = built(build_problem(inference_service(), [instance_type("t", **spec)], [profile]))
    assert problem.types[0].price == price
    assert problem.types[0].demand.gpu_memory == gpu_memory


def test_the_cluster_caps_a_type_by_what_runs_and_what_has_room() -> None:
    types = [instance_type("a", maxInstances=5, launchTime="90s", resources={"cpu": "500m", "memory": "1Gi"})]
    facts = ClusterFacts({"a": TypeFacts(running=2, room=1, pool="p")}, (Pool("p", ResourceAmounts()),))
    option = built(build_problem(inference_service(), types, [model_profile("m", "a")], facts)).types[0]
    assert (option.max_instances, option.running, option.pool, option.launch_time) == (3, 2, "p", 90.0)
    assert option.demand == ResourceAmounts(500, MiB(1024))  # type: ignore[arg-type]
    alone = built(build_problem(inference_service(), types, [model_profile("m", "a")])).types[0]
    assert (alone.max_instances, alone.running, alone.pool) == (5, 0, None)


def test_an_unknown_room_is_no_room_limit() -> None:
    facts = ClusterFacts({"a": TypeFacts(running=2)})
    problem = built(build_problem(inference_service(), [instance_type("a")], [model_profile("m", "a")], facts))
    assert problem.types[0].max_instances is None


def test_settings_and_load_reach_the_problem() -> None:
    service = inference_service(objective="MinCost", budget=None, load={"expectedQPS": 12.5})
    settings = PlanSettings(saturation_threshold=0.9, launch_weight=0.1, base="a")
    problem = built(build_problem(service, [instance_type("a")], [model_profile("m", "a")], settings=settings))
    assert (problem.load, problem.budget, problem.saturation_threshold, problem.launch_weight, problem.base) == (
        12.5,
        None,
        0.9,
        0.1,
        "a",
    )
    assert problem.mix.batches == (1,)


A = [instance_type("a"), instance_type("b")]
SCALED: dict[str, Any] = {"objective": "MinCost", "metrics": {"source": "Hetserve"}, "scaling": {"saturation": "0.5"}}

REFUSED: dict[str, tuple[dict[str, Any], list[Any], Reason, str]] = {
    "an unknown type": (
        {"instanceTypes": {"names": ["a", "zz"]}},
        [model_profile("m", "a")],
        Reason.INSTANCE_TYPE_NOT_FOUND,
        "spec.instanceTypes names zz, which does not exist; there are: a, b",
    ),
    "a named type without a profile": (
        {"instanceTypes": {"names": ["a", "b"]}},
        [model_profile("m", "a"), model_profile("m", "b", "elsewhere")],
        Reason.PROFILE_MISSING,
        "no ModelProfile of model m on b in namespace default",
    ),
    "two profiles of one pair": (
        {},
        [model_profile("m", "a", name="p2"), model_profile("m", "a", name="p1"), model_profile("m", "b")],
        Reason.PROFILE_CONFLICT,
        "ModelProfiles p1 and p2 in namespace default all speak of model m on a; keep one",
    ),
    "a variant without a latency": (
        {"variants": [{"name": "full", "accuracy": "80"}]},
        [model_profile("m", "a"), model_profile("m", "b", **variants("tiny"))],
        Reason.VARIANT_MISMATCH,
        "ModelProfile m-a has no spec.variants, with a latency of each of full; ModelProfile m-b has no latency of "
        "variant full of spec.model.variants; it has tiny",
    ),
    "no profile at all": (
        {},
        [model_profile("m", "gone")],
        Reason.NO_INSTANCE_TYPES,
        "no InstanceType has a ModelProfile of model m in namespace default; InstanceTypes: a, b; types with such a "
        "profile: gone",
    ),
    "a selector that matches nothing": (
        {"instanceTypes": {"selector": {"matchLabels": {"tier": "gold"}}}},
        [model_profile("m", "a")],
        Reason.NO_INSTANCE_TYPES,
        "no InstanceType has the labels tier=gold; there are: a, b",
    ),
    "MinCost without a load": (
        {"objective": "MinCost", "load": None},
        [model_profile("m", "a")],
        Reason.LOAD_UNKNOWN,
        "set spec.load.expectedQPS",
    ),
    "a load that is measured, and not yet": (
        {**SCALED, "load": None},
        [model_profile("m", "a")],
        Reason.LOAD_UNKNOWN,
        "none has been yet; to plan before, set spec.load.expectedQPS (queries/s), or give `hetserve plan` --load",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_objects_that_do_not_fit_together_are_named(case: str) -> None:
    spec, profiles, reason, message = REFUSED[case]
    answer = build_problem(inference_service(**spec), A, profiles)
    assert isinstance(answer, Unplannable)
    assert answer.reason == reason
    assert message in answer.message
    about_profiles = reason in {Reason.PROFILE_MISSING, Reason.PROFILE_CONFLICT, Reason.VARIANT_MISMATCH}
    assert (ConditionType.PROFILE_READY in answer.conditions) is about_profiles


def test_a_load_that_is_given_counts_instead_of_the_expected_one() -> None:
    for expected in (None, {"expectedQPS": 7}):
        service = inference_service(**{**SCALED, "load": expected})
        assert built(build_problem(service, A, [model_profile("m", "a")], load=QPS(3.0))).load == 3.0
    assert (
        built(
            build_problem(inference_service(**{**SCALED, "load": {"expectedQPS": 7}}), A, [model_profile("m", "a")])
        ).load
        == 7.0
    )


def test_with_scaling_its_saturation_counts_and_else_that_of_the_installation() -> None:
    settings = PlanSettings(saturation_threshold=0.7)
    for spec, share in ((SCALED, 0.5), ({**SCALED, "scaling": {}}, 0.8), ({"objective": "MinCost"}, 0.7)):
        service = inference_service(**{**spec, "load": {"expectedQPS": 7}})
        assert (
            built(build_problem(service, A, [model_profile("m", "a")], settings=settings)).saturation_threshold == share
        )


def test_a_model_larger_than_the_gpu_leaves_the_type_out_with_the_numbers() -> None:
    small = instance_type("small", per="GiB", gpu=T4)
    answer = build_problem(inference_service(), [small], [model_profile("m", "small", gpuMemory="20Gi")])
    assert isinstance(answer, Unplannable)
    assert "small: an instance needs 20480 MiB of GPU memory, one Tesla-T4 has 15360 MiB" in answer.message


def test_a_conflict_on_a_type_that_is_not_used_does_not_matter() -> None:
    service = inference_service(instanceTypes={"names": ["b"]})
    profiles = [model_profile("m", "a", name="p1"), model_profile("m", "a", name="p2"), model_profile("m", "b")]
    assert [option.name for option in built(build_problem(service, A, profiles)).types] == ["b"]
