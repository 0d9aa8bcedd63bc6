"""Promise: differences between ledger and cluster are counted and named, with only the extender's own rights."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping

from harness.cluster import Cluster
from harness.sandbox import Sandbox
from hetserve.base.units import Seconds
from hetserve.placement.event_handlers import NodeEventHandler, PodEventHandler
from hetserve.placement.ledger.compare import Kind, LedgerDifference
from hetserve.placement.placer import Placer
from hetserve_extender.observe.drift import DriftCheck
from hetserve_shell.kube.client import KubernetesApi
from hetserve_shell.kube.connection import ApiConnection

PODS = 8


async def no_time(_seconds: float) -> None:
    """Two readings at once: nothing moves here."""


def compared(cluster: Cluster, placer: Placer) -> tuple[tuple[LedgerDifference, ...], dict[Kind, int]]:
    """(differences, values of the metric), read page by page with the extender's rights."""
    told: dict[Kind, int] = {}

    def tell(found: Mapping[Kind, int]) -> None:
        told.update(found)

    async def check() -> tuple[LedgerDifference, ...]:
        account = cluster.folder.account("hetserve-scheduler")
        connection = await ApiConnection.connect(account, user_agent="drift-test", connections=4)
        api = KubernetesApi(connection)
        try:
            return await DriftCheck(api, placer, tell, no_time, page=3).check()
        finally:
            api.close()
            await connection.close()

    return asyncio.run(check()), told


def test_a_true_ledger_has_no_drift_and_a_false_one_reports_every_difference(cluster: Cluster, namespace: str) -> None:
    with Sandbox.cleared(cluster, namespace) as sandbox:
        sandbox.nodes("compared", count=2, gpus=2)
        sandbox.deployment("compared", "compared", replicas=PODS, mib=2048, model=None)
        pods = sandbox.wait_for_bound(PODS)

        knowing = Placer(clock=lambda: Seconds(0.0), hold=Seconds(30.0))
        NodeEventHandler(knowing).replace(cluster.kube.list("nodes"))
        PodEventHandler(knowing).replace(cluster.kube.list("pods"))
        assert compared(cluster, knowing) == ((), dict.fromkeys(Kind, 0))

        for pod in pods[:2]:
            knowing.forget(pod["metadata"]["uid"])
        found, told = compared(cluster, knowing)
        assert told == dict.fromkeys(Kind, 0) | Counter(one.kind for one in found)
        assert told[Kind.NOT_BOOKED] == 2
        named = {one.subject for one in found if one.kind is Kind.NOT_BOOKED}
        assert named == {pod["metadata"]["uid"] for pod in pods[:2]}
