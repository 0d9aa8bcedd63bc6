"""A list of one object says how many there are: exactly, and with everything that was written before."""

from __future__ import annotations

import pytest

from harness.cluster import Cluster
from hetserve_shell.kube.client import ApiServer, KubernetesApi
from hetserve_shell.kube.connection import ApiConnection
from hetserve_shell.kube.pages import Pages, glance

ALL = "/api/v1/configmaps"
HERE = "/api/v1/namespaces/default/configmaps"


async def write(api: ApiServer, number: int) -> None:
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": f"counted-{number}"}}
    (await api.request("POST", HERE, body=body)).content()


async def test_the_count_is_exact_right_after_each_write(bare_cluster: Cluster) -> None:
    connection = await ApiConnection.connect(bare_cluster.folder.kubeconfig, user_agent="hetserve-test")
    api = KubernetesApi(connection)
    try:
        before = (await glance(api, ALL)).objects
        assert before == len(await Pages(api, ALL).all())
        assert before is not None
        for number in range(30):
            await write(api, number)
            assert (await glance(api, ALL)).objects == before + number + 1
        for number in range(30):
            (await api.request("DELETE", f"{HERE}/counted-{number}")).content()
            assert (await glance(api, ALL)).objects == before + 29 - number
    finally:
        api.close()
        await connection.close()


@pytest.mark.parametrize("path", ["/api/v1/nodes", "/api/v1/pods", "/apis/apps/v1/replicasets"])
async def test_an_empty_or_short_collection_is_counted_too(bare_cluster: Cluster, path: str) -> None:
    connection = await ApiConnection.connect(bare_cluster.folder.kubeconfig, user_agent="hetserve-test")
    api = KubernetesApi(connection)
    try:
        assert (await glance(api, path)).objects == len(await Pages(api, path).all())
    finally:
        api.close()
        await connection.close()
