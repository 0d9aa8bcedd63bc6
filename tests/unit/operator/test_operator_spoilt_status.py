"""An invalid status is planned anew; it neither stops a service nor exceeds the budget."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from hetserve_operator.metrics import OperatorMetrics
from hetserve_operator.workqueue import Key
from operator_scene import PLANNED, SERVICE
from testing.operator import SimulatedOperator
from testing.scenes import CPU_TYPE, GPU_TYPE, rm2_scene

Json = dict[str, Any]


def _counts(gpu: int, cpu: int) -> Json:
    entries = [{"instanceType": GPU_TYPE, "count": gpu}, {"instanceType": CPU_TYPE, "count": cpu}]
    return {"counts": entries, "summary": f"{gpu}x{GPU_TYPE}+{cpu}x{CPU_TYPE}"}


SPOILT: dict[str, Callable[[], Json]] = {
    "a cost that is no number": lambda: {"hourlyCost": "much"},
    "a throughput that is no number": lambda: {"qps": "many"},
    "a throughput that is not finite": lambda: {"qps": "NaN"},
    "counts beyond the budget": lambda: _counts(4, 14),
    "counts beyond the budget, with their cost": lambda: {**_counts(4, 14), "hourlyCost": "4.190"},
    "counts that do not cost what is recorded": lambda: _counts(1, 1),
}


@pytest.mark.parametrize("what", SPOILT)
async def test_a_spoilt_plan_is_planned_anew(what: str) -> None:
    sim = SimulatedOperator()
    sim.add(*rm2_scene())
    await sim.converge()
    sim.edit(SERVICE, lambda s: s["status"]["plan"].update(SPOILT[what]()))
    sim.restart()
    for _ in range(12):
        await sim.round()
        assert sim.replicas() == PLANNED, f"{what}: it was followed"
    plan = sim.service()["status"]["plan"]
    assert (plan["summary"], plan["hourlyCost"]) == (f"3x{GPU_TYPE}+6x{CPU_TYPE}", "2.472")
    assert sim.condition("Ready")["status"] == "True"


@pytest.mark.parametrize(
    "status",
    [
        {"plan": {"hourlyCost": "much", "qps": "many"}},
        {"plan": "x", "conditions": "x"},
        {"plan": {"hourlyCost": None, "qps": []}, "conditions": [None]},
        "x",
    ],
)
def test_metrics_show_what_can_be_read_and_never_fail(status: Any) -> None:
    metrics, key = OperatorMetrics(), Key("ns", "s")
    metrics.observe(key, {"status": status})
    labels = {"namespace": "ns", "service": "s"}
    assert metrics.registry.get_sample_value("hetserve_service_ready", labels) == 0
    assert metrics.registry.get_sample_value("hetserve_service_cost_dollars_per_hour", labels) is None
    metrics.forget(key)
    assert metrics.registry.get_sample_value("hetserve_service_ready", labels) is None


def test_metrics_stop_showing_a_plan_that_is_gone() -> None:
    metrics, key = OperatorMetrics(), Key("ns", "s")
    labels = {"namespace": "ns", "service": "s"}
    metrics.observe(key, {"status": {"plan": {"hourlyCost": "1.5", "qps": "2"}}})
    assert metrics.registry.get_sample_value("hetserve_service_cost_dollars_per_hour", labels) == 1.5
    metrics.observe(key, {"status": {}})
    assert metrics.registry.get_sample_value("hetserve_service_cost_dollars_per_hour", labels) is None
