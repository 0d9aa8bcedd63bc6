"""How an instance has its GPU, what it books and pays, and how long its service is planned to take."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, NamedTuple

import pytest

from hetserve.api.inference_service import InferenceService
from hetserve.base.units import MiB, Millionths
from hetserve.planning import PlanSettings, Problem, build_problem
from hetserve.planning.offers import Offer, Offers, resolve_offers
from hetserve.planning.tenancy import SharingRule, Tenancy
from testing.planning import inference_service, instance_type, model_profile

T4 = {"product": "Tesla-T4", "memory": "15360Mi"}
BY_MEMORY: dict[str, Any] = {"hourly": "0.024", "per": "GiB", "gpu": T4}
BY_SHARE: dict[str, Any] = {"hourly": "0.36", "per": "GPU", "gpu": T4}
WHOLE_GPU = 360_000
"""Micro-dollars/h of all 15 GiB."""
TABLE = {"table": [{"batch": 1, "mean": "10ms", "p99": "14ms"}, {"batch": 8, "mean": "40ms", "p99": "60ms"}]}
MEASURED = {"gpuMemory": "3Gi", "computeShare": "0.5", "sharingMode": "TimeSlicing"}


def measured(share: str, *factors: str, mode: str = "MPS") -> dict[str, Any]:
    """Profile fields; factors: on other models."""
    entries = [{"model": f"other-{k}", "batch": 8, "factor": factor} for k, factor in enumerate(factors)]
    return {"gpuMemory": "3Gi", "computeShare": share, "sharingMode": mode} | (
        {"interference": entries} if entries else {}
    )


class Case(NamedTuple):
    """type, profile: fields of the InstanceType and the ModelProfile. price: micro-dollars/h."""

    type: dict[str, Any]
    profile: dict[str, Any]
    tenancy: Tenancy | None
    memory: int
    compute: int
    price: int
    why: str = ""
    slow: float = 1.0
    sharing: str | None = None
    undeclared: Collection[str] = ()
    sigma: int = 1_750_000


UNMEASURED = "ModelProfile m-t has no computeShare; measure it: docs/how-to-measure-sharing.md"
CASES = {
    "a CPU type": Case({"hourly": "0.2"}, {}, None, 0, 0, 200_000),
    "a CPU type of an exclusive service": Case({"hourly": "0.2"}, {}, None, 0, 0, 200_000, sharing="Exclusive"),
    "a type priced by the instance has its GPU whole": Case(
        {"hourly": "0.5", "gpu": T4}, MEASURED, Tenancy.WHOLE, 15360, 0, 500_000
    ),
    "of a model whose memory nobody knows": Case(
        BY_MEMORY, {}, Tenancy.WHOLE, 15360, 0, WHOLE_GPU, "ModelProfile m-t has no gpuMemory; set it to share GPUs"
    ),
    "measured, of a model whose memory nobody knows": Case(
        BY_MEMORY,
        {"computeShare": "0.5", "sharingMode": "TimeSlicing"},
        Tenancy.WHOLE,
        15360,
        0,
        WHOLE_GPU,
        "ModelProfile m-t has no gpuMemory; set it to share GPUs",
    ),
    "measured: a part of memory and compute, slowed": Case(
        BY_MEMORY, MEASURED, Tenancy.SHARED, 3072, 100, 72_000, slow=1.75
    ),
    "measured beside others": Case(
        BY_MEMORY, measured("0.3", "1.05", "1.1"), Tenancy.SHARED, 3072, 100, 72_000, slow=1.75
    ),
    "measured under MPS without neighbours: the default factor": Case(
        BY_MEMORY, measured("0.3"), Tenancy.SHARED, 3072, 100, 72_000, slow=1.75
    ),
    "measured in turns without neighbours: the share says all": Case(
        BY_MEMORY, measured("0.3", mode="TimeSlicing"), Tenancy.SHARED, 3072, 100, 72_000, slow=1.75
    ),
    "a whole share leaves what sigma does": Case(
        BY_MEMORY, measured("1", "1"), Tenancy.SHARED, 3072, 100, 72_000, slow=1.75
    ),
    "priced by its largest share, of compute": Case(BY_SHARE, MEASURED, Tenancy.SHARED, 3072, 100, 102_858, slow=1.75),
    "priced by its largest share, of memory": Case(
        BY_SHARE, MEASURED | {"gpuMemory": "12Gi"}, Tenancy.SHARED, 12288, 100, 288_000, slow=1.75
    ),
    "priced by its largest share, of what it adds to others": Case(
        BY_SHARE, measured("0.3", "1.4", "1.1"), Tenancy.SHARED, 3072, 100, 192_000, slow=1.75
    ),
    "priced by its largest share, which is never more than a GPU": Case(
        BY_SHARE, measured("0.3", "1.9", "1.1"), Tenancy.SHARED, 3072, 100, WHOLE_GPU, slow=1.75
    ),
    "priced by its largest share, exclusive": Case(
        BY_SHARE,
        MEASURED,
        Tenancy.EXCLUSIVE,
        15360,
        100,
        WHOLE_GPU,
        "spec.sharing is Exclusive",
        sharing="Exclusive",
    ),
    "priced by its largest share, unmeasured and running": Case(
        BY_SHARE, {"gpuMemory": "3Gi"}, Tenancy.UNDECLARED, 3072, 0, 72_000, why=UNMEASURED, undeclared=("t",)
    ),
    "unmeasured and new": Case(
        BY_MEMORY, {"gpuMemory": "3Gi"}, Tenancy.EXCLUSIVE, 15360, 100, WHOLE_GPU, why=UNMEASURED
    ),
    "unmeasured and running": Case(
        BY_MEMORY, {"gpuMemory": "3Gi"}, Tenancy.UNDECLARED, 3072, 0, 72_000, why=UNMEASURED, undeclared=("t",)
    ),
    "unmeasured, and another type is running": Case(
        BY_MEMORY, {"gpuMemory": "3Gi"}, Tenancy.EXCLUSIVE, 15360, 100, WHOLE_GPU, why=UNMEASURED, undeclared=("u",)
    ),
    "measured while it runs without a booking: on terms": Case(
        BY_MEMORY, MEASURED, Tenancy.SHARED, 3072, 100, 72_000, slow=1.75, undeclared=("t",)
    ),
    "slows every other by more than sigma": Case(
        BY_MEMORY,
        measured("0.3", "1.8", "1.9"),
        Tenancy.EXCLUSIVE,
        15360,
        100,
        WHOLE_GPU,
        why="ModelProfile m-t: interference factor 1.8: is above the greatest slow-down 1.75; set spec.sharing of the "
        "service to Exclusive, or raise sharing.maxSlowdown",
    ),
    "slows every other by more than sigma, which is raised": Case(
        BY_MEMORY, measured("0.3", "1.8"), Tenancy.SHARED, 3072, 100, 72_000, slow=1.8, sigma=1_800_000
    ),
    "slows one other by more than sigma, and one not at all": Case(
        BY_MEMORY, measured("0.3", "1.8", "1"), Tenancy.SHARED, 3072, 100, 72_000, slow=1.75
    ),
    "nobody may be slowed": Case(
        BY_MEMORY,
        measured("0.3", "1"),
        Tenancy.EXCLUSIVE,
        15360,
        100,
        WHOLE_GPU,
        "sharing.maxSlowdown is 1",
        sigma=1_000_000,
    ),
    "exclusive, though measured": Case(
        BY_MEMORY, MEASURED, Tenancy.EXCLUSIVE, 15360, 100, WHOLE_GPU, "spec.sharing is Exclusive", sharing="Exclusive"
    ),
    "exclusive on a type priced by the instance": Case(
        {"hourly": "0.5", "gpu": T4},
        MEASURED,
        Tenancy.EXCLUSIVE,
        15360,
        100,
        500_000,
        "spec.sharing is Exclusive",
        sharing="Exclusive",
    ),
}


def offer_of(case: Case) -> Offer:
    service, types, profiles = _objects(case)
    offers = resolve_offers(service, types, profiles, SharingRule(Millionths(case.sigma), case.undeclared))
    assert isinstance(offers, Offers), offers
    return offers.usable[0]


def problem_of(case: Case) -> Problem:
    service, types, profiles = _objects(case)
    sigma = Millionths(case.sigma)
    running = SharingRule(sigma, case.undeclared) if case.undeclared else None
    built = build_problem(service, types, profiles, settings=PlanSettings(max_slowdown=sigma), sharing=running)
    assert isinstance(built, Problem), built
    return built


def _objects(case: Case) -> tuple[InferenceService, list[Any], list[Any]]:
    profile = model_profile("m", "t", **{"latency": TABLE, **case.profile})
    return inference_service(sharing=case.sharing), [instance_type("t", **case.type)], [profile]


@pytest.mark.parametrize("name", CASES)
def test_an_instance_takes_its_part_of_a_gpu_and_pays_for_it(name: str) -> None:
    case = CASES[name]
    offer = offer_of(case)
    found = None if offer.gpu is None else offer.gpu.tenancy
    assert (found, "" if offer.gpu is None else offer.gpu.why) == (case.tenancy, case.why)
    assert (offer.demand.gpu_memory, 0 if offer.gpu is None else offer.gpu.compute) == (case.memory, case.compute)
    assert offer.demand.gpus == int(offer.gpu is not None)
    assert offer.price == case.price
    option = problem_of(case).types[0]
    assert (option.price, option.demand, option.gpu) == (offer.price, offer.demand, offer.gpu)


@pytest.mark.parametrize(
    ("own", "copies", "price"),
    [("1.7", "Apart", 102_858), ("1.7", "Allowed", 336_000), ("1.05", "Allowed", 102_858), ("1.9", "Apart", 102_858)],
)
def test_what_it_does_to_copies_of_itself_is_paid_where_they_may_share(own: str, copies: str, price: int) -> None:
    """A half of 1.75 is 0.29 of 0.36 $/h; 0.7 of 0.75 is 0.94."""
    spec = measured("0.5", "1.05")
    spec["interference"].append({"model": "m", "batch": 8, "factor": own})
    service, kind = inference_service(ownCopies=copies), instance_type("t", **BY_SHARE)
    problem = build_problem(service, [kind], [model_profile("m", "t", latency=TABLE, **spec)])
    assert isinstance(problem, Problem)
    assert problem.types[0].price == price


@pytest.mark.parametrize("name", CASES)
def test_service_is_planned_as_slow_as_sharing_may_make_it(name: str) -> None:
    case = CASES[name]
    option, alone = problem_of(case).types[0], problem_of(case._replace(sharing="Exclusive")).types[0]
    for batch, mean, p99 in ((1, 0.010, 0.014), (8, 0.040, 0.060)):
        assert alone.profile.mean(batch) == mean
        assert option.profile.mean(batch) == pytest.approx(mean * case.slow)
        assert option.profile.quantile(batch, 99.0) == pytest.approx(p99 * case.slow, rel=1e-3)


def test_a_problem_knows_slowdowns_and_both_sides_where_a_type_shares() -> None:
    shared, alone = problem_of(CASES["measured: a part of memory and compute, slowed"]), problem_of(CASES["a CPU type"])
    assert ([o.slowdown for o in shared.types], [o.slowdown for o in alone.types], alone.unshared) == (
        [1_750_000],
        [None],
        (),
    )
    (whole,) = shared.unshared
    assert (whole.price, whole.demand.gpu_memory, whole.demand.gpus) == (WHOLE_GPU, MiB(15360), 1)
    assert whole.profile.mean(8) == 0.040


def test_a_model_too_large_for_the_gpu_is_refused_however_it_would_have_it() -> None:
    for sharing in ("Shared", "Exclusive"):
        types = [instance_type("t", **BY_MEMORY)]
        answer = resolve_offers(inference_service(sharing=sharing), types, [model_profile("m", "t", gpuMemory="20Gi")])
        assert not isinstance(answer, Offers)
        assert "an instance needs 20480 MiB of GPU memory, one Tesla-T4 has 15360 MiB" in answer.message
