"""Runs recorded before services alone and services together had one loop: every query fares as it did then."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hetserve.dispatch import make_policy
from hetserve.serving.services import ComputeUse, GpuInstance, Service
from hetserve.serving.session import Session
from hetserve.simulation.run import run_alone
from hetserve.simulation.workload import draw_workload
from testing.dispatching import EVEN_MIX, system

RECORDED = json.loads((Path(__file__).parents[2] / "golden/serving/runs.json").read_text())
TYPES = ((0.2, 0.25, 0.4, 0.6), (0.25, 0.45, 0.9, 1.6), (0.3, 0.5))
"""Seconds at batches 1, 2, 5, 10."""
USES = ComputeUse(0.6, {"s1": 0.2}, 0.1), ComputeUse(0.5, {}, 0.05), ComputeUse(1.0)


def assert_as_recorded(recorded: dict[str, Any], outcome: object) -> None:
    for name in ("start", "finish", "peak"):
        if name in recorded:
            expected = np.array([np.nan if value is None else value for value in recorded[name]])
            np.testing.assert_allclose(getattr(outcome, name), expected, rtol=1e-12, err_msg=name)


@pytest.mark.parametrize("recorded", RECORDED["alone"], ids=lambda one: f"{one['policy']} {one['seed']}")
def test_a_service_alone(recorded: dict[str, Any]) -> None:
    given, work = system(*TYPES, variation=0.3), draw_workload(EVEN_MIX, 60, recorded["seed"])
    policy, stop = make_policy(recorded["policy"]), recorded["stop"]
    trace = run_alone(given, recorded["counts"], policy, work, recorded["rate"], warm_up=5, stop_after=stop)
    assert trace.stopped == recorded["stopped"]
    assert trace.outcome().instance.tolist() == recorded["instance"]
    assert_as_recorded(recorded, trace.outcome())


@pytest.mark.parametrize("recorded", RECORDED["shared"], ids=lambda one: str(one["policy"]))
def test_services_that_share_gpus(recorded: dict[str, Any]) -> None:
    policy, expected = make_policy(recorded["policy"]), {"a": 1.25}
    services = [
        Service(
            f"s{k}",
            system(*TYPES, slo=1.0 + k, variation=0.3),
            policy,
            {"a": USES[k], "b": USES[(k + 1) % 3]},
            expected,
        )
        for k in range(3)
    ]
    run = Session(services)
    run.join_all(GpuInstance(f"s{k}", kind, f"g{(k + j) % 3}") for k in range(3) for j, kind in enumerate("ab"))
    for k in range(3):
        draw_workload(EVEN_MIX, 30, 10 + k).offer_to(run, f"s{k}", 2.5)
    run.until(6.0)
    run.drain(0)
    run.join(GpuInstance("s0", "b", "g1"))
    run.until()
    assert run.outcome().instance.tolist() == recorded["instance"]
    assert_as_recorded(recorded, run.outcome())
