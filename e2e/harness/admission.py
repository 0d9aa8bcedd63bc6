"""Takes an admission policy of the chart out of force, for what was there before it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from harness.cluster import Cluster
from harness.kube import ApiError
from harness.waiting import Unmet, wait_until
from hetserve.api.names import ANNOTATION_GPU

BINDING: Final = "validatingadmissionpolicybindings"
IN_FORCE: Final = 30.0
"""Seconds until the API server has seen a policy come or go."""


@contextmanager
def unlocked(cluster: Cluster) -> Iterator[None]:
    """Pods may say on which GPU they are, during the block."""
    binding = cluster.get(BINDING, "hetserve-pods")
    cluster.kube.delete(BINDING, "hetserve-pods")
    wait_until(lambda: not locked(cluster) or Unmet("it refuses"), IN_FORCE, "the policy to be out of force")
    try:
        yield
    finally:
        kept = {
            key: binding["metadata"][key] for key in ("name", "labels", "annotations") if key in binding["metadata"]
        }
        cluster.apply({**binding, "metadata": kept})
        wait_until(lambda: locked(cluster) or Unmet("it lets all pass"), IN_FORCE, "the policy to be in force")


def locked(cluster: Cluster) -> bool:
    """Whether a pod that is born with a GPU is refused; none is made."""
    metadata = {"name": "probe-of-the-lock", "namespace": "default", "annotations": {ANNOTATION_GPU: "0"}}
    spec: dict[str, Any] = {"containers": [{"name": "model", "image": "none"}]}
    try:
        cluster.kube.create({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}, dry_run=True)
    except ApiError as error:
        if ANNOTATION_GPU not in error.message:
            raise
        return True
    return False
