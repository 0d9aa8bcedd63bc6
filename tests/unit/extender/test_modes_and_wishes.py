"""The verbs in both modes, for pods on several GPUs and with wishes, as the scheduler calls them."""

from __future__ import annotations

from collections import deque
from typing import Any

import pytest

from extender_bench import Bench
from hetserve.api import names
from hetserve.placement.check import violations
from hetserve.placement.decision.wording import UNLISTED_GPU
from hetserve.placement.event_handlers import NodeEventHandler, PodEventHandler
from hetserve.placement.placer import Mode
from hetserve.placement.pods.requests import PolicyName
from testing.cluster import gpu_node, gpu_pod

Json = dict[str, Any]
ALL = 32768


def _annotations(bench: Bench, name: str) -> Json:
    annotations: Json = bench.api.pod(name)["metadata"]["annotations"]
    return annotations


async def _scores(bench: Bench, pod: Json, *nodes: str) -> dict[str, int]:
    answer = await bench.verbs.post("/prioritize", json={"Pod": pod, "Nodes": None, "NodeNames": list(nodes)})
    return {entry["Host"]: entry["Score"] for entry in answer.json()}


def _held(bench: Bench) -> int:
    """Bookings that the watch has not shown."""
    return sum(not booking.confirmed for booking in bench.placer.ledger.bookings().values())


# Several GPUs


@pytest.mark.parametrize("mode", Mode)
async def test_several_gpus_are_written_as_the_device_variable_wants_them(bench: Bench, mode: Mode) -> None:
    bench.placer.mode = mode
    bench.api.add(gpu_node("n2", gpus=4))
    pod = bench.api.add(gpu_pod(memory_mib=20000, gpus=3))
    bench.show()
    assert (await bench.filter(pod, "n0", "n1", "n2"))["NodeNames"] == ["n2"]
    assert await bench.bind(pod, "n2") == ""
    assert _annotations(bench, "p0") == {
        names.ANNOTATION_GPU: "0,1,2",
        names.ANNOTATION_GPU_MEMORY: "20000,20000,20000",
    }
    assert violations(bench.api.listing("/api/v1/pods"), bench.api.listing("/api/v1/nodes")) == ()


@pytest.mark.parametrize("mode", Mode)
async def test_whole_gpus_are_written_with_the_memory_they_have(bench: Bench, mode: Mode) -> None:
    bench.placer.mode = mode
    pod = bench.api.add(gpu_pod(memory_mib=0, gpus=2))
    bench.show()
    assert await bench.bind(pod, "n1") == ""
    assert _annotations(bench, "p0") == {names.ANNOTATION_GPU: "0,1", names.ANNOTATION_GPU_MEMORY: f"{ALL},{ALL}"}
    refused = (await bench.filter(gpu_pod("slice", memory_mib=1, model="m"), "n1"))["FailedAndUnresolvableNodes"]
    assert refused == {"n1": "no GPU with 1 MiB free; the most free on any eligible GPU is 0 MiB"}


async def test_a_repeated_bind_after_a_lost_answer_names_the_same_gpus(bench: Bench) -> None:
    pod = bench.api.add(gpu_pod(gpus=2))
    bench.show()
    await bench.filter(pod)
    bench.api.faults["POST"] = deque(["lost before"])
    assert await bench.bind(pod, "n0") != ""
    assert await bench.bind(pod, "n0") == ""
    bodies = [body["metadata"]["annotations"] for method, _, body in bench.api.calls if method == "POST"]
    assert bodies[0] == bodies[1]


# Mode score


async def test_score_passes_every_node_that_fits_and_reserves_nothing(bench: Bench) -> None:
    bench.placer.mode = Mode.SCORE
    bench.api.add(gpu_node("n2", memory_mib=100))
    bench.show()
    result = await bench.filter(gpu_pod(), "n2", "n1", "n0", "gone")
    assert result["NodeNames"] == ["n1", "n0"]
    assert result["FailedAndUnresolvableNodes"] == {
        "n2": "no GPU with 4096 MiB free; the most free on any eligible GPU is 32768 MiB",
        "gone": "no GPU on the node",
    }
    assert _held(bench) == 0


@pytest.mark.parametrize(
    ("policy", "wish", "best"),
    [
        (PolicyName("WorstFit"), None, "n1"),
        (PolicyName("BestFit"), None, "n0"),
        (PolicyName("WorstFit"), "BestFit", "n0"),
        (PolicyName("BestFit"), "Spread", "n1"),
    ],
)
async def test_scores_follow_the_policy_in_use(bench: Bench, policy: PolicyName, wish: str | None, best: str) -> None:
    bench.placer.mode, bench.placer.policy = Mode.SCORE, policy
    for gpu in "01":
        bench.api.add(gpu_pod(f"there{gpu}", node="n0", gpu=gpu, model=f"m{gpu}"))
    bench.show()
    pod = gpu_pod(annotations={names.ANNOTATION_PLACEMENT_POLICY: wish} if wish else None)
    scores = await _scores(bench, pod, "n0", "n1", "gone")
    assert scores.pop("gone") == 0
    assert max(scores, key=lambda node: scores[node]) == best
    assert sorted(scores.values()) == [9, 10]


