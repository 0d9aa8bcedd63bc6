"""The scheduler's verbs over an API server in memory: reserve, bind once, and survive lost answers."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any

import pytest

from hetserve.api import names
from hetserve.placement.check import violations
from hetserve.placement.decide import UNLISTED_GPU
from hetserve.placement.sinks import NodeSink
from hetserve.testing.cluster import gpu_node, gpu_pod

Bench = Any  # the fixture's class lives in conftest, which cannot be imported


def _posts(bench: Bench) -> list[tuple[str, Any]]:
    return [(path, body) for method, path, body in bench.api.calls if method == "POST"]


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
            "state": "reserved",
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
    NodeSink(bench.placer).apply("MODIFIED", gpu_node("n0", listed=listed))
    assert UNLISTED_GPU in await bench.bind(waiting, "n0")
    assert _posts(bench) == []
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
    assert "annotations" not in _posts(bench)[0][1]["metadata"]


async def test_only_what_our_scheduler_asks_for_is_bound(bench: Bench) -> None:
    plain, foreign = gpu_pod("plain"), gpu_pod("foreign")
    plain["spec"]["containers"] = [{"name": "c"}]
    foreign["spec"]["schedulerName"] = "default-scheduler"
    for pod in (plain, foreign):
        bench.api.add(pod)
    assert "names no hetserve.io/gpu-memory" in await bench.bind(plain, "n0")
    assert "is for scheduler default-scheduler" in await bench.bind(foreign, "n0")
    bench.show()
    assert "is for scheduler default-scheduler" in await bench.bind(foreign, "n0")
    assert _posts(bench) == [], "whoever reaches the port binds any pod anywhere"


async def test_bind_is_one_call_with_uid_and_gpu(bench: Bench) -> None:
    pod = bench.api.add(gpu_pod(gpu="7"))  # somebody preset a GPU: ignored
    await bench.filter(pod)
    assert await bench.bind(pod, "n0") == ""
    assert [(method, path) for method, path, _ in bench.api.calls] == [
        ("POST", "/api/v1/namespaces/default/pods/p0/binding")
    ]
    assert _posts(bench)[0][1] == {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {
            "name": "p0",
            "namespace": "default",
            "uid": "uid-p0",
            "annotations": {names.ANNOTATION_GPU: "0", names.ANNOTATION_GPU_MEMORY: "4096"},
        },
        "target": {"apiVersion": "v1", "kind": "Node", "name": "n0"},
    }
    assert (await bench.ledger())["gpus"][0]["pods"][0]["state"] == "bound"


async def test_bind_without_a_reservation_chooses_by_the_same_rule(bench: Bench) -> None:
    pod = bench.api.add(gpu_pod())
    bench.show()
    await bench.filter(gpu_pod("other"), "n0")
    assert await bench.bind(pod, "n0") == ""
    assert _posts(bench)[0][1]["metadata"]["annotations"][names.ANNOTATION_GPU] == "1"


async def test_bind_of_a_pod_the_watch_has_not_shown_reads_it(bench: Bench) -> None:
    pod = bench.api.add(gpu_pod())
    assert await bench.bind(pod, "n1") == ""
    assert [method for method, _, _ in bench.api.calls] == ["GET", "POST"]


async def test_bind_to_a_node_that_filled_up_is_refused_with_the_reason(bench: Bench) -> None:
    pod = bench.api.add(gpu_pod(memory_mib=32768, model="bert"))
    bench.show()
    for index in range(2):
        await bench.filter(gpu_pod(f"q{index}"), "n0")
    assert await bench.bind(pod, "n0") == (
        "node n0: no GPU with 32768 MiB free any more; the most free on any eligible GPU is 28672 MiB"
    )
    assert _posts(bench) == []


async def test_a_gpu_that_fell_sick_after_filter_is_not_bound(bench: Bench) -> None:
    pod = bench.api.add(gpu_pod())
    await bench.filter(pod, "n0")
    node = bench.api.objects["/api/v1/nodes/n0"]
    node["metadata"]["annotations"] = {
        names.ANNOTATION_NODE_GPUS: '[{"uuid":"0","product":"V100","memoryMiB":32768,"healthy":false},'
        '{"uuid":"1","product":"V100","memoryMiB":32768}]'
    }
    bench.show()
    assert await bench.bind(pod, "n0") == ""
    assert _posts(bench)[0][1]["metadata"]["annotations"][names.ANNOTATION_GPU] == "1"


async def test_a_repeated_bind_succeeds_on_the_same_node_and_fails_on_another(bench: Bench) -> None:
    pod = bench.api.add(gpu_pod())
    await bench.filter(pod)
    for _ in range(2):
        assert await bench.bind(pod, "n0") == ""
        bench.show()
    assert await bench.bind(pod, "n0") == ""
    assert await bench.bind(pod, "n1") == "pod is already bound to node n0"
    assert len(_posts(bench)) == 1


async def test_binds_at_once_join_into_one_call(bench: Bench) -> None:
    pod = bench.api.add(gpu_pod())
    await bench.filter(pod)
    bench.api.hold_binds = asyncio.Event()
    first = asyncio.create_task(bench.bind(pod, "n0"))
    second = asyncio.create_task(bench.bind(pod, "n0"))
    await bench.api.bind_arrived.wait()
    assert await bench.bind(pod, "n1") == "pod is already being bound to node n0"
    bench.api.hold_binds.set()
    assert (await first, await second) == ("", "")
    assert len(_posts(bench)) == 1


async def test_a_pod_stays_booked_while_its_bind_is_under_way(bench: Bench) -> None:
    pod = bench.api.add(gpu_pod(memory_mib=32768))
    await bench.filter(pod, "n0")
    bench.api.hold_binds = asyncio.Event()
    task = asyncio.create_task(bench.bind(pod, "n0"))
    await bench.api.bind_arrived.wait()
    bench.clock[0] += 1000
    bench.show()  # the watch still shows the pod unbound
    assert (await bench.filter(gpu_pod("a", memory_mib=32768), "n0"))["NodeNames"] == ["n0"]
    assert (await bench.filter(gpu_pod("b", memory_mib=32768), "n0"))["NodeNames"] == []
    bench.api.hold_binds.set()
    assert await task == ""


async def test_a_caller_that_hangs_up_does_not_stop_the_bind(bench: Bench) -> None:
    pod = bench.api.add(gpu_pod())
    await bench.filter(pod)
    bench.api.hold_binds = asyncio.Event()
    task = asyncio.create_task(bench.bind(pod, "n0"))
    await bench.api.bind_arrived.wait()
    task.cancel()
    bench.api.hold_binds.set()
    await bench.binder.drain(1.0)
    assert bench.api.pod("p0")["spec"]["nodeName"] == "n0"
    assert await bench.bind(pod, "n0") == ""


async def test_a_slow_bind_answers_before_the_scheduler_hangs_up_and_goes_on(bench: Bench) -> None:
    pod = bench.api.add(gpu_pod())
    await bench.filter(pod)
    bench.api.hold_binds = asyncio.Event()
    bench.binder.answer_within = 0.01
    assert await bench.bind(pod, "n0") == "bind to node n0 is still under way"
    assert (await bench.filter(pod, "n0", "n1"))["NodeNames"] == ["n0"]
    assert "being bound to node n0" in (await bench.filter(pod, "n1"))["Error"]
    bench.api.hold_binds.set()
    await bench.binder.drain(1.0)
    assert await bench.bind(pod, "n0") == ""


async def test_a_lost_answer_to_a_bind_that_landed_is_a_success(bench: Bench) -> None:
    pod = bench.api.add(gpu_pod())
    await bench.filter(pod)
    bench.api.faults["POST"] = deque(["lost after"])
    assert await bench.bind(pod, "n0") == ""
    assert len(_posts(bench)) == 1


async def test_a_bind_that_may_still_land_keeps_its_gpu_and_is_tried_again_there(bench: Bench) -> None:
    pod = bench.api.add(gpu_pod())
    await bench.filter(pod)
    bench.api.faults["POST"] = deque(["lost before", 504])
    assert await bench.bind(pod, "n0") == "connection reset"
    assert (await bench.filter(gpu_pod("same-model"), "n0"))["NodeNames"] == ["n0"]
    assert (await bench.filter(pod, "n1", "n0"))["NodeNames"] == ["n0"]
    assert await bench.bind(pod, "n0") == "injected 504"
    assert await bench.bind(pod, "n0") == ""
    gpus = {body["metadata"]["annotations"][names.ANNOTATION_GPU] for _, body in _posts(bench)}
    assert gpus == {"0"}


async def test_a_bind_that_never_landed_gives_its_gpu_back_after_a_look(bench: Bench) -> None:
    pod = bench.api.add(gpu_pod())
    await bench.filter(pod)
    bench.api.faults["POST"] = deque(["lost before"])
    await bench.bind(pod, "n0")
    await bench.binder.verify_overdue()
    assert bench.placer.ledger.booking("uid-p0") is not None, "given back while the request may still land"
    bench.clock[0] += 76
    await bench.binder.verify_overdue()
    assert bench.placer.ledger.booking("uid-p0") is None


async def test_an_unreadable_pod_after_a_lost_answer_keeps_its_gpu(bench: Bench) -> None:
    pod = bench.api.add(gpu_pod())
    await bench.filter(pod)
    bench.api.faults |= {"POST": deque(["lost after"]), "GET": deque(["lost before"])}
    assert await bench.bind(pod, "n0") == "timeout; reading the pod: connection reset"
    assert (await bench.ledger())["gpus"][0]["freeMiB"] == 32768 - 4096
    bench.clock[0] += 76
    await bench.binder.verify_overdue()
    assert (await bench.ledger())["gpus"][0]["pods"][0]["state"] == "bound"


@pytest.mark.parametrize(
    ("change", "error"),
    [
        pytest.param(gpu_pod(node="n0", gpu="0"), "", id="bound there already"),
        pytest.param(gpu_pod(node="n1", gpu="0"), "pod is already bound to node n1", id="bound elsewhere"),
        pytest.param(gpu_pod(uid="again"), "pod default/p0 with UID uid-p0 is gone", id="created again"),
        pytest.param(
            gpu_pod(gates=("other",)), "pod p0 has non-empty .spec.schedulingGates", id="refused by the server"
        ),
    ],
)
async def test_a_conflict_is_settled_by_reading_the_pod(bench: Bench, change: Any, error: str) -> None:
    pod = bench.api.add(gpu_pod())
    await bench.filter(pod)
    bench.api.add(change)
    assert await bench.bind(pod, "n0") == error
    bench.show()
    bound = [raw for raw in bench.api.listing("/api/v1/pods") if raw["spec"].get("nodeName")]
    held = [entry for gpu in (await bench.ledger())["gpus"] for entry in gpu["pods"]]
    assert len(held) == len(bound)


async def test_a_refused_bind_ends_the_reservation_and_hands_on_the_servers_words(bench: Bench) -> None:
    pod = bench.api.add(gpu_pod())
    await bench.filter(pod)
    bench.api.faults["POST"] = deque([403])
    assert await bench.bind(pod, "n0") == "injected 403"
    assert bench.placer.ledger.booking("uid-p0") is None
    assert bench.metrics.registry.get_sample_value("hetserve_bind_errors_total", {"kind": "api"}) == 1


async def test_a_pod_deleted_before_its_bind_leaves_nothing(bench: Bench) -> None:
    pod = bench.api.add(gpu_pod())
    await bench.filter(pod)
    bench.api.remove(pod)
    assert "not found" in await bench.bind(pod, "n0")
    assert bench.placer.ledger.bookings() == {}


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
