"""A router and instances in one loop, over loopback: each instance answers when a test says so."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx

from hetserve.api.inference_service import InferenceService
from hetserve.api.instance_type import InstanceType
from hetserve.api.model_profile import ModelProfile
from hetserve.base.units import Millionths
from hetserve.planning.tenancy import SharingRule
from hetserve_router.instances import InstanceAddress
from hetserve_router.router import Router
from hetserve_router.served import ServedSpec
from hetserve_router.settings import RouterSettings
from hetserve_services.facts import facts_of
from hetserve_shell.http import grpc
from hetserve_shell.http.limits import ServerLimits
from hetserve_shell.http.server import HttpServer, listen
from hetserve_shell.http.takers import Head, Replier
from http_clients import plain_client
from testing import builders

KEY = ("default", "rm2")
HOST = {"host": "rm2.default"}
MILLION = 1_000_000


async def until(condition: Callable[[], bool]) -> None:
    """Lets the loop turn until that holds."""
    while not condition():  # noqa: ASYNC110  (of what has no event)
        await asyncio.sleep(0)


@dataclass(eq=False)
class Held:
    """A request that an instance has got, and has not answered."""

    head: Head
    limit: int = 1 << 26
    body: bytes | bytearray = b""
    reply: Replier | None = None
    is_gone: bool = False
    whole: asyncio.Event = field(default_factory=asyncio.Event)

    def take(self, body: bytes | bytearray, reply: Replier) -> None:
        self.body, self.reply = body, reply
        self.whole.set()

    def gone(self) -> None:
        self.is_gone = True

    def answer(self, status: int = 200, body: bytes = b'{"outputs":[]}', **headers: str) -> None:
        assert self.reply is not None
        if self.head.is_grpc:
            self.reply.answer(200, [grpc.CONTENT_TYPE], grpc.framed(body), grpc.WELL)
            return
        sent = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
        self.reply.answer(status, [(b"content-type", b"application/json"), *sent], body)


@dataclass(eq=False)
class Instance:
    """An instance of the Open Inference Protocol that says of its model what `ready` says."""

    name: str
    port: int = 0
    ready: bool = True
    is_silent: bool = False
    """About its model."""
    asked_ready: int = 0
    got: asyncio.Queue[Held] = field(default_factory=asyncio.Queue)
    server: HttpServer | None = None

    async def start(self) -> None:
        self.server = HttpServer(self, ServerLimits(idle=60.0, body=1 << 26, bodies=1 << 27), self.name)
        listener = listen("127.0.0.1", self.port)
        self.port = listener.getsockname()[1]
        await self.server.start(listener)

    async def stop(self) -> None:
        """Ends at once, as a process that is killed."""
        if self.server is not None:
            await self.server.stop(0.0)

    def asked(self, head: Head) -> Held:
        held = Held(head)
        if head.path.endswith((b"/infer", b"/ModelInfer")) or head.path.startswith(b"/v1"):
            self.got.put_nowait(held)
            return held
        if head.path.lower().endswith(b"ready"):
            self.asked_ready += 1
        asyncio.get_running_loop().create_task(self._say(held))
        return held

    async def _say(self, held: Held) -> None:
        await held.whole.wait()
        if self.is_silent:
            return
        rpc = grpc.field(1, int(self.ready))
        held.answer(200 if self.ready else 503, rpc if held.head.is_grpc else b'{"name":"rm2"}')

    async def next(self) -> Held:
        """The next query, once it is whole."""
        held = await self.got.get()
        await held.whole.wait()
        return held


@dataclass
class RouterScene:
    router: Router
    client: httpx.AsyncClient
    instances: dict[str, Instance]
    base: str

    def stand(self, *names: str) -> None:
        """These instances serve now, and no others."""
        ports = {name: self.instances[name].port for name in names}
        found = [InstanceAddress(name, name, "g4dn.xlarge", "127.0.0.1", port, port) for name, port in ports.items()]
        self.router.stand({KEY: found})

    def ask(self, items: int = 8, path: str = "/v2/models/rm2/infer", **given: Any) -> asyncio.Task[httpx.Response]:
        """Sends a query."""
        headers = {**HOST, **given.pop("headers", {})}
        body = {"inputs": [{"name": "x", "shape": [items], "datatype": "FP32", "data": []}], **given.pop("more", {})}
        sent = given or {"json": body}
        return asyncio.create_task(self.client.post(path, headers=headers, **sent))

    async def metrics(self) -> str:
        return (await self.router.text()).decode()


def spec_of(**dispatch: Any) -> ServedSpec:
    """RM2 with an SLO of 350 ms on one type, 4 ms and .26 ms an item."""
    given = {"ports": {"http": 8000, "grpc": 8001}, "policy": "fcfs", **dispatch}
    service = InferenceService.model_validate(builders.service(overrides={"spec.dispatch": given}))
    profile = ModelProfile.model_validate(builders.model_profile())
    kind = InstanceType.model_validate(builders.instance_type())
    facts = facts_of(service, [profile], {"g4dn.xlarge": kind}, SharingRule(Millionths(1_250_000)))
    spec = ServedSpec.of(service, facts)
    assert spec is not None
    return spec


@asynccontextmanager
async def routing(*names: str, settings: dict[str, Any] | None = None, **dispatch: Any) -> AsyncIterator[RouterScene]:
    """A router with these instances of RM2."""
    made = RouterSettings.model_validate(
        {"port": 0, "probePort": 0, "probeAuthorization": "none", "bodies": 16 << 20, **(settings or {})}
    )
    router, stop = Router(made, ("default",)), asyncio.Event()
    router.declare([spec_of(**dispatch)])
    router.is_ready = True
    instances = {name: Instance(name) for name in names}
    for one in instances.values():
        await one.start()
    running = asyncio.create_task(router.run(stop))
    await until(lambda: "probes" in router.addresses)
    base = "http://{}:{}".format(*router.addresses.get("queries", ("127.0.0.1", 1)))
    async with plain_client(base) as client:
        scene = RouterScene(router, client, instances, base)
        scene.stand(*names)
        yield scene
    stop.set()
    for one in instances.values():
        await one.stop()
    await running
