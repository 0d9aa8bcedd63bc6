"""What sigma does to bookings and service times."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from hetserve.base.units import Millionths, Percent, format_ratio
from hetserve.objects.gpu_sharing import SharingTerms, Tenant, tolerate
from hetserve.planning import PlanSettings, Problem, TypeOption, build_problem
from hetserve.planning.prices import largest_share
from hetserve.planning.tenancy import Tenancy
from testing.planning import inference_service, instance_type, model_profile

ONE = 1_000_000
sigmas = st.integers(ONE, 3 * ONE) | st.sampled_from([ONE, 1_050_000, 1_250_000])
shares = st.integers(1, ONE) | st.sampled_from([ONE, 1])
factors = st.integers(ONE, 2 * ONE) | st.sampled_from([ONE])


@st.composite
def measurements(draw: st.DrawFn) -> dict[str, Any]:
    entries = [
        {"model": f"n{k}", "batch": 4, "factor": format_ratio(factor)}
        for k, factor in enumerate(draw(st.lists(factors, max_size=3)))
    ]
    entries += [{"model": "m", "batch": 4, "factor": format_ratio(own)} for own in draw(st.lists(factors, max_size=1))]
    mode = draw(st.sampled_from(["MPS", "TimeSlicing"]))
    return {"computeShare": format_ratio(draw(shares)), "sharingMode": mode} | (
        {"interference": entries} if entries else {}
    )


def planned(spec: dict[str, Any], sigma: int, per: str = "GiB", memory: int = 3072) -> TypeOption:
    kind = instance_type("t", "0.024", per=per, gpu={"product": "T4", "memory": "15360Mi"})
    profile = model_profile("m", "t", gpuMemory=f"{memory}Mi", **spec)
    settings = PlanSettings(max_slowdown=Millionths(sigma))
    problem = build_problem(inference_service(), [kind], [profile], settings=settings)
    assert isinstance(problem, Problem)
    return problem.types[0]


def booked(option: TypeOption) -> Percent:
    assert option.gpu is not None
    return option.gpu.compute


@given(measurements(), sigmas, sigmas)
def test_a_greater_sigma_never_books_more_and_never_serves_faster_where_it_shares(
    spec: dict[str, Any], one: int, other: int
) -> None:
    tight, loose = (planned(spec, sigma) for sigma in sorted((one, other)))
    assert booked(loose) <= booked(tight)
    assert loose.price <= tight.price
    assert loose.shares >= tight.shares
    fast, slow = tight.profile.mean(1), loose.profile.mean(1)
    assert fast is not None
    assert slow is not None
    assert fast <= slow


@given(measurements(), sigmas)
def test_a_booking_is_a_whole_percentage_of_one_gpu_and_service_takes_sigma_times_as_long(
    spec: dict[str, Any], sigma: int
) -> None:
    option = planned(spec, sigma)
    assert option.gpu is not None
    assert option.gpu.tenancy in {Tenancy.SHARED, Tenancy.EXCLUSIVE}
    assert 0 < booked(option) <= 100
    assert option.profile.mean(1) == (0.010 * (sigma / ONE) if option.shares else 0.010)


@given(measurements(), sigmas, st.integers(128, 15360))
def test_as_many_instances_alike_fit_on_a_gpu_as_pay_for_it_and_one_more_only_by_what_they_add(
    spec: dict[str, Any], sigma: int, memory: int
) -> None:
    option = planned(spec, sigma, "GPU", memory)
    assert 0 < option.price <= 24_000
    if not option.shares:
        return
    assert option.gpu is not None
    terms = option.gpu.terms
    assert terms is not None
    alike = SharingTerms(terms.share, terms.tolerance, terms.others)

    def fit(many: int) -> bool:
        held = many == 1 or tolerate([Tenant("default", f"m{k}", alike) for k in range(many)])
        return held and many * memory <= 15360

    share = largest_share(15360, memory, terms=terms)  # type: ignore[arg-type]
    assert option.price == math.ceil(24_000 * share)
    paid = min(int(1 / share), 40)  # not those of a millionth each
    assert fit(paid)
    if paid < 40:
        by_what_it_adds = share > max(Fraction(memory, 15360), Fraction(terms.share, terms.tolerance))
        assert not fit(paid + 2 if by_what_it_adds else paid + 1)


@given(measurements(), sigmas, st.integers(1, 15360))
def test_what_one_pays_by_its_share_never_rises_as_more_is_tolerated(
    spec: dict[str, Any], sigma: int, memory: int
) -> None:
    wider = planned(spec, sigma + 250_000, "GPU", memory)
    assert wider.price <= planned(spec, sigma, "GPU", memory).price


@given(measurements(), sigmas)
def test_a_service_plans_as_one_whose_times_alone_are_the_slowed_ones(spec: dict[str, Any], sigma: int) -> None:
    """The program and its trials see nothing but slowed times."""
    option = planned(spec, sigma)
    slowdown = (option.slowdown or ONE) / ONE
    for batch in (1, 7, 100):
        assert option.profile.mean(batch) == (alone(spec).profile.mean(batch) or 0.0) * slowdown


def alone(spec: dict[str, Any]) -> TypeOption:
    kind = instance_type("t", "0.5", gpu={"product": "T4", "memory": "15360Mi"})
    problem = build_problem(inference_service(), [kind], [model_profile("m", "t", gpuMemory="3Gi", **spec)])
    assert isinstance(problem, Problem)
    return problem.types[0]
