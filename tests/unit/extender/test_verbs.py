"""The scheduler's verbs over an API server in memory: what filter answers and holds, and what the others see of it."""

from __future__ import annotations

import asyncio
from typing import Any

from extender_bench import Bench
from hetserve.placement.check import violations
from hetserve.placement.decision.wording import UNLISTED_GPU
from hetserve.placement.event_handlers import NodeEventHandler
from testing.cluster import gpu_node, gpu_pod


async def test_filter_answers_with_one_node_and_holds_its_gpu(bench: Bench) -> None:
    result = await bench.filter(gpu_pod())
    assert result == {
        "Nodes": None,
        "NodeNames": ["n0"],
        "FailedNodes": {},
        "FailedAndUnresolvableNodes": {},
        "Error": "",
    }
    gpu = (await bench.ledger())["gpus"][0]
    assert gpu["freeMiB"] == 32768 - 4096
    assert gpu["pods"] == [
        {
            "namespace": "default",
            "name": "p0",
            "uid": "uid-p0",
            "model": "resnet",
            "memoryMiB": 4096,
            "computePercent": None,
            "state": "reserved",
            "sharing": None,
        }
    ]


async def test_pods_filtered_in_a_row_spread_over_idle_gpus(bench: Bench) -> None:
    nodes = [(await bench.filter(gpu_pod(f"p{i}", model=f"m{i}")))["NodeNames"][0] for i in range(4)]
    assert nodes == ["n0", "n0", "n1", "n1"]


async def test_a_repeated_filter_replaces_the_reservation(bench: Bench) -> None:
    for _ in range(3):
        assert (await bench.filter(gpu_pod()))["NodeNames"] == ["n0"]
    assert sum(len(gpu["pods"]) for gpu in (await bench.ledger())["gpus"]) == 1


async def test_a_reservation_nobody_binds_ends(bench: Bench) -> None:
    await bench.filter(gpu_pod(memory_mib=32768), "n0")
    bench.clock[0] += 31
    for index in range(2):
        assert (await bench.filter(gpu_pod(f"q{index}", memory_mib=32768), "n0"))["NodeNames"] == ["n0"]
    assert bench.metrics.registry.get_sample_value("hetserve_reservations_expired_total") == 1


async def test_a_refusal_names_need_and_most_free_for_every_node(bench: Bench) -> None:
    result = await bench.filter(gpu_pod(memory_mib="90k"), "n0", "n1", "cpu")
    text = "no GPU with 90000 MiB free; the most free on any eligible GPU is 32768 MiB"
    assert result["NodeNames"] == []
    assert result["FailedAndUnresolvableNodes"] == {"n0": text, "n1": text, "cpu": "no GPU on the node"}
    assert result["FailedNodes"] == {}, "preemption looks for victims there, finds none and fails by an internal error"


async def test_no_bind_to_a_node_whose_pods_hold_gpus_that_it_no_longer_lists(bench: Bench) -> None:
    running, waiting = gpu_pod("running", node="n0", gpu="0", model="m"), gpu_pod("waiting")
    for pod in (running, waiting):
        bench.api.add(pod)
    bench.show()
    assert (await bench.filter(waiting, "n0"))["NodeNames"] == ["n0"]
    listed = [{"uuid": f"GPU-{letter}", "product": "V100", "memoryMiB": 32768} for letter in "ab"]
    NodeEventHandler(bench.placer).apply("MODIFIED", gpu_node("n0", listed=listed))
    assert UNLISTED_GPU in await bench.bind(waiting, "n0")
    assert bench.sent("POST") == []
    assert (await bench.filter(waiting, "n0"))["FailedAndUnresolvableNodes"] == {"n0": UNLISTED_GPU}


async def test_a_pod_of_the_wrong_shape_is_refused_by_its_field_and_not_by_a_crash(bench: Bench) -> None:
    result = await bench.filter(gpu_pod() | {"status": {"phase": []}}, "n0")
    assert result["FailedAndUnresolvableNodes"] == {"n0": "status.phase: [] is not a text"}
    asked = await bench.filter(gpu_pod(memory_mib="1e9999999"), "n0")
    assert "'1e9999999' is too large" in asked["FailedAndUnresolvableNodes"]["n0"]


async def test_a_pod_without_gpu_memory_passes_everywhere(bench: Bench) -> None:
    pod = gpu_pod(memory_mib=0)
    assert (await bench.filter(pod, "n0", "cpu"))["NodeNames"] == ["n0", "cpu"]
    bench.api.add(pod)
    assert await bench.bind(pod, "cpu") == ""
    assert "annotations" not in bench.sent("POST")[0][1]["metadata"]


async def test_nothing_is_decided_before_the_lists_are_known(bench: Bench) -> None:
    bench.ready[0] = False
    assert "not listed" in (await bench.filter(gpu_pod()))["Error"]
    assert "not listed" in await bench.bind(gpu_pod(), "n0")
    assert (await bench.probes.get("/readyz")).status_code == 503
    assert (await bench.probes.get("/healthz")).status_code == 200
    bench.ready[0] = True
    assert (await bench.probes.get("/readyz")).status_code == 200


async def test_prioritize_scores_the_held_node_highest(bench: Bench) -> None:
    await bench.filter(gpu_pod("held"), "n0")
    await bench.filter(gpu_pod("other", model="bert"), "n0")
    body = {"Pod": gpu_pod("held"), "Nodes": None, "NodeNames": ["n0", "n1", "cpu"]}
    answer = (await bench.verbs.post("/prioritize", json=body)).json()
    assert answer == [{"Host": "n0", "Score": 10}, {"Host": "n1", "Score": 10}, {"Host": "cpu", "Score": 0}]


async def test_metrics_and_ledger_tell_what_is_free(bench: Bench) -> None:
    bench.api.add(gpu_pod(node="n1", gpu="1"))
    bench.api.add(gpu_pod("lost", node="n9", gpu="0"))
    bench.show()
    text = (await bench.probes.get("/metrics")).text
    assert 'hetserve_gpu_free_mib{gpu="1",node="n1",product="V100"} 28672.0' in text
    assert 'hetserve_bookings{state="bound"} 2.0' in text
    assert "hetserve_ledger_problems 1.0" in text
    assert (await bench.ledger())["problems"] == ["pod default/lost holds 4096 MiB, but node n9 is not known"]


async def test_many_binds_at_once_never_over_commit(bench: Bench) -> None:
    pods = [bench.api.add(gpu_pod(f"p{i}", model=f"m{i % 5}", memory_mib=9000)) for i in range(20)]

    async def place(pod: dict[str, Any]) -> None:
        if nodes := (await bench.filter(pod))["NodeNames"]:
            assert await bench.bind(pod, nodes[0]) == ""

    await asyncio.gather(*(place(pod) for pod in pods))
    assert violations(bench.api.listing("/api/v1/pods"), bench.api.listing("/api/v1/nodes")) == ()
    assert sum(1 for raw in bench.api.listing("/api/v1/pods") if raw["spec"].get("nodeName")) == 12