async def test_bind_in_score_finds_out_that_the_node_filled_up_and_says_by_how_much(bench: Bench) -> None:
    bench.placer.mode = Mode.SCORE
    pods = [bench.api.add(gpu_pod(f"p{number}", memory_mib=30720, model=f"m{number}")) for number in range(3)]
    bench.show()
    for pod in pods:
        assert (await bench.filter(pod, "n0"))["NodeNames"] == ["n0"], "the scheduler has seen no bind yet"
    answers = [await bench.bind(pod, "n0") for pod in pods]
    assert answers == [
        "",
        "",
        "node n0: no GPU with 30720 MiB free any more; the most free on any eligible GPU is 2048 MiB",
    ]
    assert violations(bench.api.listing("/api/v1/pods"), bench.api.listing("/api/v1/nodes")) == ()
    assert _held(bench) == 2, "a refused bind holds nothing"


async def test_bind_in_score_chooses_by_the_policy(bench: Bench) -> None:
    bench.placer.mode, bench.placer.policy = Mode.SCORE, PolicyName("BestFit")
    bench.api.add(gpu_pod("there", node="n0", gpu="1", model="other"))
    pod = bench.api.add(gpu_pod())
    bench.show()
    assert await bench.bind(pod, "n0") == ""
    assert _annotations(bench, "p0")[names.ANNOTATION_GPU] == "1"


async def test_filter_in_decide_chooses_by_the_policy_of_the_installation(bench: Bench) -> None:
    bench.placer.policy = PolicyName("BestFit")
    bench.api.add(gpu_pod("there", node="n1", gpu="1", model="other"))
    bench.show()
    assert (await bench.filter(gpu_pod()))["NodeNames"] == ["n1"]


# Mode decide: nominated nodes, single nodes, pods given up


async def test_a_nominated_node_offered_alone_is_taken_and_given_back_when_all_are_offered(bench: Bench) -> None:
    bench.api.add(gpu_pod("there", node="n1", gpu="0", model="other"))
    bench.show()
    pod = gpu_pod()
    pod["status"]["nominatedNodeName"] = "n1"
    assert (await bench.filter(pod, "n1"))["NodeNames"] == ["n1"]
    assert (await bench.filter(pod, "n0", "n1"))["NodeNames"] == ["n0"]
    assert _held(bench) == 1


async def test_a_node_refused_alone_ends_the_reservation_elsewhere(bench: Bench) -> None:
    bench.api.add(gpu_pod("there", node="n1", gpu="0,1", gpus=2))
    bench.show()
    assert (await bench.filter(gpu_pod()))["NodeNames"] == ["n0"]
    alone = await bench.filter(gpu_pod(), "n1")
    assert alone["NodeNames"] == []
    assert alone["FailedAndUnresolvableNodes"] == {"n1": "same model on every GPU"}
    assert _held(bench) == 0, "the scheduler was not told n0 a second time: nobody would bind it"


async def test_a_pod_that_the_scheduler_gives_up_leaks_nothing(bench: Bench) -> None:
    pod = gpu_pod(gpus=2, memory_mib=ALL)
    assert (await bench.filter(pod, "n0"))["NodeNames"] == ["n0"]
    other = gpu_pod("other", gpus=2, memory_mib=ALL)
    assert (await bench.filter(other, "n0"))["NodeNames"] == []
    bench.clock[0] += 30.0
    assert (await bench.filter(other, "n0"))["NodeNames"] == ["n0"]
    assert _held(bench) == 1


async def test_a_changed_wish_counts_from_the_next_filter(bench: Bench) -> None:
    pod = gpu_pod()
    assert (await bench.filter(pod))["NodeNames"] == ["n0"]
    pod["metadata"]["annotations"] = {names.ANNOTATION_GPU_PRODUCT: "A100"}
    refused = await bench.filter(pod)
    assert refused["FailedAndUnresolvableNodes"] == dict.fromkeys(["n0", "n1"], "no GPU of product A100")
    assert _held(bench) == 0


# Wishes and inventories


