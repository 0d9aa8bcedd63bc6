"""The scheduler keeps its connections and a Service moves none: a leader of before must end them."""

from __future__ import annotations

import asyncio
import json

from harness import limits
from hetserve_extender.extender import Extender
from http_clients import post
from leadership_scene import FILTER, SYSTEM, cluster, leads, running, settings, until
from testing.extender import released_lease


async def connected(extender: Extender) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A connection that has carried a call and is kept."""
    reader, writer = await asyncio.open_connection(*extender.addresses["verbs"])
    writer.write(post("/filter", json.dumps(FILTER).encode()))
    head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), limits.ANSWER)
    length = next(line.split()[1] for line in head.lower().splitlines() if line.startswith(b"content-length"))
    assert json.loads(await reader.readexactly(int(length)))["NodeNames"] == ["n0"]
    return reader, writer


async def test_a_pod_whose_lease_another_took_ends_the_connections_that_the_scheduler_keeps() -> None:
    api = cluster()
    api.add({"metadata": {"name": "pod-a", "namespace": SYSTEM, "uid": "a"}, "spec": {"nodeName": "x"}, "status": {}})
    async with running(Extender(settings(), api, "pod-a")) as a:
        await until(lambda: leads(a.extender))
        connections = [await connected(a.extender) for _ in range(2)]
        taken = released_lease()
        taken["spec"] |= {"holderIdentity": "usurper"}
        api.add(taken)
        for reader, writer in connections:
            assert await asyncio.wait_for(reader.read(), limits.ANSWER) == b"", (
                "a Service moves no connection that stands"
            )
            writer.close()
        assert (await a.ask("filter", FILTER)).json()["Error"] == "not the leader (leader is usurper)"
