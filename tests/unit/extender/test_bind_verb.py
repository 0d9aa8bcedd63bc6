"""The bind verb over an API server in memory: one call, once, whatever becomes of its answer."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any

import pytest

from extender_bench import Bench
from hetserve.api import names
from hetserve_extender.verbs.wire import BindArgs
from testing.cluster import gpu_pod


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
    assert bench.sent("POST") == [], "whoever reaches the port binds any pod anywhere"


async def test_bind_is_one_call_with_uid_and_gpu(bench: Bench) -> None:
    pod = bench.api.add(gpu_pod(gpu="7"))  # somebody preset a GPU: ignored
    await bench.filter(pod)
    assert await bench.bind(pod, "n0") == ""
    assert [(method, path) for method, path, _ in bench.api.calls] == [
        ("POST", "/api/v1/namespaces/default/pods/p0/binding")
    ]
    assert bench.sent("POST")[0][1] == {
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
    assert bench.sent("POST")[0][1]["metadata"]["annotations"][names.ANNOTATION_GPU] == "1"


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
    assert bench.sent("POST") == []


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
    assert bench.sent("POST")[0][1]["metadata"]["annotations"][names.ANNOTATION_GPU] == "1"


async def test_a_repeated_bind_succeeds_on_the_same_node_and_fails_on_another(bench: Bench) -> None:
    pod = bench.api.add(gpu_pod())
    await bench.filter(pod)
    for _ in range(2):
        assert await bench.bind(pod, "n0") == ""
        bench.show()
    assert await bench.bind(pod, "n0") == ""
    assert await bench.bind(pod, "n1") == "pod is already bound to node n0"
    assert len(bench.sent("POST")) == 1


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
    assert len(bench.sent("POST")) == 1


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
    task = asyncio.create_task(bench.binder.bind(BindArgs("p0", "default", "uid-p0", "n0")))
    await bench.api.bind_arrived.wait()
    task.cancel()
    bench.api.hold_binds.set()
    await bench.binder.drain(1.0)
    assert bench.api.pod("p0")["spec"]["nodeName"] == "n0"
    assert (await bench.ledger())["gpus"][0]["pods"][0]["state"] == "bound"
    assert await bench.bind(pod, "n0") == ""


async def test_a_call_that_is_cancelled_does_not_stop_the_bind(bench: Bench) -> None:
    pod = bench.api.add(gpu_pod())
    await bench.filter(pod)
    bench.api.hold_binds = asyncio.Event()
    task = asyncio.create_task(bench.binder.bind(BindArgs("p0", "default", "uid-p0", "n0")))
    await bench.api.bind_arrived.wait()
    task.cancel()
    await asyncio.wait([task])
    bench.api.hold_binds.set()
    await bench.binder.drain(1.0)
    assert bench.api.pod("p0")["spec"]["nodeName"] == "n0"
    assert bench.binder.binds.running == {}


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
    assert len(bench.sent("POST")) == 1


async def test_a_bind_that_may_still_land_keeps_its_gpu_and_is_tried_again_there(bench: Bench) -> None:
    pod = bench.api.add(gpu_pod())
    await bench.filter(pod)
    bench.api.faults["POST"] = deque(["lost before", 504])
    assert await bench.bind(pod, "n0") == "connection reset"
    assert (await bench.filter(gpu_pod("same-model"), "n0"))["NodeNames"] == ["n0"]
    assert (await bench.filter(pod, "n1", "n0"))["NodeNames"] == ["n0"]
    assert await bench.bind(pod, "n0") == "injected 504"
    assert await bench.bind(pod, "n0") == ""
    gpus = {body["metadata"]["annotations"][names.ANNOTATION_GPU] for _, body in bench.sent("POST")}
    assert gpus == {"0"}


async def test_a_bind_that_never_landed_gives_its_gpu_back_after_a_look(bench: Bench) -> None:
    pod = bench.api.add(gpu_pod())
    await bench.filter(pod)
    bench.api.faults["POST"] = deque(["lost before"])
    await bench.bind(pod, "n0")
    bench.binder.verify_overdue()
    await bench.binder.drain(5.0)
    assert bench.placer.ledger.booking("uid-p0") is not None, "given back while the request may still land"
    bench.clock[0] += 76
    bench.binder.verify_overdue()
    await bench.binder.drain(5.0)
    assert bench.placer.ledger.booking("uid-p0") is None


async def test_a_bound_pod_that_cannot_be_read_keeps_its_gpu_however_often_it_is_looked_up(bench: Bench) -> None:
    pod = bench.api.add(gpu_pod())
    await bench.filter(pod)
    bench.api.faults["POST"] = deque(["lost after"])
    bench.api.faults["GET"] = deque(["lost before"])
    await bench.bind(pod, "n0")
    bound = next(raw for raw in bench.api.listing("/api/v1/pods") if raw["spec"].get("nodeName"))
    bound["spec"]["containers"] = ["model"]
    bench.api.add(bound)
    for _ in range(2):
        bench.clock[0] += 76
        bench.binder.verify_overdue()
        await bench.binder.drain(5.0)
        assert bench.placer.ledger.free(("n0", "0")) == 32768 - 4096, "its GPU is given away"
    bench.show()
    assert (await bench.filter(gpu_pod("next", model="next"), "n0"))["FailedAndUnresolvableNodes"]["n0"].endswith(
        "cannot be read, nor which GPUs they hold; it takes new pods once they end: default/p0"
    )


async def test_an_unreadable_pod_after_a_lost_answer_keeps_its_gpu(bench: Bench) -> None:
    pod = bench.api.add(gpu_pod())
    await bench.filter(pod)
    bench.api.faults |= {"POST": deque(["lost after"]), "GET": deque(["lost before"])}
    assert await bench.bind(pod, "n0") == "timeout; reading the pod: connection reset"
    assert (await bench.ledger())["gpus"][0]["freeMiB"] == 32768 - 4096
    bench.clock[0] += 76
    bench.binder.verify_overdue()
    await bench.binder.drain(5.0)
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
