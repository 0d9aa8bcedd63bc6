"""The demo's picture is readable without colours and correct about free memory."""

from __future__ import annotations

import io
from typing import Any

from rich.console import Console, RenderableType

from harness.nodes import HETSEV, KAIROS
from harness.picture import gpu_picture, gpu_rows, queue_line, ready_of, services_table, sharing
from harness.view import GpuHolder

HOLDERS = {
    ("hetsev-t4-1", "1"): [
        GpuHolder("b", "default", "resnet50", 3072, 40),
        GpuHolder("a", "default", "inception", 6144, 50),
    ],
    ("hetsev-v100-2", "0"): [GpuHolder("c", "default", "resnet50", 3072)],
}


def drawn(what: RenderableType) -> str:
    out = io.StringIO()
    Console(width=170, color_system=None, file=out).print(what)
    return out.getvalue()


def service(**status: Any) -> dict[str, Any]:
    spec = {"objective": "MaxThroughput", "slo": {"latency": "350ms", "percentile": "99"}}
    return {"metadata": {"name": "rm2", "generation": 2}, "spec": spec, "status": status}


def test_every_gpu_of_the_labels_has_a_row_and_cpu_nodes_have_none() -> None:
    assert len(gpu_rows(HETSEV.manifests(), {})) == 16
    assert len(gpu_rows(KAIROS.manifests(), {})) == 4


def test_a_gpu_shows_who_holds_how_much_and_what_is_free() -> None:
    picture = drawn(gpu_picture(gpu_rows(HETSEV.manifests(), HOLDERS)))
    (line,) = [line for line in picture.splitlines() if "A:6144/50 B:3072/40" in line]
    node, gpu, _, memory, free, compute, free_compute = line.split()[:7]
    assert (node, gpu) == ("hetsev-t4-1", "1")
    assert (memory.strip("·"), free) == ("A" * 8 + "B" * 4, "6144")
    assert (compute, free_compute) == ("A" * 10 + "B" * 8 + "··", "10")
    assert "A = inception  B = resnet50" in picture


def test_compute_that_nobody_declares_is_unknown_and_an_idle_gpu_has_all_of_it() -> None:
    lines = drawn(gpu_picture(gpu_rows(HETSEV.manifests(), HOLDERS))).splitlines()
    (undeclared,) = [line for line in lines if "A:" not in line and "B:3072" in line]
    assert undeclared.split()[5:7] == ["?" * 20, "-"]
    idle = next(line for line in lines if line.split()[-1:] == ["idle"])
    assert idle.split()[-3:] == ["·" * 20, "100", "idle"]


def test_who_holds_all_of_the_memory_has_the_compute_too() -> None:
    rows = gpu_rows(KAIROS.manifests(), {("kairos-g4dn-xlarge-2", "0"): [GpuHolder("a", "default", "rm2", 15360)]})
    (line,) = [line for line in drawn(gpu_picture(rows)).splitlines() if "A:15360/100" in line]
    assert line.split()[5:7] == ["A" * 20, "0"]


def test_bars_are_as_long_as_the_memory_of_their_gpu() -> None:
    rows = gpu_rows(HETSEV.manifests(), {})
    lines = [line.split() for line in drawn(gpu_picture(rows)).splitlines() if "·" in line]
    bars = {line[2]: len(line[3]) for line in lines}
    assert bars["Tesla-V100-PCIE-32GB"] == 44
    assert bars["Tesla-T4"] == 21


def test_sharing_counts_each_pool_by_itself() -> None:
    rows = gpu_rows([*HETSEV.manifests(), *KAIROS.manifests()], HOLDERS)
    assert sharing(rows).splitlines() == [
        "g4dn.xlarge: 0 pods on 4 GPUs (0.00 per GPU), 0% of the memory held, 0% of the compute booked",
        "hetsev-t4: 2 pods on 8 GPUs (0.25 per GPU), 8% of the memory held, 11% of the compute booked",
        "hetsev-v100: 1 pod on 8 GPUs (0.12 per GPU), 1% of the memory held, 0% of the compute booked",
    ]


def test_a_condition_of_an_older_generation_is_no_answer() -> None:
    ready = {"type": "Ready", "status": "True", "reason": "AllInstancesReady"}
    assert ready_of(service(observedGeneration=2, conditions=[ready])) == ready
    assert ready_of(service(observedGeneration=1, conditions=[ready])) == {}
    assert ready_of(service(observedGeneration=2, conditions=None)) == {}


def test_a_service_without_a_plan_is_shown_as_such() -> None:
    planned = service(
        observedGeneration=2,
        conditions=[{"type": "Ready", "status": "True", "reason": "AllInstancesReady"}],
        plan={"summary": "1xa+2xb", "qps": "143.2", "hourlyCost": "2.463", "verdict": "best of 286"},
    )
    text = drawn(services_table([planned, service()]))
    assert "1xa + 2xb" in text
    assert "bound 143.2" in text
    assert "rm2: best of 286" in text
    assert "Unknown" in text


def test_a_plan_that_was_tried_says_what_it_holds() -> None:
    tried = service(plan={"summary": "1xa", "qps": "137.3", "hourlyCost": "2.463", "tried": True})
    assert "holds 137.3" in drawn(services_table([tried]))


def test_a_provisional_plan_is_called_so() -> None:
    plan = {"summary": "1xa", "qps": "143.3", "hourlyCost": "2.463", "tried": False, "provisional": True}
    assert "1xa (provisional)" in drawn(services_table([service(plan=plan)]))
    assert "provisional" not in drawn(services_table([service(plan={**plan, "tried": True, "provisional": None})]))


def test_the_queue_line_distinguishes_an_unknown_number_from_zero() -> None:
    metrics = (
        "# TYPE hetserve_queue_releases counter\n"
        "# TYPE hetserve_bookings gauge\n"
        'hetserve_bookings{state="bound"} 3.0\nhetserve_bookings{state="reserved"} 1.0\n'
    )
    line = queue_line(metrics, 2)
    assert line == "2 pods wait at the gate, ? released and not yet bound, 0 gates lifted, 4 pods on GPUs"
