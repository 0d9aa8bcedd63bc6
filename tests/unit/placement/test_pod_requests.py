"""What a pod asks for is counted as Kubernetes counts it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest

from hetserve.api import names
from hetserve.objects.fields import InvalidObjectError
from hetserve.objects.resources import MAX_MIB, peak
from hetserve.placement.pods.view import parse_pod
from testing.cluster import gpu_pod


def _container(mib: str | None, *, sidecar: bool = False, kind: str = "limits") -> dict[str, Any]:
    container: dict[str, Any] = {"resources": {kind: {names.RESOURCE_GPU_MEMORY: mib}} if mib else {}}
    return container | ({"restartPolicy": "Always"} if sidecar else {})


@pytest.mark.parametrize(
    ("init", "containers", "expected"),
    [
        pytest.param([], [_container("4096")], 4096, id="one container"),
        pytest.param([], [_container("12k")], 12000, id="a canonicalised quantity"),
        pytest.param([], [_container("+5")], 5, id="a sign, which the API server keeps"),
        pytest.param([], [_container("1"), _container("2", kind="requests")], 3, id="containers are summed"),
        pytest.param([], [_container(None)], 0, id="nothing asked"),
    ],
)
def test_gpu_memory_of_a_pod(init: list[Any], containers: list[Any], expected: int) -> None:
    assert peak({"initContainers": init, "containers": containers}, names.RESOURCE_GPU_MEMORY) == expected


@pytest.mark.parametrize("text", ["-1", "much", "1e99", str(MAX_MIB + 1), "1.2.3", "", "0" * 65 + "1"])
def test_a_quantity_that_is_none_is_refused_by_name(text: str) -> None:
    with pytest.raises(ValueError, match=names.RESOURCE_GPU_MEMORY):
        peak({"containers": [{"resources": {"limits": {names.RESOURCE_GPU_MEMORY: text}}}]}, names.RESOURCE_GPU_MEMORY)


def test_a_preset_gpu_counts_only_on_a_bound_pod() -> None:
    assert parse_pod(gpu_pod(gpu="1")).gpus == ()
    assert parse_pod(gpu_pod(gpu="1", node="n0")).gpus == ("1",)


def test_a_gated_pod_is_not_unschedulable() -> None:
    raw = gpu_pod(gates=(names.QUEUE_GATE,))
    raw["status"]["conditions"] = [{"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}]
    assert not parse_pod(raw).unschedulable
    assert parse_pod(gpu_pod(unschedulable=True)).unschedulable


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("uid", None, "metadata.uid is missing"),
        ("uid", 7, "metadata.uid: 7 is not a text"),
        ("labels", [1], "metadata.labels"),
        ("creationTimestamp", "yesterday", "metadata.creationTimestamp: 'yesterday' is not a time"),
    ],
)
def test_an_object_that_is_no_pod_is_refused_by_field(field: str, value: object, words: str) -> None:
    raw = gpu_pod()
    raw["metadata"][field] = value
    with pytest.raises(ValueError, match=words):
        parse_pod(raw)


def _leaves(value: object, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Paths of all values below an object, the inner ones too."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in inner:
        yield (*path, key)
        yield from _leaves(part, (*path, key))


def _whole_pod() -> dict[str, Any]:
    raw = gpu_pod(node="n0", gpu="1", product="T4", gates=(names.QUEUE_GATE,), unschedulable=True)
    raw["spec"]["initContainers"] = [_container("7", sidecar=True)]
    return raw


@pytest.mark.parametrize("path", list(_leaves(_whole_pod())), ids=lambda path: ".".join(map(str, path)))
def test_any_value_of_a_pod_may_be_of_the_wrong_type_without_another_error(path: tuple[str | int, ...]) -> None:
    values: tuple[object, ...] = ([], {}, [[]], 1, -1e308, "x", "", "0001-01-01", True, None)
    for wrong in values:
        raw: Any = _whole_pod()
        inner = raw
        for key in path[:-1]:
            inner = inner[key]
        inner[path[-1]] = wrong
        with suppress(InvalidObjectError):
            parse_pod(raw)
