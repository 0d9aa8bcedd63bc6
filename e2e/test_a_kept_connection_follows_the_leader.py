"""Promise: a scheduler that keeps its connections finds the next leader, even if the previous one lives on.

A Service moves no open connection, and the scheduler keeps its own while pods wait: the previous leader must close
them.
"""

from __future__ import annotations

import time

import pytest

from harness import limits
from harness.cluster import Cluster
from harness.replicas import Replica, endpoints, replicas, two_pods, wait_for_both, wait_for_endpoints
from harness.sandbox import Sandbox
from harness.service import Endpoint, Service, service
from harness.waiting import Unmet, wait_until


class Scene:
    """One scheduler, two extenders, and a Service between them."""

    def __init__(self, sandbox: Sandbox, service: Service, both: list[Replica]) -> None:
        self.sandbox, self.service, self.both = sandbox, service, both

    def leader_and_other(self) -> tuple[Replica, Replica]:
        leader, other = sorted(self.both, key=lambda replica: replica.filter()["Error"] != "")
        wait_for_endpoints(self.sandbox.cluster, leader.pod)
        return leader, other

    def place(self, name: str) -> None:
        """Waits until a new pod is bound."""
        start = time.monotonic()
        self.sandbox.deployment(name, "few", replicas=1, mib=1024, model=None)
        self.sandbox.wait_for_bound(1, f"app={name}")
        print(f"{name}: bound after {time.monotonic() - start:.2f} s; connections so far: {self.service.made}")

    def depose(self) -> tuple[Replica, Replica]:
        """Pauses the leader until its Lease is over and the other serves, and resumes it; (previous leader, leader)."""
        before, other = self.leader_and_other()
        before.record.freeze()
        try:
            wait_for_endpoints(self.sandbox.cluster, other.pod)
            wait_until(lambda: not other.filter()["Error"], limits.REACTION, "the other to serve")
        finally:
            before.record.thaw()
        return before, other

    def wait_until_left(self, replica: Replica) -> None:
        def left() -> bool | Unmet:
            count = self.service.open_to(replica.pod)
            return count == 0 or Unmet(f"{count} connections to {replica.pod}")

        wait_until(left, limits.REACTION, "the leader of before to end the connections it was kept")


@pytest.mark.deep
@pytest.mark.timeout(limits.LONG_TEST)
def test_the_next_pod_is_bound_by_the_new_leader_over_a_new_connection(own_cluster: Cluster, namespace: str) -> None:
    both: list[Replica] = []
    late: list[Replica] = []

    def endpoint() -> Endpoint | None:
        found = [late.pop().pod] if late else endpoints(own_cluster)
        return next((Endpoint(one.pod, one.port) for one in both if one.pod in found), None)

    with service(endpoint) as between:
        own_cluster.install_chart({"components": {"enabled": True}, "scheduler": {"extenderUrl": between.url}})
        sandbox = Sandbox(own_cluster, namespace)
        sandbox.nodes("few", count=4, gpus=2)
        with replicas(own_cluster, two_pods(own_cluster)) as started:
            both += started
            wait_for_both(own_cluster, both)
            scene = Scene(sandbox, between, both)
            leader, _ = scene.leader_and_other()
            own_cluster.start_component("scheduler")
            scene.place("first")
            assert between.open_to(leader.pod) > 0, "the scheduler keeps no connection: the scenario shows nothing"

            before, leader = scene.depose()
            scene.wait_until_left(before)
            scene.place("after-a-pause")
            assert between.made[-1] == leader.pod

            before, leader = scene.depose()
            scene.place("as-soon-as-the-leader-of-before-goes-on")
            scene.wait_until_left(before)
            assert between.made[-1] == leader.pod

            before, leader = scene.depose()
            scene.wait_until_left(before)
            late.append(before)  # the label's effect comes a moment later
            scene.place("led-to-the-leader-of-before")
            assert between.made[-2:] == [before.pod, leader.pod]
