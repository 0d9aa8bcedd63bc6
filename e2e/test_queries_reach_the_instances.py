"""Promise: who applies a service with spec.dispatch can ask it, and an instance answers."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from harness import limits
from harness.cluster import Cluster
from harness.sandbox import Sandbox
from harness.serving import Serving, condition, dispatched, serving
from harness.waiting import Unmet, wait_until


@pytest.fixture
def wire(cluster: Cluster) -> Iterator[Serving]:
    with serving(cluster) as made:
        yield made


def test_a_query_is_answered_by_an_instance_of_its_service(cluster: Cluster, wire: Serving, namespace: str) -> None:
    with Sandbox.cleared(cluster, namespace) as sandbox:
        sandbox.nodes("gpu", count=2, gpus=1)
        kind = sandbox.instance_type("gpu")
        sandbox.profile("m", kind)
        sandbox.service("svc", "m", [kind], dispatched())
        answer = wire.served(namespace, "svc", "m")
        assert answer.json()["outputs"][0]["data"] == [0]
        assert answer.headers["hetserve-instance"] in wire.workers(namespace, "svc")

        def serves() -> bool | Unmet:
            found = cluster.get("hisvc", "svc", namespace)
            said = condition(found, "Serving")
            return said == "True QueriesServed" or Unmet(said)

        wait_until(serves, limits.ROLLOUT, "the service to say that it is served")
        sandbox.ready("svc")

        other = wire.ask("elsewhere", "svc", "m")
        assert other.status_code == 404
        assert "elsewhere/svc" in other.json()["error"]
