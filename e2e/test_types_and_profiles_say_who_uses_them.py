"""Promise: a type and a profile say how many services may use them, and what is wrong with them."""

from __future__ import annotations

from typing import Any

from harness import limits
from harness.cluster import Cluster
from harness.sandbox import Sandbox
from harness.waiting import Unmet, wait_until


def ready(status: dict[str, Any]) -> tuple[str, str]:
    (condition,) = status["conditions"]
    return condition["status"], condition["reason"]


def test_users_are_counted_and_rivals_named(cluster: Cluster, namespace: str) -> None:
    with Sandbox.cleared(cluster, namespace) as sandbox:
        sandbox.nodes("gpu", count=1, gpus=1)
        kind = sandbox.instance_type("gpu")
        sandbox.profile("rm", kind)
        sandbox.service("rm", "rm", [kind])

        def said() -> Any:
            status = cluster.kube.get("instancetypes", kind).get("status") or {}
            return status.get("services") == 1 or Unmet(status)

        wait_until(said, limits.REACTION, "the type to count the service")
        assert ready(cluster.kube.get("instancetypes", kind)["status"]) == ("True", "Usable")
        (profile,) = cluster.kube.list("modelprofiles", namespace)
        name = profile["metadata"]["name"]

        rival = {key: profile[key] for key in ("apiVersion", "kind", "spec")}
        cluster.apply([rival | {"metadata": {"name": "rival", "namespace": namespace}}])

        def conflicts() -> Any:
            status = cluster.kube.get("modelprofiles", name, namespace).get("status") or {}
            return status.get("conflicts") == ["rival"] or Unmet(status)

        def refused() -> Any:
            status = cluster.kube.get("modelprofiles", "rival", namespace).get("status")
            return (status is not None and ready(status) == ("False", "ProfileConflict")) or Unmet(status)

        wait_until(conflicts, limits.REACTION, "the profile to name its rival")
        wait_until(refused, limits.REACTION, "the rival to be refused")
