"""The extender and compute: filtered, bound with its annotation, shown, counted, and there again after a restart."""

from __future__ import annotations

import json
from typing import Any

from extender_bench import Bench
from hetserve.api import names
from hetserve.base.units import Seconds
from hetserve.placement.event_handlers import NodeEventHandler, PodEventHandler
from hetserve.placement.log.replay import replay
from hetserve.placement.log.what_if import what_if
from hetserve.placement.placer import Placer
from hetserve.placement.pods.requests import PolicyName
from hetserve.placement.pods.view import parse_pod
from hetserve_extender.observe.metrics import Metrics
from hetserve_extender.observe.placement_log import PlacementLog
from testing.cluster import gpu_node, gpu_pod

Json = dict[str, Any]


async def test_a_bind_writes_the_compute_of_who_declares_it(bench: Bench) -> None:
    one = bench.api.add(gpu_pod("one", compute=30))
    two = bench.api.add(gpu_pod("two", compute=45, gpus=2, model="two"))
    bench.show()
    for pod in (one, two):
        await bench.filter(pod, "n0")
        assert await bench.bind(pod, "n0") == ""
    annotated = [body["metadata"]["annotations"] for _, body in bench.sent("POST")]
    assert [notes.get(names.ANNOTATION_GPU_COMPUTE) for notes in annotated] == ["30", "45,45"]


async def test_a_bind_of_who_declares_none_writes_none(bench: Bench) -> None:
    pod = bench.api.add(gpu_pod())
    bench.show()
    await bench.filter(pod)
    assert await bench.bind(pod, "n0") == ""
    assert names.ANNOTATION_GPU_COMPUTE not in bench.sent("POST")[0][1]["metadata"]["annotations"]


async def test_compute_without_memory_is_the_answer_of_filter_and_bind(bench: Bench) -> None:
    lone = gpu_pod("lone", compute=30)
    for kind in ("limits", "requests"):
        lone["spec"]["containers"][0]["resources"][kind] = {names.RESOURCE_GPU_COMPUTE: "30"}
    pod = bench.api.add(lone)
    bench.show()
    words = f"{names.RESOURCE_GPU_COMPUTE}: 30 without {names.RESOURCE_GPU_MEMORY}"
    assert words in json.dumps(await bench.filter(pod))
    assert words in await bench.bind(pod, "n0")
    assert bench.sent("POST") == []


async def test_the_ledger_shows_what_is_booked_and_what_nobody_knows(bench: Bench) -> None:
    await bench.filter(gpu_pod("one", compute=30), "n0")
    await bench.filter(gpu_pod("two", model="two"), "n1")
    shown = {(gpu["node"], gpu["gpu"]): gpu for gpu in (await bench.ledger())["gpus"]}
    assert [shown[place]["freeComputePercent"] for place in (("n0", "0"), ("n1", "0"), ("n0", "1"))] == [70, None, 100]
    assert shown["n0", "0"]["pods"][0]["computePercent"] == 30


TERMS = '{"share": "0.5", "tolerance": "1.75", "factors": {"*": "1.9", "two": "1.1", "one": "1.2"}}'


def on_terms(name: str, **more: Any) -> Json:
    return gpu_pod(name, compute=100, model=name, annotations={names.ANNOTATION_GPU_SHARING: TERMS}, **more)


async def test_pods_with_terms_are_bound_as_holders_of_all_compute(
    bench: Bench,
) -> None:
    """So an earlier extender, which knows no terms, finds their GPU full."""
    for name in ("one", "two"):
        pod = bench.api.add(on_terms(name))
        bench.show()
        await bench.filter(pod, "n0")
        assert await bench.bind(pod, "n0") == ""
    annotated = [body["metadata"]["annotations"] for _, body in bench.sent("POST")]
    assert [notes.get(names.ANNOTATION_GPU_COMPUTE) for notes in annotated] == ["100", "100"]
    assert all(names.ANNOTATION_GPU_SHARING not in notes for notes in annotated), "the pod has it already"
    shown = [pod["sharing"] for gpu in (await bench.ledger())["gpus"] for pod in gpu["pods"]]
    assert [one["slowdown"] for one in shown] == ["1.2", "1.1"], "a GPU in use comes first"


