"""The fake kubelets make pods of a type Ready after its launch time where a test asks for it."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from datetime import UTC, datetime

import pytest

from harness import limits
from harness.cluster import Cluster
from harness.waiting import Unmet, wait_until
from hetserve.api.names import LABEL_INSTANCE_TYPE
from testing import builders

MINUTE, TWENTIETH = "1m", 0.05
"""Played as 3 s."""
Run = Callable[..., None]


@pytest.fixture
def slow(bare_cluster: Cluster, namespace: str) -> Iterator[str]:
    """An InstanceType whose instances launch for a minute."""
    (applied,) = bare_cluster.apply(
        builders.instance_type(f"slow-{namespace}"[:50].rstrip("-"), {"spec.launchTime": MINUTE})
    )
    name: str = applied["metadata"]["name"]
    yield name
    bare_cluster.launch_at_once(name)
    bare_cluster.kube.delete("instancetypes", name)


@pytest.fixture
def run(bare_cluster: Cluster, namespace: str) -> Run:
    """Creates a pod of a type, with a grace period in seconds."""

    def create(name: str, kind: str, grace: int = 0) -> None:
        labels = {LABEL_INSTANCE_TYPE: kind}
        spec = {"terminationGracePeriodSeconds": grace, "containers": [{"name": "model", "image": "none"}]}
        manifest = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": labels}, "spec": spec}
        bare_cluster.kube.create(manifest, namespace)

    return create


def seconds_to_ready(cluster: Cluster, namespace: str, name: str) -> float:
    """From bound to Ready, in the whole seconds of the API; the same second: 0.5."""

    def ready() -> float | Unmet:
        pod = cluster.get("pods", name, namespace)
        seen = {
            c["type"]: c["lastTransitionTime"] for c in pod["status"].get("conditions", []) if c["status"] == "True"
        }
        if "Ready" not in seen:
            return Unmet(seen)
        took = datetime.fromisoformat(seen["Ready"]) - datetime.fromisoformat(seen["PodScheduled"])
        return took.total_seconds() or 0.5

    return wait_until(ready, limits.REACTION, f"{name} to be Ready")


def test_only_pods_of_the_played_type_launch_slowly(bare_cluster: Cluster, namespace: str, slow: str, run: Run) -> None:
    names = (f"pod-{number}" for number in itertools.count())

    def launched() -> float:
        run(name := next(names), slow)
        return seconds_to_ready(bare_cluster, namespace, name)

    # KWOK hears of a change of its stages a moment later: the first pods may still launch as before.
    bare_cluster.play_launch_times(slow, scale=TWENTIETH, jitter=0.5)
    wait_until(lambda: 2 < launched() < 15, limits.REACTION, "a pod that launches for three seconds to four and a half")
    run("waits", slow)
    run("other", "of-another-type")
    seconds_to_ready(bare_cluster, namespace, "other")
    (pod,) = (pod for pod in bare_cluster.pods(namespace) if pod["metadata"]["name"] == "waits")
    assert pod["status"]["phase"] == "Pending"

    bare_cluster.launch_at_once(slow)
    wait_until(lambda: launched() < 2, limits.REACTION, "a pod that launches at once again")


def test_a_drained_pod_stays_through_its_grace_and_leaves(
    bare_cluster: Cluster, namespace: str, slow: str, run: Run
) -> None:
    bare_cluster.play_launch_times(slow, scale=0, drain=True)
    run("serves", slow, grace=3)
    seconds_to_ready(bare_cluster, namespace, "serves")

    path = bare_cluster.kube.resource("pods").path(namespace, "serves")
    due = bare_cluster.kube.request("DELETE", path).json()["metadata"]["deletionTimestamp"]
    wait_until(lambda: not bare_cluster.pods(namespace), limits.REACTION, "the pod to be gone")
    assert datetime.now(UTC) >= datetime.fromisoformat(due), "it stays through its grace"


def test_a_pod_deleted_while_it_launches_leaves_at_once(
    bare_cluster: Cluster, namespace: str, slow: str, run: Run
) -> None:
    bare_cluster.play_launch_times(slow)
    run("early", slow, grace=30)
    wait_until(
        lambda: bare_cluster.get("pods", "early", namespace)["spec"].get("nodeName"), limits.REACTION, "it to be bound"
    )
    bare_cluster.kube.delete("pods", "early", namespace)
    wait_until(lambda: not bare_cluster.pods(namespace), limits.ANSWER, "the pod to be gone")


def test_a_type_that_does_not_exist_is_named(bare_cluster: Cluster) -> None:
    with pytest.raises(LookupError, match="no InstanceType nowhere to play"):
        bare_cluster.play_launch_times("nowhere")
