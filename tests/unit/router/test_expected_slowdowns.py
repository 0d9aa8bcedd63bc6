"""How much longer instances are expected to take on shared GPUs: as the operator has recorded it with the plan."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from hetserve.api.inference_service import InferenceService
from hetserve.api.instance_type import InstanceType
from hetserve.api.model_profile import ModelProfile
from hetserve.base.units import Millionths
from hetserve.planning.tenancy import SharingRule
from hetserve_router.manifests import services_of
from hetserve_router.served import ServedSpec
from hetserve_services.facts import ServiceFacts, facts_of, planned_gpus
from hetserve_twin.systems import Truth, shared_services
from sharing_scene import (
    BEFORE,
    BY_PERCENT,
    PROFILE,
    SERVICE,
    converged,
    fixed_load,
    left_by_the_version_before,
    measure,
    on_terms,
    share_of,
    terms,
    tolerance,
)
from testing.builders import instance_type
from testing.operator import SimulatedOperator, path_of
from testing.scenes import GPU_TYPE

Json = dict[str, Any]
TYPE = path_of(instance_type(GPU_TYPE))
OTHER = "p3.2xlarge"


def facts(sim: SimulatedOperator, sigma: int = 1_750_000, *others: str) -> ServiceFacts:
    """Of rm2 as it stands in the cluster. sigma: the setting. others: further types alike."""
    raw, profile, kind = (copy.deepcopy(sim.api.objects[path]) for path in (SERVICE, PROFILE, TYPE))
    status = raw.pop("status", {})
    profiles, types = [ModelProfile.model_validate(profile)], [InstanceType.model_validate(kind)]
    for name in others:
        profiles.append(ModelProfile.model_validate({**profile, "spec": {**profile["spec"], "instanceType": name}}))
        types.append(InstanceType.model_validate({**kind, "metadata": {**kind["metadata"], "name": name}}))
    named = {one.metadata.name: one for one in types}
    planned = planned_gpus({**raw, "status": status})
    return facts_of(InferenceService.model_validate(raw), profiles, named, SharingRule(Millionths(sigma)), planned)


def recorded(sim: SimulatedOperator, **entry: Any) -> None:
    """Changes the entry of the recorded plan; None: removes a field."""

    def change(service: Json) -> None:
        (found,) = service["status"]["plan"]["counts"]
        found.update(entry)
        for key in [key for key, value in found.items() if value is None]:
            del found[key]

    sim.edit(SERVICE, change)


@pytest.mark.parametrize("sigma", [1_250_000, 1_750_000, 3_000_000])
def test_percents_of_before_are_expected_to_cost_what_they_were_booked_for(sigma: int) -> None:
    assert facts(left_by_the_version_before(BY_PERCENT), sigma).slowdowns == {GPU_TYPE: 1.25}


def test_percents_that_only_the_sigma_that_is_set_gives_were_booked_at_it() -> None:
    sim = left_by_the_version_before(BY_PERCENT)
    recorded(sim, gpuCompute=35)
    assert facts(sim, 1_500_000).slowdowns == {GPU_TYPE: 1.5}
    measure(sim, "0.2")
    assert facts(sim, 1_500_000).slowdowns == {GPU_TYPE: 1.25}


@pytest.mark.parametrize("factor", [None, "2"], ids=["shares at sigma too", "shares with nobody at sigma"])
async def test_a_tolerance_of_its_own_is_expected(factor: str | None) -> None:
    sim = fixed_load(1.0, factor=factor)
    await sim.converge()
    assert tolerance(sim) > 1.75
    for sigma in (1_000_000, 1_250_000, 1_750_000):
        assert facts(sim, sigma).slowdowns == {GPU_TYPE: tolerance(sim)}


async def test_another_sigma_changes_nothing_of_a_recorded_plan_and_counts_for_types_that_it_lacks() -> None:
    sim = await converged("0.5")
    assert facts(sim, 2_500_000, OTHER).slowdowns == {GPU_TYPE: 1.75, OTHER: 2.5}


async def test_a_type_that_the_plan_has_alone_is_expected_to_be_alone_whatever_is_measured_since() -> None:
    sim = await converged(None, budget="1.5")
    sim.edit(PROFILE, lambda profile: profile["spec"].update(share_of("0.5")))
    assert facts(sim).slowdowns == {}


async def test_a_profile_that_lost_its_measurement_shares_as_recorded() -> None:
    sim = await converged("0.5")
    sim.edit(PROFILE, lambda profile: [profile["spec"].pop(key) for key in ("computeShare", "sharingMode")])
    assert facts(sim).slowdowns == {GPU_TYPE: 1.75}
    recorded(sim, gpuSharing=None, gpuCompute=40)
    assert facts(sim).slowdowns == {GPU_TYPE: 1.25}


def test_what_declares_no_compute_is_expected_as_it_was_planned() -> None:
    sim = left_by_the_version_before(BEFORE)
    assert "sharing" not in sim.service()["status"]["plan"]["counts"][0], "not as before, so this shows nothing"
    measure(sim, "0.5")
    assert facts(sim).slowdowns == {}


@pytest.mark.parametrize(
    "status", [{}, {"plan": None}, {"plan": {"counts": [on_terms("0.5", tolerance="3")]}}], ids=["", "none", "invalid"]
)
async def test_where_no_plan_is_recorded_the_setting_counts(status: Json) -> None:
    sim = await converged("0.5")
    sim.edit(SERVICE, lambda service: service.update(status=status))
    assert facts(sim, 1_500_000).slowdowns == {GPU_TYPE: 1.5}
    assert facts(sim, 1_000_000).slowdowns == {}


async def test_manifests_with_a_status_say_what_is_recorded(tmp_path: Path) -> None:
    sim = await converged("0.5")
    recorded(sim, gpuSharing=terms("0.5", "3.84"))
    file = tmp_path / "all.json"
    file.write_text(json.dumps({"kind": "List", "items": [sim.api.objects[path] for path in (SERVICE, PROFILE, TYPE)]}))
    ((_, found),) = services_of([str(file)], Millionths(1_250_000))
    assert found.slowdowns == {GPU_TYPE: 3.84}


async def test_router_and_twin_predict_by_what_is_expected() -> None:
    sim = fixed_load(1.0, {"spec.dispatch": {"ports": {"http": 8000}, "policy": "fcfs"}})
    await sim.converge()
    found = facts(sim)
    spec = ServedSpec.of(InferenceService.model_validate({**sim.api.objects[SERVICE], "status": None}), found)
    assert spec is not None
    routed = spec.service().predicted
    alone = spec.latencies()[GPU_TYPE].mean(8)
    assert alone is not None
    assert routed.arrays.mean[0, list(routed.batches).index(8)] == pytest.approx(tolerance(sim) * alone)
    truth = Truth({})
    truth.learn(found)
    (played,) = shared_services({found.key: (found, truth.system(found.slo), truth)}, "fcfs")
    assert played.expected == {GPU_TYPE: tolerance(sim)}
