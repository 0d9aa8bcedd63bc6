"""Fences a service's Deployments before the first change of a term.

Every change names the resourceVersion of its Deployment. A fence moves it, so the API server refuses for ever what an
earlier leader, or a request of ours without an answer, may still have under way.
"""

from __future__ import annotations

from dataclasses import replace

from hetserve.reconcile.deployments.diff import NextWrite
from hetserve.reconcile.deployments.ownership import belongs, is_deleting, is_predecessors
from hetserve.reconcile.snapshot import Change, RawObject, ServiceSnapshot, WriteFence


def fence_first(snapshot: ServiceSnapshot, work: NextWrite, service_uid: str) -> NextWrite:
    """The work, or the fences that must be up before its request.

    A Deployment that cannot be fenced holds back every change of the service: a late request would change it unseen.
    """
    if not isinstance(work.request, Change):
        return work
    missing = missing_fences(snapshot, service_uid)
    if not missing:
        return work
    refused = tuple(snapshot.refused[fence.key].message for fence in missing if fence.key in snapshot.refused)
    request = next((fence for fence in missing if fence.key not in snapshot.refused), None)
    return replace(work, request=request, refusals=(*work.refusals, *refused))


def missing_fences(snapshot: ServiceSnapshot, service_uid: str) -> list[WriteFence]:
    """Fences of all Deployments that an earlier leader may have changed for this service, or one of its name."""
    if snapshot.fence is None or snapshot.service is None:
        return []
    service, stamp = str(snapshot.service["metadata"]["name"]), snapshot.fence.stamp
    return [
        _fence(found, stamp)
        for found in snapshot.deployments
        if found["metadata"]["uid"] not in snapshot.fence.cleared
        and not is_deleting(found)
        and (belongs(found, service, service_uid) or is_predecessors(found, service, service_uid))
    ]


def _fence(found: RawObject, stamp: str) -> WriteFence:
    meta = found["metadata"]
    why = f"no request from before may change {meta['name']}"
    return WriteFence(str(meta["namespace"]), str(meta["name"]), str(meta["uid"]), stamp, why)
