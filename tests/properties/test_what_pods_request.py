"""Law: what a pod needs at any time is the most that runs at once while its containers start one after another."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from hetserve.api import names
from hetserve.objects.resources import peak
from hetserve.reconcile.cluster.observed import pod_fact
from testing.cluster import gpu_pod

Json = dict[str, Any]
amounts = st.integers(0, 9)
started = st.lists(st.tuples(amounts, st.booleans()), max_size=6)
"""(Amount, whether it is a sidecar) of each init container."""


def most_running(init: list[tuple[int, bool]], main: list[int]) -> int:
    """A pod's life, step by step: who runs at each moment, sidecars until the end."""
    alive: list[int] = []
    moments = [0]
    for amount, sidecar in init:
        moments.append(sum(alive) + amount)
        if sidecar:
            alive.append(amount)
    moments.append(sum(alive) + sum(main))
    return max(moments)


def spec_of(init: list[tuple[int, bool]], main: list[int], resource: str) -> Json:
    def one(amount: int, *, sidecar: bool = False) -> Json:
        made: Json = {"resources": {kind: {resource: str(amount)} for kind in ("requests", "limits")}}
        return made | ({"restartPolicy": "Always"} if sidecar else {})

    first = [one(amount, sidecar=sidecar) for amount, sidecar in init]
    return {"initContainers": first, "containers": [one(amount) for amount in main]}


@given(started, st.lists(amounts, max_size=3), amounts)
def test_cpu_is_what_runs_at_once_and_the_overhead(init: list[tuple[int, bool]], main: list[int], extra: int) -> None:
    raw = gpu_pod(node="n0")
    raw["spec"] |= spec_of(init, main, "cpu") | {"overhead": {"cpu": str(extra)}}
    fact = pod_fact(raw)
    assert fact is not None
    assert fact.cpu == 1000 * (most_running(init, main) + extra)


@given(started, st.lists(amounts, max_size=3))
def test_gpu_memory_and_compute_are_counted_by_the_same_rule(init: list[tuple[int, bool]], main: list[int]) -> None:
    assert peak(spec_of(init, main, names.RESOURCE_GPU_MEMORY), names.RESOURCE_GPU_MEMORY) == most_running(init, main)
    assert peak(spec_of(init, main, names.RESOURCE_GPU_COMPUTE), names.RESOURCE_GPU_COMPUTE) == most_running(init, main)
