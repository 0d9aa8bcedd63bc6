"""Promise: a service with spec.dispatch has an address that leads to its router, whatever anybody does to it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Final

import pytest

from harness import limits
from harness.cluster import Cluster
from harness.kube import Manifest
from harness.sandbox import Sandbox
from harness.waiting import Unmet, wait_until
from hetserve.api.names import LABEL_SERVICE, SYSTEM_NAMESPACE

ROUTER: Final = "hetserve-router-default"
HOST: Final = f"{ROUTER}.{SYSTEM_NAMESPACE}.svc.cluster.local"
DISPATCH: Final[dict[str, Any]] = {"spec.dispatch": {"ports": {"http": 8000}}}


class Scene:
    """A service with dispatch, and the Lease of its router, which no process holds."""

    def __init__(self, cluster: Cluster, sandbox: Sandbox) -> None:
        self.cluster = cluster
        self.sandbox = sandbox
        sandbox.nodes("gpu", count=1, gpus=2)
        self.kind = sandbox.instance_type("gpu")
        sandbox.profile("m", self.kind)

    def service(self, name: str = "svc") -> None:
        self.sandbox.service(name, "m", [self.kind], DISPATCH)

    def lead(self) -> None:
        """Renews the router's Lease, as a process that leads does."""
        stamp = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        spec = {"holderIdentity": "router", "leaseDurationSeconds": 3, "renewTime": stamp}
        kind = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease"}
        self.cluster.apply({**kind, "metadata": {"name": ROUTER, "namespace": SYSTEM_NAMESPACE}, "spec": spec})

    def address(self, name: str = "svc") -> Manifest | None:
        return self.cluster.kube.find("services", name, self.sandbox.namespace)

    def edit(self, patch: Manifest) -> None:
        self.cluster.kube.patch("services", "svc", patch, self.sandbox.namespace)

    def is_as_made(self, made: Manifest) -> bool | Unmet:
        found = self.address()
        if found is None:
            return Unmet("there is none")
        meta = found["metadata"]
        now = {"uid": meta["uid"], "labels": meta.get("labels"), "spec": found["spec"]}
        return now == {"uid": made["metadata"]["uid"], "labels": made["metadata"]["labels"], "spec": made["spec"]} or (
            Unmet(now)
        )

    def said(self, reason: str, name: str = "svc") -> Manifest:
        """Waits until Serving has a reason, while somebody leads; returns the status."""
        namespace = self.sandbox.namespace

        def told() -> Manifest | Unmet:
            if reason != "RouterNotReady":
                self.lead()
            status: Manifest = self.cluster.get("hisvc", name, namespace)["status"]
            found = [one["reason"] for one in status.get("conditions", ()) if one["type"] == "Serving"]
            return status if found == [reason] else Unmet(found)

        return wait_until(told, limits.ROLLOUT, f"Serving to say {reason}")


@pytest.fixture
def scene(cluster: Cluster, namespace: str) -> Any:
    with Sandbox.cleared(cluster, namespace) as sandbox:
        yield Scene(cluster, sandbox)
        cluster.kube.delete("leases", ROUTER, SYSTEM_NAMESPACE)


def test_it_is_ready_by_an_address_that_leads_to_the_router_that_leads(scene: Scene) -> None:
    scene.service()
    status = scene.said("QueriesServed")
    assert status["dispatch"] == {
        "address": f"http://svc.{scene.sandbox.namespace}",
        "router": ROUTER,
        "policy": "hetserve",
    }
    address = scene.address()
    assert address is not None
    assert (address["spec"]["type"], address["spec"]["externalName"]) == ("ExternalName", HOST)
    assert [(port["port"], port.get("appProtocol")) for port in address["spec"]["ports"]] == [
        (80, None),
        (8001, "kubernetes.io/h2c"),
    ]
    scene.sandbox.ready("svc")

    scene.said("RouterNotReady")
    status = scene.cluster.get("hisvc", "svc", scene.sandbox.namespace)["status"]
    assert status["reason"] == "RouterNotReady"


EDITS: Final[dict[str, Manifest]] = {
    "where it leads": {"spec": {"externalName": "example.com"}},
    "its type": {"spec": {"type": "ClusterIP", "externalName": None, "selector": {"app": "theirs"}}},
    "its ports": {"spec": {"ports": [{"name": "http", "port": 81}]}},
    "its label": {"metadata": {"labels": {LABEL_SERVICE: None}}},
    "its addresses": {"spec": {"externalIPs": ["192.0.2.1"]}},
}


def test_an_address_that_somebody_edits_is_corrected_and_a_deleted_one_is_made_anew(scene: Scene) -> None:
    scene.service()
    scene.said("QueriesServed")
    made = scene.address()
    assert made is not None
    for what, patch in EDITS.items():
        scene.edit(patch)
        wait_until(lambda: scene.is_as_made(made), limits.REACTION, f"{what} to be corrected")
    scene.cluster.kube.delete("services", "svc", scene.sandbox.namespace)
    wait_until(lambda: scene.address() is not None, limits.REACTION, "the address to be made anew")
    scene.sandbox.edit("svc", {"spec": {"dispatch": None}})
    wait_until(lambda: scene.address() is None, limits.REACTION, "the address to go with dispatch")


def test_a_service_of_that_name_that_is_not_ours_is_never_touched(scene: Scene) -> None:
    namespace, metadata = scene.sandbox.namespace, {"name": "svc", "namespace": scene.sandbox.namespace}
    spec = {"selector": {"app": "theirs"}, "ports": [{"port": 80}]}
    (theirs,) = scene.cluster.apply({"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec})
    scene.service()
    status = scene.said("NameTaken")
    assert status["reason"] == "NameTaken"
    assert "dispatch" not in status
    assert scene.address() == scene.cluster.kube.get("services", "svc", namespace) == theirs
    scene.cluster.kube.delete("services", "svc", namespace)
    scene.sandbox.edit("svc", {"metadata": {"labels": {"looked": "at"}}})
    scene.said("QueriesServed")
