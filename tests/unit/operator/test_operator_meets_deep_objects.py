"""An object nested more deeply than it can be read harms nobody but itself."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

import pytest

from deep_objects import PLACE, DeepApi, nested
from hetserve.api.inference_service import InferenceService
from hetserve.reconcile.cluster.observed import Broken, read_input
from hetserve_shell.kube.store import Store
from operator_scene import PLANNED, SERVICE, converged
from testing.builders import service
from testing.operator import SimulatedOperator
from testing.scenes import rm2_scene

Json = dict[str, Any]
LEVELS = (101, 300, 950, 1000, 100_000)


def deepen(raw: Json) -> None:
    raw["spec"]["template"]["metadata"] = {"labels": PLACE}


async def deep_cluster(levels: int) -> SimulatedOperator:
    """rm2 as it runs, behind an API server that knows deep objects."""
    sim = await converged()
    sim.api.__class__ = DeepApi
    sim.api.levels = levels  # type: ignore[attr-defined]
    return sim


@pytest.mark.parametrize("levels", [*LEVELS[:-1], pytest.param(LEVELS[-1], marks=pytest.mark.deep)])
async def test_a_template_that_is_too_deep_is_refused_with_its_path_and_what_runs_stays(levels: int) -> None:
    sim = await deep_cluster(levels)
    sim.edit(SERVICE, deepen)
    await sim.converge()
    ready = sim.condition("Ready")
    assert (ready["status"], ready["reason"]) == ("False", "TemplateInvalid")
    assert "spec.template.metadata.labels.a.a.a" in ready["message"]
    assert "at most 100 levels" in ready["message"]
    assert sim.replicas() == PLANNED
    sim.edit(SERVICE, lambda raw: raw["spec"]["template"].pop("metadata"))
    await sim.converge()
    assert sim.condition("Ready")["status"] == "True"


@pytest.mark.parametrize("levels", [*LEVELS[:-1], pytest.param(LEVELS[-1], marks=pytest.mark.deep)])
async def test_a_service_that_is_too_deep_holds_up_no_other(levels: int) -> None:
    sim = await deep_cluster(levels)
    sim.add({**rm2_scene()[-1], "metadata": {"name": "deep", "namespace": "default"}})
    sim.edit(SERVICE.replace("rm2", "deep"), deepen)
    sim.edit(SERVICE, lambda raw: raw["spec"]["budget"].update(hourly="1.0"))
    await sim.converge()
    assert sim.service("deep")["status"]["reason"] == "TemplateInvalid"
    assert sum(sim.replicas().values()) == 4


def test_a_deep_object_in_a_store_of_parsed_ones_is_broken_and_never_compared() -> None:
    """As the load twin keeps services: whoever compares two such templates recurses."""
    services: Store[Any] = Store(partial(read_input, InferenceService))
    for version in ("1", "2"):
        raw = service("deep", {"metadata.uid": "u", "metadata.resourceVersion": version})
        raw["spec"]["template"]["metadata"] = json.loads(nested(900))
        services.put(raw)
    (found,) = services
    assert isinstance(found, Broken)
    assert "spec.template.metadata.a.a" in found.error
