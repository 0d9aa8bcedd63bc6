"""Promise: what an operator has sent before it hung lands no more once another one leads, and scaling goes on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from harness import limits
from harness.cluster import Cluster
from harness.follower import BUSY, PER_INSTANCE, Follower
from harness.invariant_monitor import watching
from harness.passage import Passage, Request, passage
from harness.prometheus import Prometheus
from harness.sandbox import Sandbox
from harness.twin import Twin
from harness.waiting import Unmet, wait_until
from hetserve.api.names import SYSTEM_NAMESPACE

OPERATOR, STANDBY = "hetserve-operator", "operator-standby"
TWICE = 2 * PER_INSTANCE
"""Queries/s that an instance of the dear type carries."""


@pytest.fixture
def way(cluster: Cluster) -> Iterator[Passage]:
    """The way of the operator that leads, beside a standby; afterwards one operator runs as before."""
    with passage(cluster.folder.account(OPERATOR)) as found:
        cluster.stop_component(OPERATOR)
        with found.leads():
            cluster.start_component(OPERATOR)
        wait_until(lambda: leader(cluster) == OPERATOR, limits.REACTION, "the operator on the passage to lead")
        cluster.start_component(STANDBY)
        try:
            yield found
        finally:
            cluster.kill_component(OPERATOR)
            cluster.start_component(OPERATOR)
            cluster.stop_component(STANDBY)
            # Whoever comes next has this operator: one that cannot reach the API server would fail all of them.
            wait_until(
                lambda: leader(cluster) == OPERATOR, limits.REACTION, "the operator that was started again to lead"
            )


def leader(cluster: Cluster) -> str:
    """The process that holds the Lease."""
    holder = str(cluster.get("leases", OPERATOR, SYSTEM_NAMESPACE)["spec"].get("holderIdentity"))
    return STANDBY if holder.startswith("standby") else OPERATOR


def more_than(count: int, request: Request) -> bool:
    """Whether it asks a Deployment for more instances."""
    if not (request.writes and "/deployments/" in request.target and isinstance(request.body, dict)):
        return False
    return bool(request.body["spec"].get("replicas", 0) > count)


def wrote(requests: list[Request]) -> list[Request]:
    """Writes that were granted, but for Events, which decide nothing."""
    return [one for one in requests if one.writes and one.status < 400 and "/events" not in one.target]


@pytest.mark.deep
@pytest.mark.timeout(limits.LONG_TEST)
def test_no_late_write_lands_and_the_next_leader_follows_the_load(
    cluster: Cluster, prometheus: Prometheus, twin: Twin, namespace: str, way: Passage, tmp_path: Path
) -> None:
    with Sandbox.cleared(cluster, namespace) as sandbox:
        follower = Follower(sandbox, prometheus, twin)
        cheap = follower.type("cheap", nodes=12, price="0.5")
        dear = follower.type("dear", nodes=6, seconds=1 / TWICE, price="1.2")
        follower.begin(cheap)
        sandbox.ready("svc")
        with watching(cluster.folder.kubeconfig, namespace, cluster.kube.list("nodes")) as monitor:
            few = follower.instances()
            way.keep(lambda request: more_than(few, request))
            follower.play([(0, BUSY)])
            late = wait_until(lambda: way.kept, limits.ROLLOUT, "more instances to be asked for")
            cluster.freeze_component(OPERATOR)
            asked = len(way.requests)
            before, mark = follower.counts(), follower.mark()

            # The next leader leaves the type for another: it changes that Deployment first, and only fences this one.
            sandbox.edit("svc", {"spec": {"instanceTypes": {"names": [dear]}}})
            wait_until(lambda: leader(cluster) == STANDBY, limits.REACTION, "the standby to lead")
            wait_until(lambda: dear in follower.counts(), limits.REACTION, "the next leader to scale")
            assert follower.counts()[cheap] == before[cheap]
            way.let_go()
            wait_until(lambda: late.status, limits.REACTION, "the answer to the late write")
            assert late.status == 409
            cluster.thaw_component(OPERATOR)

            wait_until(
                lambda: follower.counts().keys() == {dear} or Unmet(follower.counts()),
                limits.ROLLOUT,
                "the move to end",
            )
            follower.serves(lambda count: count * TWICE >= BUSY, "what the load needs of the other type")
            wait_until(lambda: len(way.requests) > asked, limits.REACTION, "the operator that hung to go on")
        print(f"{before}, then {follower.since(mark)}; {monitor.judged} revisions of pods judged")
        assert monitor.wrong == []
        assert max(seen.get(cheap, 0) for seen in follower.since(mark)) == before[cheap]
        assert leader(cluster) == STANDBY
        assert wrote(way.requests[asked:]) == []
        follower.replayed(tmp_path)