@pytest.mark.parametrize("mode", Mode)
async def test_a_wish_that_cannot_be_read_is_the_answer_of_every_verb(bench: Bench, mode: Mode) -> None:
    bench.placer.mode = mode
    words = "annotation hetserve.io/placement-policy: 'Random' is not WorstFit or DominantWorstFit or BestFit or "
    words += "Spread or PackedWorstFit"
    pod = bench.api.add(gpu_pod(annotations={names.ANNOTATION_PLACEMENT_POLICY: "Random"}))
    bench.show()
    refused = await bench.filter(pod, "n0", "n1")
    assert refused["FailedAndUnresolvableNodes"] == {"n0": words, "n1": words}
    assert refused["NodeNames"] == []
    assert not refused["Error"], "the scheduler tries the pod again every second, before everybody else's"
    assert await bench.bind(pod, "n0") == words
    assert (await bench.verbs.post("/prioritize", json={"Pod": pod, "NodeNames": ["n0"]})).status_code == 400
    assert _held(bench) == 0


@pytest.mark.parametrize(("said", "shares"), [(("None", "None"), True), (("None", "Hard"), False)])
async def test_two_pods_of_a_model_share_a_gpu_only_if_both_agree(
    bench: Bench, said: tuple[str, str], shares: bool
) -> None:
    bench.api.objects.clear()
    bench.api.add(gpu_node("n0", gpus=1))
    first, second = (
        bench.api.add(gpu_pod(f"p{n}", annotations={names.ANNOTATION_ANTI_AFFINITY: s})) for n, s in enumerate(said)
    )
    bench.show()
    assert await bench.bind(first, "n0") == ""
    assert (await bench.bind(second, "n0") == "") is shares
    assert violations(bench.api.listing("/api/v1/pods"), bench.api.listing("/api/v1/nodes")) == ()


def _listed(*healthy: bool) -> Json:
    gpus = [
        {"uuid": f"GPU-{n}", "product": "V100", "memoryMiB": 16384 * (n + 1), "healthy": ok}
        for n, ok in enumerate(healthy)
    ]
    return gpu_node("mixed", listed=gpus)


async def test_a_reserved_gpu_that_turns_unhealthy_is_not_bound(bench: Bench) -> None:
    bench.api.add(_listed(True, True))
    pod = bench.api.add(gpu_pod())
    bench.show()
    assert (await bench.filter(pod, "mixed"))["NodeNames"] == ["mixed"]
    NodeEventHandler(bench.placer).apply("MODIFIED", _listed(True, False))
    assert await bench.bind(pod, "mixed") == ""
    assert _annotations(bench, "p0")[names.ANNOTATION_GPU] == "GPU-0", "GPU-1 was reserved"


async def test_a_reservation_on_a_node_that_closed_is_not_bound(bench: Bench) -> None:
    pod = bench.api.add(gpu_pod())
    bench.show()
    await bench.filter(pod, "n0")
    PodEventHandler(bench.placer).apply("ADDED", gpu_pod("stranger", node="n0", gpu="GPU-x", model="other"))
    assert UNLISTED_GPU in await bench.bind(pod, "n0"), "GPU-x may be the very one that was reserved"


async def test_a_pod_on_two_gpus_is_not_bound_when_one_of_them_shrinks(bench: Bench) -> None:
    def listed(second: int) -> Json:
        sizes = {"GPU-a": ALL, "GPU-b": second, "GPU-c": 16384}
        return gpu_node("mixed", listed=[{"uuid": u, "product": "V100", "memoryMiB": m} for u, m in sizes.items()])

    bench.api.add(listed(ALL))
    pod = bench.api.add(gpu_pod(memory_mib=12000, gpus=2))
    bench.show()
    await bench.filter(pod, "mixed")
    NodeEventHandler(bench.placer).apply("MODIFIED", listed(8192))
    assert await bench.bind(pod, "mixed") == ""
    assert _annotations(bench, "p0")[names.ANNOTATION_GPU] == "GPU-a,GPU-c"


async def test_bind_to_a_node_whose_last_gpu_turned_unhealthy_is_refused(bench: Bench) -> None:
    bench.api.add(_listed(True, True))
    pod = bench.api.add(gpu_pod(memory_mib=20000))
    bench.show()
    await bench.filter(pod, "mixed")
    NodeEventHandler(bench.placer).apply("MODIFIED", _listed(False, False))
    assert await bench.bind(pod, "mixed") == "node mixed: no healthy GPU on the node any more"


async def test_an_inventory_that_shrinks_below_a_reservation_stops_its_bind(bench: Bench) -> None:
    pod = bench.api.add(gpu_pod(memory_mib=20000))
    bench.show()
    await bench.filter(pod, "n0")
    NodeEventHandler(bench.placer).apply("MODIFIED", gpu_node("n0", memory_mib=16384))
    assert await bench.bind(pod, "n0") == (
        "node n0: no GPU with 20000 MiB free any more; the most free on any eligible GPU is 16384 MiB"
    )
