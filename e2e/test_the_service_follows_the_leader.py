"""Promise: as pods, all extenders are ready, and the Service leads to the one that places, after a failover too."""

from __future__ import annotations

from harness import limits
from harness.cluster import Cluster
from harness.nodes import HETSEV
from harness.processes import end
from harness.replicas import SELECTOR, replicas, two_pods, wait_for_both, wait_for_endpoints
from harness.waiting import wait_until
from hetserve.api.names import LABEL_LEADER, SYSTEM_NAMESPACE


def test_the_service_leads_to_the_replica_that_places(own_cluster: Cluster) -> None:
    own_cluster.add_nodes(HETSEV)
    own_cluster.install_chart({"components": {"enabled": True}})
    with replicas(own_cluster, two_pods(own_cluster)) as both:
        wait_for_both(own_cluster, both)
        leader, other = sorted(both, key=lambda replica: replica.filter()["Error"] != "")

        assert other.filter()["Error"].startswith(f"not the leader (leader is {leader.pod}_")
        wait_for_endpoints(own_cluster, leader.pod)

        leader.record.freeze()  # nobody ended it, and it cannot know how long it slept
        wait_for_endpoints(own_cluster, other.pod)
        assert not other.filter()["Error"]
        leader.record.thaw()
        assert leader.filter()["Error"].startswith("not the leader"), "it must not answer before it has looked"
        wait_until(lambda: other.pod in leader.filter()["Error"], limits.ANSWER, "the old leader to know the new one")

        leader, other = other, leader
        end([leader.record], grace=0)  # its pod still looks as it did, label and all
        wait_for_endpoints(own_cluster, other.pod)
        assert not other.filter()["Error"]
        labels = {p["metadata"]["name"]: p["metadata"]["labels"] for p in own_cluster.pods(SYSTEM_NAMESPACE, SELECTOR)}
        assert LABEL_LEADER not in labels[leader.pod]
