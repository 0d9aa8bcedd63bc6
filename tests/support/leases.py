"""Leases as tests find them."""

from __future__ import annotations

from hetserve.api import names
from hetserve_shell.kube.connection import RawObject


def released_lease(namespace: str = names.SYSTEM_NAMESPACE, name: str = "lease") -> RawObject:
    """A Lease given up in order: the next process leads at once."""
    metadata = {"namespace": namespace, "name": name, "uid": "uid-lease"}
    spec = {
        "holderIdentity": "",
        "leaseDurationSeconds": 3,
        "leaseTransitions": 1,
        "renewTime": "2026-01-01T00:00:00.000000Z",
    }
    return {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": spec}
