"""Creates and deletes thousands of objects over many connections, and waits for what becomes of them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import aclosing, asynccontextmanager
from typing import Final, TypeVar

import orjson
from benchmarks.operator.fleet import Json

from harness.cluster import Cluster
from harness.waiting import WaitTimeoutError
from hetserve_shell.kube.client import MERGE_PATCH, KubernetesApi
from hetserve_shell.kube.connection import ApiConnection

PARALLEL: Final = 24
BATCH_TIMEOUT: Final = 60.0
T = TypeVar("T")


class Bulk:
    """The administrator's connections."""

    def __init__(self, cluster: Cluster, api: KubernetesApi) -> None:
        self._cluster = cluster
        self._api = api

    def path(self, manifest: Json, *, named: bool = True) -> str:
        """Path of an object, or of the collection that it is created in."""
        meta = manifest["metadata"]
        resource = self._cluster.kube.resource(f"{manifest['apiVersion']}/{manifest['kind']}")
        return resource.path(meta.get("namespace"), meta["name"] if named else None)

    async def create(self, manifests: Iterable[Json]) -> None:
        """Creates objects, several at a time."""

        async def post(manifest: Json) -> None:
            await self.call("POST", self.path(manifest, named=False), manifest)

        await self._each(post, manifests)

    async def delete(self, manifests: Iterable[Json]) -> None:
        """Deletes objects at once, several at a time; what they own goes in the background."""

        async def remove(manifest: Json) -> None:
            body = {"gracePeriodSeconds": 0, "propagationPolicy": "Background"}
            await self.call("DELETE", self.path(manifest), body)

        await self._each(remove, manifests)

    async def patch(self, manifest: Json, patch: Json) -> Json:
        """Merge patch; returns the object as it is then."""
        answer = await self._api.request("PATCH", self.path(manifest), body=patch, content_type=MERGE_PATCH)
        return answer.content()

    async def call(self, method: str, path: str, body: Json | None = None, **query: str) -> Json:
        """One request. Raises ApiStatusError, ApiUnreachableError."""
        answer = await self._api.request(method, path, body=body, query=query or None, timeout=BATCH_TIMEOUT)
        return answer.content()

    async def list(self, path: str, labels: str = "") -> list[Json]:
        """All objects at a path."""
        items: list[Json] = (await self.call("GET", path, labelSelector=labels))["items"]
        return items

    async def revision(self, path: str) -> str:
        """ResourceVersion from which a watch sees what changes from now on."""
        found = await self.call("GET", path, limit="1")
        return str(found["metadata"]["resourceVersion"])

    async def events(self, path: str, since: str, **selectors: str) -> AsyncGenerator[Json, None]:
        """Objects that are created or changed after a revision, without end."""
        while True:
            query = {"watch": "1", "resourceVersion": since, **selectors}
            async with aclosing(self._api.watch(path, query)) as lines:
                async for line in lines:
                    event = orjson.loads(line)
                    if event["type"] == "ERROR":
                        raise RuntimeError(f"watch of {path}: {event['object'].get('message')}")
                    since = event["object"]["metadata"]["resourceVersion"]
                    if event["type"] in {"ADDED", "MODIFIED"}:
                        yield event["object"]

    async def _each(self, work: Callable[[Json], Awaitable[None]], manifests: Iterable[Json]) -> None:
        waiting = iter(manifests)

        async def run() -> None:
            for manifest in waiting:
                await work(manifest)

        async with asyncio.TaskGroup() as group:
            for _ in range(PARALLEL):
                group.create_task(run())


@asynccontextmanager
async def connected(cluster: Cluster) -> AsyncIterator[Bulk]:
    """The administrator's connections during the block."""
    connection = await ApiConnection.connect(cluster.folder.kubeconfig, user_agent="bench")
    api = KubernetesApi(connection, connections=PARALLEL)
    try:
        yield Bulk(cluster, api)
    finally:
        api.close()
        await connection.close()


async def until(missing: Callable[[], Awaitable[Sequence[T]]], timeout: float, what: str, pause: float = 1.0) -> None:  # noqa: ASYNC109
    """Polls until nothing is missing. Raises WaitTimeoutError with the number of missing ones and one of them."""
    loop = asyncio.get_running_loop()
    end = loop.time() + timeout
    while found := await missing():
        if loop.time() > end:
            raise WaitTimeoutError(f"waited {timeout:g} s for {what}; {len(found)} are missing, such as {found[0]!r}")
        await asyncio.sleep(pause)
