"""Promise: where the leading router ends, hangs or loses the API server, queries go on, and none is lost in vain."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from harness import limits
from harness.cluster import Cluster
from harness.routers import BOTH, RoutedClients, asking
from harness.sandbox import Sandbox
from harness.serving import Serving, dispatched, serving
from harness.waiting import Unmet, wait_until

GOAL = 5.0
"""Seconds from the end of the leader to the next answer, as `make bench-router` measures it."""


def begin(cluster: Cluster, sandbox: Sandbox) -> None:
    sandbox.nodes("gpu", count=2, gpus=1)
    kind = sandbox.instance_type("gpu")
    sandbox.profile("m", kind)
    sandbox.service("svc", "m", [kind], {**dispatched(), "spec.load": {"expectedQPS": 14}})
    sandbox.ready("svc")


@pytest.fixture
def clients(cluster: Cluster, namespace: str) -> Iterator[RoutedClients]:
    with serving(cluster), Sandbox.cleared(cluster, namespace) as sandbox:
        begin(cluster, sandbox)
        with asking(cluster, namespace, "svc", "m") as found:
            found.more(20)
            yield found


def other(router: str) -> str:
    return BOTH[router == BOTH[0]]


def test_the_other_router_serves_where_the_leader_was_killed_or_ended(cluster: Cluster, clients: RoutedClients) -> None:
    old, before = clients.way, len(clients.ended)
    killed = time.monotonic()
    cluster.kill_component(old)
    clients.more(20, other(old))
    after = [one for one in clients.ended[before:] if one.outcome == "200" and one.router != old]
    print(f"serving again {after[0].at - killed:.2f} s after the leader was killed; goal: {GOAL} s")
    assert not [one for one in clients.since(after[0].at + 1.0) if one.outcome != "200"]

    cluster.start_component(old)
    begun = time.monotonic()
    cluster.stop_component(other(old))
    clients.more(20, old)
    assert {one.outcome for one in clients.since(begun)} == {"200"}
    cluster.start_component(other(old))


@pytest.mark.deep
def test_a_router_that_stood_still_reads_its_lease_before_it_serves(cluster: Cluster, clients: RoutedClients) -> None:
    old = clients.way
    cluster.freeze_component(old)
    frozen = time.monotonic()
    wait_until(lambda: clients.way == other(old) or Unmet(clients.way), limits.REACTION, "the other to lead")
    cluster.thaw_component(old)
    clients.more(20, other(old))
    assert {one.outcome for one in clients.since(frozen)} <= {"200", "503"}, "what hung is answered or refused"
    assert not [one for one in clients.since(time.monotonic() - 0.1) if one.router == old]


@pytest.mark.deep
@pytest.mark.parametrize("seconds", [12, 600])
@pytest.mark.timeout(limits.LONGEST_TEST + 600)
def test_no_query_fails_while_the_api_server_is_stopped(own_cluster: Cluster, namespace: str, seconds: int) -> None:
    own_cluster.install_hetserve()
    Serving(own_cluster).start()
    begin(own_cluster, Sandbox(own_cluster, namespace))
    with asking(own_cluster, namespace, "svc", "m") as clients:
        clients.more(20)
        own_cluster.kill_component("apiserver")
        until = time.monotonic() + seconds
        wait_until(lambda: time.monotonic() > until or Unmet("time"), seconds + limits.ANSWER, "the outage to end")
        clients.more(20)
        own_cluster.start_control_plane()
        clients.more(200)
    assert set(clients.outcomes()) == {"200"}, clients.outcomes()
    print(f"{len(clients.ended)} queries were answered")