async def test_the_metric_of_pods_with_terms_is_the_part_of_what_they_tolerate() -> None:
    pods = [on_terms(name, node="n0", gpu="0") for name in ("one", "two")]
    text = (await Metrics(placer_with(*pods, on_terms("alone", node="n0", gpu="1"))).text()).decode()
    where = 'node="n0",product="V100"'
    assert f'hetserve_gpu_compute_booked_percent{{gpu="0",{where}}} 69.0' in text, "1.2 of 1.75"
    assert f'hetserve_gpu_compute_booked_percent{{gpu="1",{where}}} 29.0' in text, "0.5 of 1.75"


def placer_with(*pods: Json) -> Placer:
    placer = Placer(clock=lambda: Seconds(0.0), hold=Seconds(30.0))
    NodeEventHandler(placer).replace([gpu_node("n0", gpus=3)])
    PodEventHandler(placer).replace(pods)
    return placer


async def test_compute_is_a_metric_of_each_gpu() -> None:
    placer = placer_with(
        gpu_pod("a", compute=30, model="a", node="n0", gpu="0"),
        gpu_pod("b", compute=45, model="b", node="n0", gpu="0"),
        gpu_pod("c", model="c", node="n0", gpu="1"),
        gpu_pod("w", memory_mib=0, gpus=1, model="w", node="n0", gpu="2"),
    )
    text = (await Metrics(placer).text()).decode()
    where = 'node="n0",product="V100"'
    for gpu, percent, undeclared in (("0", 75, 0), ("1", 0, 1), ("2", 100, 0)):
        assert f'hetserve_gpu_compute_booked_percent{{gpu="{gpu}",{where}}} {percent}.0' in text
        assert f'hetserve_gpu_undeclared_pods{{gpu="{gpu}",{where}}} {undeclared}.0' in text


def logged() -> list[Json]:
    log = PlacementLog(1 << 20, wall=lambda: 1.8e9)
    placer = log.placer(lambda: Seconds(5.0), Seconds(30.0))
    NodeEventHandler(placer).replace([gpu_node("n0", gpus=1)])
    PodEventHandler(placer).replace([gpu_pod("old", compute=20, model="old", node="n0", gpu="0")])
    for name, compute in (("a", 60), ("b", 60), ("c", None), ("d", 20)):
        pod = gpu_pod(name, compute=compute, model=name)
        for node in placer.filter(pod, ["n0"]).passed:
            placer.fix_gpus(parse_pod(pod).request, node)
    return [json.loads(line) for line in b"".join(log.pieces()).splitlines()]


def test_a_log_is_replayed_with_the_compute_and_tells_where_it_was_decided_otherwise() -> None:
    records = logged()
    again = replay(records)
    assert (again.difference, again.decisions) == (None, 6)
    filters = [record for record in records if record["call"] == "filter"]
    assert [record["result"]["passed"] for record in filters] == [["n0"], [], [], ["n0"]]
    assert [one["kind"] for record in filters for one in record["result"].get("refused", [])] == [
        "no-compute",
        "undeclared",
    ]
    assert filters[0]["result"]["chosen"]["gpus"][0]["freeComputePercent"] == 80
    bind = next(record for record in records if record["call"] == "fix_gpus")
    assert bind["result"]["computePercent"] == 60
    bind["result"]["computePercent"] = 50
    assert replay(records).difference is not None


def test_what_another_policy_would_have_done_counts_compute_too() -> None:
    found = what_if(logged(), PolicyName("BestFit"))
    assert (found.arrived, found.placed, found.never_placed) == (4, 2, 2)


def test_a_restarted_extender_books_what_running_pods_declare() -> None:
    before = placer_with(gpu_pod("a", compute=70, model="a", node="n0", gpu="0"))
    after = placer_with(gpu_pod("a", compute=70, model="a", node="n0", gpu="0"))
    PodEventHandler(after).replace([gpu_pod("a", compute=70, model="a", node="n0", gpu="0")])
    assert [use.booked_compute for use in after.ledger.gpus()] == [70, 0, 0]
    assert [use.booked_compute for use in before.ledger.gpus()] == [70, 0, 0]
    PodEventHandler(after).apply("DELETED", gpu_pod("a", compute=70, model="a", node="n0", gpu="0"))
    assert [use.booked_compute for use in after.ledger.gpus()] == [0, 0, 0]
