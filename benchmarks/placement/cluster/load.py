"""Pods in, binds out: what one round of a case does to the API server, and what it sees on a watch."""

from __future__ import annotations

import asyncio
import itertools
import os
import random
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import aiohttp
import orjson

from harness.cluster import Cluster
from hetserve.api.names import LABEL_MODEL, RESOURCE_GPU_MEMORY, SCHEDULER_NAME
from hetserve_shell.kube.connection import ApiConnection

NAMESPACE: Final = "bench"
MODELS: Final = 20
SIZES_MIB: Final = (2048, 4096, 8192)
SILENCE: Final = 30.0
"""Seconds without a bind after which a round is given up."""
_PARALLEL: Final = 24
_METADATA: Final = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
_PODS: Final = f"/api/v1/namespaces/{NAMESPACE}/pods"
_TIMEOUT: Final = aiohttp.ClientTimeout(total=None, sock_connect=10.0, sock_read=SILENCE)

Json = dict[str, Any]
_turns = itertools.count()


@dataclass(frozen=True, slots=True)
class Binds:
    """When binds were seen [s], in order, by name; `busy`: the share of the machine's processors used meanwhile."""

    times: dict[str, float]
    busy: float

    @property
    def rate(self) -> float:
        """Pods/s from the first bind to the last."""
        seen = sorted(self.times.values())
        return (len(seen) - 1) / (seen[-1] - seen[0])


def seeded(seed: int) -> random.Random:
    """A source of workloads: nothing secret, the same again by its seed."""
    return random.Random(seed)  # noqa: S311


def pods(count: int, rng: random.Random, *, mib: Sequence[int] = SIZES_MIB, models: int = MODELS) -> list[Json]:
    """Pods of a user: GPU memory, a model, no gate."""
    return [_pod(f"pod-{number:05d}", rng.choice(mib), f"model-{rng.randrange(models)}") for number in range(count)]


def _pod(name: str, mib: int, model: str) -> Json:
    resources = {"limits": {RESOURCE_GPU_MEMORY: str(mib)}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": NAMESPACE, "labels": {LABEL_MODEL: model, "app": "bench"}},
        "spec": {
            "schedulerName": SCHEDULER_NAME,
            "terminationGracePeriodSeconds": 0,
            "tolerations": [{"key": "kwok.x-k8s.io/node", "operator": "Exists"}],
            "containers": [{"name": "model", "image": "none", "resources": resources}],
        },
    }


def renamed(manifests: Sequence[Json]) -> list[Json]:
    """The same pods under names that none had before.

    KWOK patches and deletes by name: what it has still to do for a pod that is gone would befall the next of that name.
    """
    turn = next(_turns)
    return [
        pod | {"metadata": pod["metadata"] | {"name": f"{pod['metadata']['name']}-{turn:03d}"}} for pod in manifests
    ]


class LoadClient:
    """The administrator's connection of one round."""

    def __init__(self, connection: ApiConnection) -> None:
        self._connection = connection

    @classmethod
    async def connect(cls, cluster: Cluster) -> LoadClient:
        return cls(await ApiConnection.connect(cluster.folder.kubeconfig, user_agent="bench", connections=100))

    async def close(self) -> None:
        await self._connection.close()

    async def create(self, manifests: Sequence[Json]) -> None:
        """Create objects of the namespace, several at a time; order is kept roughly."""
        waiting = iter(manifests)

        async def work() -> None:
            for manifest in waiting:
                await self._call("POST", _PODS, manifest)

        async with asyncio.TaskGroup() as group:
            for _ in range(_PARALLEL):
                group.create_task(work())

    async def clear(self) -> None:
        """Delete all pods of the namespace and wait until they are gone."""
        # One by one, several at a time: the server deletes a collection with a single worker, 1,000 pods in 10 to 30 s.
        while found := (await self._call("GET", _PODS))["items"]:
            waiting = iter([pod["metadata"]["name"] for pod in found])
            async with asyncio.TaskGroup() as group:
                for _ in range(_PARALLEL):
                    group.create_task(self._delete(waiting))

    async def _delete(self, waiting: Iterator[str]) -> None:
        for name in waiting:
            await self._call("DELETE", f"{_PODS}/{name}", {"gracePeriodSeconds": 0}, gone=True)

    async def revision(self) -> str:
        found: str = (await self._call("GET", _PODS, query={"limit": "1"}))["metadata"]["resourceVersion"]
        return found

    async def binds(self, count: int, since: str) -> Binds:
        """Watch until `count` pods are on nodes. Raises TimeoutError after a silence, with how many there were."""
        seen: dict[str, float] = {}
        used = Processors()
        try:
            while len(seen) < count:  # a server with much to do ends a watch that it cannot serve in time
                since = await self._watch(count, since, seen, used)
        except TimeoutError:
            raise TimeoutError(f"{len(seen)} of {count} pods bound, then none for {SILENCE:g} s") from None
        return Binds(seen, used.busy())

    async def _watch(self, count: int, since: str, seen: dict[str, float], used: Processors) -> str:
        """Note binds until all are seen or the watch ends; returns the revision to go on from.

        What the processors did counts from the first bind.
        """
        # Selected and cut down by the server: the watch must not take the processor from what is measured.
        query = {"watch": "1", "resourceVersion": since, "fieldSelector": "spec.nodeName!="}
        headers = await self._connection.headers()
        headers["Accept"] = _METADATA
        session, base = self._connection._open(), self._connection.base
        rest = b""
        async with session.get(base + _PODS, params=query, headers=headers, timeout=_TIMEOUT) as answer:
            answer.raise_for_status()
            while len(seen) < count and not answer.content.at_eof():
                chunk = await asyncio.wait_for(answer.content.readany(), SILENCE)
                now = time.perf_counter()
                if not seen:
                    used.restart()
                *lines, rest = (rest + chunk).split(b"\n")
                for metadata in (orjson.loads(line)["object"]["metadata"] for line in lines):
                    since = metadata["resourceVersion"]
                    seen.setdefault(metadata["name"], now)
        return since

    async def _call(
        self, method: str, path: str, body: Json | None = None, query: Json | None = None, *, gone: bool = False
    ) -> Json:
        """Send a request; `gone`: that there is no such object is as good as success."""
        exchange = await self._connection.request(
            method, path, timeout=_TIMEOUT, query=query, body=orjson.dumps(body) if body else None
        )
        async with exchange as answer:
            content = await answer.read()
            if answer.status >= 300 and not (gone and answer.status == 404):
                raise RuntimeError(f"{method} {path}: {answer.status} {content[:300]!r}")
            found: Json = orjson.loads(content)
            return found


class Processors:
    """How much of the machine's processor time was used since `restart`."""

    def __init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        self._idle, self._all = self._read()

    def busy(self) -> float:
        """Share of all processors' time, 0 to 1; 1 where none has passed."""
        idle, whole = self._read()
        return 1.0 - (idle - self._idle) / (whole - self._all) if whole > self._all else 1.0

    @staticmethod
    def _read() -> tuple[int, int]:
        """Idle time (waits for a disk included) and all time, in ticks (proc_stat(5))."""
        ticks = [int(word) for word in Path("/proc/stat").read_text().partition("\n")[0].split()[1:9]]
        return ticks[3] + ticks[4], sum(ticks)


def cpu_seconds(pid: int) -> float:
    """Processor time that a process has used [s]."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def peak_mib(pid: int) -> float:
    """Largest resident memory that a process has had [MiB]."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:")) / 1024
