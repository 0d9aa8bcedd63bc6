"""Promise: when the leading operator ends or hangs, the other goes on, and no budget is exceeded meanwhile."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

import pytest
from prometheus_client.parser import text_string_to_metric_families

from harness import limits
from harness.cluster import Cluster
from harness.kube import Kube
from harness.sandbox import Sandbox
from harness.waiting import Unmet, wait_until
from hetserve.api.names import FENCE_MANAGER, FIELD_MANAGER, LABEL_FENCE, LABEL_SERVICE

LEASE: Final = "hetserve-operator"
ALL_REVISIONS: Final = 60
"""Seconds for which a watch may show what has been."""
INSTANCES: Final = 4
"""What the budget holds, at a dollar each."""


class Pair:
    """Two operators, and one service that moves between two types, each of which takes the whole budget."""

    def __init__(self, cluster: Cluster, sandbox: Sandbox) -> None:
        self.cluster = cluster
        self.sandbox = sandbox
        self.types: list[str] = []
        for name in ("a", "b"):
            sandbox.nodes(name, count=2, gpus=2)
            self.types.append(sandbox.instance_type(name, overrides={"spec.price.hourly": "1"}))
            sandbox.profile("m", self.types[-1])
        overrides = {"spec.load": {"expectedQPS": 30}, "spec.budget": {"hourly": str(INSTANCES)}}
        sandbox.service("svc", "m", self.types[:1], overrides)
        self.settled()

    def leader(self) -> str:
        """The process that holds the Lease."""
        lease = self.cluster.get("leases", LEASE, "hetserve-system")
        return "operator-standby" if lease["spec"]["holderIdentity"].startswith("standby") else "operator"

    def settled(self) -> None:
        """Wait until all instances are of the first type."""

        def planned() -> bool | Unmet:
            status = self.cluster.get("inferenceservices", "svc", self.sandbox.namespace)["status"]
            summary = (status.get("plan") or {}).get("summary")
            return summary == f"{INSTANCES}x{self.types[0]}" or Unmet(summary)

        wait_until(planned, limits.ROLLOUT, "the new plan")
        self.sandbox.ready("svc")

    def begin_to_move(self) -> None:
        """Declare the other type, and wait until the change of plan is under way."""
        self.types.reverse()
        before = self.replicas()
        self.sandbox.edit("svc", {"spec": {"instanceTypes": {"names": self.types[:1]}}})
        wait_until(lambda: self.replicas() != before, limits.REACTION, "the first change of a Deployment")

    def replicas(self) -> dict[str, int]:
        found = self.sandbox.kube.list("deployments", self.sandbox.namespace)
        return {d["metadata"]["name"]: d["spec"]["replicas"] for d in found}

    def fail_over(self, title: str, end: Callable[[str], None]) -> bool:
        """End the leader in the midst of a change of plan, and wait until the other one has made it.

        Returns whether nobody held the Lease in between.
        """
        old = self.leader()
        other = "operator" if old == "operator-standby" else "operator-standby"
        self.cluster.start_component(other)
        self.begin_to_move()
        revision = self.cluster.get("leases", LEASE, "hetserve-system")["metadata"]["resourceVersion"]
        before, start = writes(self.cluster, other), time.monotonic()
        end(old)

        def written() -> bool | Unmet:
            return writes(self.cluster, other) > before or Unmet("no write yet")

        wait_until(written, limits.ROLLOUT, f"a write of {other}")
        print(f"{title}: the next write came {time.monotonic() - start:.2f} s after the end of {old}")
        self.settled()
        assert self.leader() == other
        return "" in self.holders(revision)

    def holders(self, revision: str) -> list[str]:
        """Who has held the Lease since a revision."""
        now = self.cluster.get("leases", LEASE, "hetserve-system")["metadata"]["resourceVersion"]
        found = []
        for event, lease in self.sandbox.kube.watch("leases", "hetserve-system", revision, ALL_REVISIONS):
            assert event in ("ADDED", "MODIFIED"), lease
            if lease["metadata"]["name"] == LEASE:
                found.append(str(lease["spec"].get("holderIdentity") or ""))
                if lease["metadata"]["resourceVersion"] == now:
                    return found
        raise AssertionError(f"the watch ended before revision {now}")


def fenced_once(pair: Pair) -> None:
    """A new leader has fenced the Deployment of the one before it, once, and no apply takes the label away."""
    stamps = [stamp_at(pair, instances, load) for instances, load in ((2, 14), (INSTANCES, 30))]
    assert stamps[0] == stamps[1]


def stamp_at(pair: Pair, instances: int, load: int) -> str:
    """The fence label once the service has come to rest with so many instances for a load [queries/s]."""
    pair.sandbox.edit("svc", {"spec": {"load": {"expectedQPS": load}}})
    wait_until(lambda: list(pair.replicas().values()) == [instances], limits.ROLLOUT, f"{instances} instances")
    pair.sandbox.ready("svc")
    (found,) = pair.sandbox.kube.list("deployments", pair.sandbox.namespace)
    managers = {(entry["manager"], entry["operation"]) for entry in found["metadata"]["managedFields"]}
    assert {(FIELD_MANAGER, "Apply"), (FENCE_MANAGER, "Update")} <= managers
    assert (FIELD_MANAGER, "Update") not in managers
    return str(found["metadata"]["labels"][LABEL_FENCE])


def writes(cluster: Cluster, process: str) -> float:
    """Requests that a process has sent to the API server."""
    ports = cluster.ports
    port = ports.operator_standby_probe if process.endswith("standby") else ports.operator_probe
    families = text_string_to_metric_families(cluster.probe(port, "/metrics").text)
    return sum(
        sample.value
        for family in families
        for sample in family.samples
        if sample.name == "hetserve_operator_writes_total"
    )


@contextmanager
def budget_watched(cluster: Cluster, namespace: str) -> Iterator[None]:
    """Fails if the service ever has more instances than its budget holds, terminating ones included."""
    over: list[str] = []
    looks = 0
    stop = threading.Event()

    def watch() -> None:
        nonlocal looks
        kube = Kube(cluster.folder.kubeconfig)
        while not stop.is_set():
            pods = kube.list("pods", namespace, labels=f"{LABEL_SERVICE}=svc")
            looks += 1
            if len(pods) > INSTANCES:
                over.append(", ".join(sorted(pod["metadata"]["name"] for pod in pods)))
            stop.wait(0.02)
        kube.close()

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
    assert not over, f"{len(over)} of {looks} looks find more than the budget holds: {over[0]}"
    print(f"{looks} looks at the pods, none over the budget")


@pytest.fixture
def pair(own_cluster: Cluster, namespace: str) -> Iterator[Pair]:
    """Two operators, whose budget is watched."""
    own_cluster.install_hetserve()
    own_cluster.start_component("operator-standby")
    with budget_watched(own_cluster, namespace):
        yield Pair(own_cluster, Sandbox(own_cluster, namespace))


@pytest.mark.timeout(limits.LONG_TEST)
def test_the_other_operator_goes_on_where_the_leader_was_killed(own_cluster: Cluster, pair: Pair) -> None:
    for port in (own_cluster.ports.operator_probe, own_cluster.ports.operator_standby_probe):
        assert own_cluster.probe(port, "/readyz").status_code == 200, "both are ready, one leads"
    assert writes(own_cluster, "operator-standby") * writes(own_cluster, "operator") == 0, "a standby writes nothing"

    emptied = pair.fail_over("killed", own_cluster.kill_component)

    assert not emptied, "one that is killed gives nothing up"
    fenced_once(pair)


@pytest.mark.deep
@pytest.mark.timeout(limits.LONG_TEST)
def test_the_other_operator_goes_on_where_the_leader_was_stopped_or_hangs(own_cluster: Cluster, pair: Pair) -> None:
    given_up = pair.fail_over("stopped", own_cluster.stop_component)
    assert given_up, "a leader that ends in order gives its Lease up, and nobody waits for it to lapse"

    pair.fail_over("paused", own_cluster.freeze_component)
    asleep = next(name for name in ("operator", "operator-standby") if name != pair.leader())
    before = writes(own_cluster, pair.leader())
    own_cluster.thaw_component(asleep)
    pair.begin_to_move()
    pair.settled()
    assert writes(own_cluster, pair.leader()) > before, "the one that was paused does not lead"
