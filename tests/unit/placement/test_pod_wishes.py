"""Several GPUs, whole GPUs, and the wishes a pod states by annotation; what cannot be read is said, never guessed."""

from __future__ import annotations

import pytest

from hetserve.api import names
from hetserve.objects.resources import MAX_GPUS_PER_NODE
from hetserve.placement.pods.requests import AntiAffinity, GpuSelector, PolicyName
from hetserve.placement.pods.view import parse_pod
from testing.cluster import gpu_pod

COUNTS: dict[str, tuple[int, int | None, tuple[int, int, bool, bool]]] = {
    "memory alone: on one GPU": (4096, None, (4096, 1, False, True)),
    "both: that memory on each": (4096, 2, (4096, 2, False, True)),
    "GPUs alone: whole ones": (0, 2, (0, 2, True, True)),
    "no GPU": (0, 0, (0, 1, False, False)),
    "zero GPUs count as not said": (4096, 0, (4096, 1, False, True)),
}


@pytest.mark.parametrize(("mib", "gpus", "expected"), COUNTS.values(), ids=COUNTS)
def test_memory_and_number_of_gpus(mib: int, gpus: int | None, expected: tuple[int, int, bool, bool]) -> None:
    request = parse_pod(gpu_pod(memory_mib=mib, gpus=gpus)).request
    assert (request.memory_mib, request.gpus, request.whole, request.needs_gpu) == expected


def test_gpus_are_counted_over_containers_as_kubernetes_counts() -> None:
    raw = gpu_pod(memory_mib=0, gpus=1)
    (container,) = raw["spec"]["containers"]
    raw["spec"]["containers"] = [container, container]
    raw["spec"]["initContainers"] = [
        container | {"resources": {"limits": {names.RESOURCE_GPU: "3"}}},
        container | {"restartPolicy": "Always"},
    ]
    assert parse_pod(raw).request.gpus == 3


def test_more_gpus_than_any_node_has_are_refused_by_name() -> None:
    with pytest.raises(ValueError, match=f"it counts GPUs, at most {MAX_GPUS_PER_NODE}"):
        parse_pod(gpu_pod(memory_mib=0, gpus=4000))


def test_wishes_are_read_from_annotations() -> None:
    request = parse_pod(
        gpu_pod(
            annotations={
                names.ANNOTATION_ANTI_AFFINITY: "None",
                names.ANNOTATION_PLACEMENT_POLICY: "BestFit",
                names.ANNOTATION_GPU_PRODUCT: "V100, A100",
                names.ANNOTATION_GPU_PRODUCT_EXCLUDE: "T4",
                names.ANNOTATION_GPU_UUID: "GPU-b,GPU-a,GPU-b",
                names.ANNOTATION_GPU_UUID_EXCLUDE: "GPU-c",
            }
        )
    ).placeable()
    assert request.anti_affinity is AntiAffinity.NONE
    assert request.policy == PolicyName("BestFit")
    assert request.selector == GpuSelector(("A100", "V100"), ("T4",), ("GPU-a", "GPU-b"), ("GPU-c",))


def test_a_pod_that_wishes_nothing_is_alone_with_its_model_and_takes_any_gpu() -> None:
    request = parse_pod(gpu_pod(annotations={names.ANNOTATION_GPU_PRODUCT: ""})).placeable()
    assert (request.anti_affinity, request.policy, request.selector) == (AntiAffinity.HARD, None, GpuSelector())


BAD: dict[str, tuple[str, object, str]] = {
    "an anti-affinity that there is not": (
        names.ANNOTATION_ANTI_AFFINITY,
        "Soft",
        "annotation hetserve.io/anti-affinity: 'Soft' is not Hard or None",
    ),
    "a policy in another spelling": (
        names.ANNOTATION_PLACEMENT_POLICY,
        "worstfit",
        "annotation hetserve.io/placement-policy: 'worstfit' is not WorstFit or DominantWorstFit or BestFit or Spread "
        "or PackedWorstFit",
    ),
    "an empty entry": (
        names.ANNOTATION_GPU_UUID,
        "GPU-a,,GPU-b",
        "annotation hetserve.io/gpu-uuid: 'GPU-a,,GPU-b' has an empty entry; join entries by one ','",
    ),
    "no text": (names.ANNOTATION_GPU_PRODUCT, ["T4"], "annotation hetserve.io/gpu-product: ['T4'] is not a text"),
}


@pytest.mark.parametrize(("key", "value", "words"), BAD.values(), ids=BAD)
def test_a_wish_that_cannot_be_read_stops_the_placing_by_name(key: str, value: str, words: str) -> None:
    pod = parse_pod(gpu_pod(annotations={key: value}))
    assert pod.complaint == words
    with pytest.raises(ValueError, match=r"annotation hetserve\.io/"):
        pod.placeable()


def test_a_bound_pod_holds_its_gpu_whatever_its_wishes_say_by_now() -> None:
    wishes = {names.ANNOTATION_PLACEMENT_POLICY: "Chaos", names.ANNOTATION_ANTI_AFFINITY: "None"}
    pod = parse_pod(gpu_pod(node="n0", gpu="0", annotations=wishes))
    assert pod.gpus == ("0",)
    assert pod.request.anti_affinity is AntiAffinity.NONE, "another wish that cannot be read must not change this one"


WRITTEN = {
    "one": ("1", ("1",)),
    "several, in the order of ids": ("10,2,0", ("0", "2", "10")),
    "blanks and repetitions add nothing": (" 1, ,0,1 ", ("0", "1")),
    "nothing": (",", ()),
}


@pytest.mark.parametrize(("text", "ids"), WRITTEN.values(), ids=WRITTEN)
def test_the_gpus_of_a_bound_pod(text: str, ids: tuple[str, ...]) -> None:
    assert parse_pod(gpu_pod(node="n0", gpu=text)).gpus == ids
