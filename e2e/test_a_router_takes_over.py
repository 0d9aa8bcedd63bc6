"""Promise: where the leading router ends, hangs or loses the API server, queries go on, and none is lost in vain."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from harness import limits
from harness.beside import ROUTER_ENTRY
from harness.cluster import Cluster
from harness.follower import SCALING, WINDOW
from harness.kube import Manifest
from harness.prometheus import Prometheus
from harness.routers import BOTH, RoutedClients, asking
from harness.sandbox import Sandbox
from harness.serving import Serving, dispatched, serving
from harness.waiting import Unmet, wait_until
from hetserve.api.names import SYSTEM_NAMESPACE

LOAD = 20
"""Queries/s, of which an instance carries ten."""
GOAL = 5.0
"""Seconds from the end of the leader to the next answer, as `make bench-router` measures it."""


def begin(sandbox: Sandbox, nodes: int = 2, **more: Any) -> None:
    sandbox.nodes("gpu", count=nodes, gpus=1)
    kind = sandbox.instance_type("gpu")
    sandbox.profile("m", kind)
    sandbox.service("svc", "m", [kind], {**dispatched(), "spec.load": {"expectedQPS": 14}, **more})
    sandbox.ready("svc")


@pytest.fixture
def clients(cluster: Cluster, namespace: str) -> Iterator[RoutedClients]:
    with serving(cluster), Sandbox.cleared(cluster, namespace) as sandbox:
        begin(sandbox)
        with asking(cluster, namespace, "svc", "m") as found:
            found.more(20)
            yield found


def decisions(cluster: Cluster, namespace: str) -> list[Manifest]:
    status: Manifest = cluster.get("hisvc", "svc", namespace)["status"]
    return list(status.get("lastDecisions", ()))


def held(cluster: Cluster) -> float:
    """Holds the Lease as a process that serves nothing; returns the time [s]."""
    stamp = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    spec = {"holderIdentity": "nobody", "renewTime": stamp}
    cluster.kube.patch("leases", ROUTER_ENTRY, {"spec": spec}, SYSTEM_NAMESPACE)
    return time.monotonic()


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
def test_nothing_shrinks_while_the_leader_is_killed(cluster: Cluster, prometheus: Prometheus, namespace: str) -> None:
    """Nobody counts while nobody leads, for longer than the window here; and the counts of the next one begin at 0."""
    metrics = {"source": "Hetserve", "window": f"{WINDOW}s", "staleAfter": f"{WINDOW}s"}
    following = {"spec.metrics": metrics, "spec.scaling": SCALING, "spec.load": {"expectedQPS": LOAD}}
    with serving(cluster), Sandbox.cleared(cluster, namespace) as sandbox:
        begin(sandbox, nodes=8, **following)
        with asking(cluster, namespace, "svc", "m", pause=4 / LOAD) as clients:
            prometheus.wait_until_scraped(*BOTH)
            clients.more(3 * WINDOW * LOAD)
            cluster.wait_for_condition("hisvc", "svc", namespace, "MetricsAvailable")
            old, before = clients.way, decisions(cluster, namespace)
            cluster.kill_component(old)
            until = time.monotonic() + 4 * WINDOW
            wait_until(lambda: held(cluster) > until or Unmet("time"), limits.REACTION, "a time without a leader")
            clients.more(3 * WINDOW * LOAD, other(old))
            cluster.wait_for_condition("hisvc", "svc", namespace, "MetricsAvailable")
            since = [one for one in decisions(cluster, namespace) if one not in before]
            assert not [one for one in since if float(one["load"]) < LOAD / 2], "less than its clients ask"
            cluster.start_component(old)


@pytest.mark.deep
@pytest.mark.parametrize("seconds", [12, 600])
@pytest.mark.timeout(limits.LONGEST_TEST + 600)
def test_no_query_fails_while_the_api_server_is_stopped(own_cluster: Cluster, namespace: str, seconds: int) -> None:
    own_cluster.install_hetserve()
    Serving(own_cluster).start()
    begin(Sandbox(own_cluster, namespace))
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
