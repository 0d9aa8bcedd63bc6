"""A service on GPUs of a type priced per GiB, in a simulated cluster; and the cluster that an older version left."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from hetserve.objects.gpu_sharing import parse_terms
from hetserve.reconcile.deployments.build import deployment_name
from testing.builders import REMOVED, instance_type, model_profile, service
from testing.operator import SimulatedOperator, path_of
from testing.scenes import GPU_TYPE, node

Json = dict[str, Any]
GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "operator"
BEFORE = GOLDEN / "before_compute_was_booked.json"
"""Two instances of rm2 on four GPUs at rest, as the version before bookings of compute left every object."""
BY_PERCENT = GOLDEN / "compute_by_percent.json"
"""Two instances of rm2 on six GPUs that book 40 % of theirs, as the version before counting by pairs left every object.
"""
PROFILE = path_of(model_profile())
SERVICE = path_of(service("rm2"))
NAME = deployment_name("rm2", GPU_TYPE)
DEPLOYMENT = f"/apis/apps/v1/namespaces/default/deployments/{NAME}"
MEMORY, COMPUTE, GPU = "hetserve.io/gpu-memory", "hetserve.io/gpu-compute", "hetserve.io/gpu"
SHARING = "hetserve.io/gpu-sharing"
SHARED_GPU = {MEMORY: "6144", COMPUTE: "100"}


def per_gib(hourly: str = "0.024") -> Json:
    return instance_type(GPU_TYPE, {"spec.price": {"hourly": hourly, "per": "GiB"}})


def share_of(share: str) -> Json:
    """Fields of a profile that was measured."""
    return {"computeShare": share, "sharingMode": "TimeSlicing"}


def sim_with(share: str | None, *, budget: str = "0.3", sharing: str = "Shared", gpus: int = 6) -> SimulatedOperator:
    """rm2 with 6 GiB per instance, not reconciled yet. share: of its profile; None: not measured."""
    sim = SimulatedOperator()
    profile = model_profile(overrides={"spec.gpuMemory": "6Gi"})
    profile["spec"] |= {} if share is None else share_of(share)
    sim.add(*(node(f"g{i}", GPU_TYPE, gpus=1) for i in range(gpus)), per_gib(), profile)
    # A planner that takes a millisecond; of one type, all planners buy the same.
    wish = {"spec.budget.hourly": budget, "spec.sharing": sharing, "spec.planner": "kairos"}
    sim.add(service("rm2", wish))
    return sim


async def converged(share: str | None, **scene: Any) -> SimulatedOperator:
    """`sim_with`, once everything is ready."""
    sim = sim_with(share, **scene)
    await sim.converge()
    assert sim.condition("Ready")["status"] == "True"
    return sim


def fixed_load(
    qps: float,
    wish: Json | None = None,
    *,
    gpus: int = 4,
    factor: str | None = None,
    sim: SimulatedOperator | None = None,
) -> SimulatedOperator:
    """rm2 at a fixed load, of which one instance within the SLO of 1 s tolerates more than the installation asks.

    wish: fields of the service. factor: of latency that it inflicts on others; None: by time-slicing alone.
    """
    sim = sim or SimulatedOperator()
    profile = model_profile(overrides={"spec.gpuMemory": "6Gi"})
    profile["spec"] |= share_of("0.5")
    if factor is not None:
        profile["spec"]["interference"] = [{"model": "other", "batch": 8, "factor": factor}]
    sim.add(*(node(f"g{i}", GPU_TYPE, gpus=1) for i in range(gpus)), per_gib(), profile)
    fixed = {"spec.objective": "MinCost", "spec.budget": REMOVED, "spec.load.expectedQPS": qps}
    sim.add(service("rm2", {**fixed, "spec.slo.latency": "1s", **(wish or {})}))
    return sim


def tolerance(sim: SimulatedOperator) -> float:
    """Of the one type of rm2 that is planned, as recorded, and as the template states it."""
    recorded, stated = counts(sim)[0]["gpuSharing"], annotated(sim)
    assert recorded == stated
    return parse_terms(recorded).tolerance / 1_000_000


def terms(share: str, tolerance: str = "1.75", others: str = "1", **named: str) -> str:
    """The annotation of an instance that shares on these terms."""
    found = {"share": share, "tolerance": tolerance, "factors": {"*": others, **named}}
    return json.dumps(found, separators=(",", ":"))


def on_terms(share: str, count: int = 2, **given: str) -> Json:
    """An entry of the recorded plan whose instances share on terms."""
    shared = {"sharing": "Shared", "gpuCompute": 100, "gpuSharing": terms(share, **given)}
    return {"instanceType": GPU_TYPE, "count": count, **shared}


def left_by_the_version_before(golden: Path = BEFORE) -> SimulatedOperator:
    """The cluster of a golden file with an operator that has just been upgraded."""
    sim = SimulatedOperator()
    for path, raw in json.loads(golden.read_text()).items():
        sim.api.objects[path] = raw
    sim.api.revision = 10_000
    return sim


def add_another_of_before(sim: SimulatedOperator, name: str) -> None:
    """A second service like rm2, left by the version before on the same GPUs."""
    text = BEFORE.read_text().replace(NAME, deployment_name(name, GPU_TYPE)).replace("rm2", name)
    shared = ("/nodes/", "/instancetypes/")
    for path, raw in json.loads(text.replace('"uid-', f'"uid-{name}-')).items():
        if not any(part in path for part in shared):
            sim.api.objects[path] = raw


def measure(sim: SimulatedOperator, share: str) -> None:
    """Applies a profile with another share."""
    sim.edit(PROFILE, lambda profile: profile["spec"].update(share_of(share)))


def asked(sim: SimulatedOperator) -> dict[str, str]:
    """GPU resources that the Deployment's template requests."""
    (container,) = sim.api.objects[DEPLOYMENT]["spec"]["template"]["spec"]["containers"]
    return {key: amount for key, amount in container["resources"]["requests"].items() if key.startswith("hetserve.io")}


def annotated(sim: SimulatedOperator) -> str | None:
    """The terms that the Deployment's template states."""
    found = sim.api.objects[DEPLOYMENT]["spec"]["template"]["metadata"].get("annotations") or {}
    return found.get(SHARING)


def pods(sim: SimulatedOperator) -> set[str]:
    return {pod["metadata"]["uid"] for _, pod in sim.cluster.pods()}


def counts(sim: SimulatedOperator) -> list[Json]:
    found: list[Json] = sim.service()["status"]["plan"]["counts"]
    return found
