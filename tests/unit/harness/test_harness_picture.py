"""The demo's picture is readable without colours and correct about free memory."""

from __future__ import annotations

import io
from typing import Any

from rich.console import Console, RenderableType

from harness.nodes import HETSEV
from harness.picture import gpu_picture, gpu_rows, services_table
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


def test_a_gpu_shows_who_holds_how_much_and_what_is_free() -> None:
    picture = drawn(gpu_picture(gpu_rows(HETSEV.manifests(), HOLDERS)))
    (line,) = [line for line in picture.splitlines() if "A:6144/50 B:3072/40" in line]
    node, gpu, _, memory, free, compute, free_compute = line.split()[:7]
    assert (node, gpu) == ("hetsev-t4-1", "1")
    assert (memory.strip("·"), free) == ("A" * 8 + "B" * 4, "6144")
    assert (compute, free_compute) == ("A" * 10 + "B" * 8 + "··", "10")
    assert "A = inception  B = resnet50" in picture


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
