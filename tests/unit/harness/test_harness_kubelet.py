"""Which pods the kubelet of workers runs, with what arguments, and on which addresses."""

from __future__ import annotations

from typing import Any

from harness.kubelet import IMAGE, network, worker_pod
from harness.ports import FIRST, LAST, Ports


def raw(image: str = f"registry/{IMAGE}:1", **metadata: Any) -> dict[str, Any]:
    label = {"fieldRef": {"fieldPath": "metadata.labels['hetserve.io/instance-type']"}}
    container = {
        "name": "model",
        "image": image,
        "args": ["--name", "$(MODEL)", "--instance-type", "$(TYPE)"],
        "env": [{"name": "MODEL", "value": "m"}, {"name": "TYPE", "valueFrom": label}],
    }
    labels = {"hetserve.io/instance-type": "t4"}
    return {
        "metadata": {"uid": "u", "name": "p", "namespace": "team", "labels": labels, **metadata},
        "spec": {"nodeName": "n", "containers": [container]},
    }


def test_a_bound_pod_of_the_workers_image_is_run_with_its_arguments() -> None:
    found = worker_pod(raw())
    assert found is not None
    assert (found.arguments, found.grace) == (("--name", "m", "--instance-type", "t4"), None)


def test_other_images_and_pods_without_a_node_are_left_alone() -> None:
    unbound = raw()
    del unbound["spec"]["nodeName"]
    assert (worker_pod(raw("pause:3.10")), worker_pod(unbound)) == (None, None)


def test_a_deleted_pod_has_its_grace() -> None:
    found = worker_pod(raw(deletionTimestamp="2026-01-01T00:00:00Z", deletionGracePeriodSeconds=7))
    assert found is not None
    assert found.grace == 7


def test_no_two_clusters_share_an_address() -> None:
    networks = {network(Ports.block_from(first)) for first in range(FIRST, LAST)}
    assert len(networks) == LAST - FIRST
    assert all(int(part) < 256 for one in networks for part in one.split("."))
