"""A kubeconfig with `proxy-url` and `tls-server-name` leads short requests and watches to the real API server."""

from __future__ import annotations

from contextlib import aclosing
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import yaml

from connect_proxy import connect_proxy
from harness.cluster import Cluster
from harness.pins import KUBERNETES, version_of
from harness.tools import chosen
from hetserve_shell.kube.client import KubernetesApi
from hetserve_shell.kube.connection import ApiConnection, ApiUnreachableError


def kubeconfig(cluster: Cluster, path: Path, **fields: str) -> tuple[Path, str, int]:
    """A copy that names a host which nobody resolves; host and port of the real one."""
    content = yaml.safe_load(cluster.folder.kubeconfig.read_text())
    found = content["clusters"][0]["cluster"]
    real = urlsplit(found["server"])
    found |= {"server": "https://api.invalid:6443", **fields}
    path.write_text(yaml.safe_dump(content))
    assert real.hostname is not None
    assert real.port is not None
    return path, real.hostname, real.port


async def test_requests_and_watches_go_through_the_proxy_to_the_name_in_the_certificate(
    bare_cluster: Cluster, tmp_path: Path
) -> None:
    path, host, port = kubeconfig(bare_cluster, tmp_path / "config")
    async with connect_proxy(host, port) as proxy:
        kubeconfig(bare_cluster, path, **{"proxy-url": proxy.url, "tls-server-name": "kubernetes"})
        connection = await ApiConnection.connect(path, user_agent="hetserve-test")
        api = KubernetesApi(connection)
        answer = await api.request("GET", "/version")
        assert answer.json()["gitVersion"] == version_of(chosen(KUBERNETES))
        revision = (await api.request("GET", "/api/v1/nodes", query={"limit": "1"})).json()["metadata"]
        query = {"watch": "1", "timeoutSeconds": "1", "resourceVersion": revision["resourceVersion"]}
        async with aclosing(api.watch("/api/v1/nodes", query)) as lines:
            _ = [line async for line in lines]
        assert len(proxy.heads) == 2, "one tunnel of the short requests, one of the watch"
        api.close()
        await connection.close()


async def test_a_name_that_is_not_in_the_certificate_is_refused(bare_cluster: Cluster, tmp_path: Path) -> None:
    path, host, port = kubeconfig(bare_cluster, tmp_path / "config")
    async with connect_proxy(host, port) as proxy:
        kubeconfig(bare_cluster, path, **{"proxy-url": proxy.url})
        connection = await ApiConnection.connect(path, user_agent="hetserve-test")
        api = KubernetesApi(connection)
        with pytest.raises(ApiUnreachableError, match="certificate"):
            await api.request("GET", "/version")
        await connection.close()
