"""gRPC by grpc.aio, in the environment of peers: instances that answer at once, a bare forwarder before them, a client.

    rpc_peers.py instances ADDRESS...
    rpc_peers.py forward ADDRESS INSTANCE...
    rpc_peers.py load ADDRESS SERVICE MODEL SECONDS    prints the queries that were answered, and those that failed

Imports nothing of hetserve: the environment does not have it.
"""

from __future__ import annotations

import asyncio
import signal
import sys
import time
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final

import grpc
from tritonclient.grpc import service_pb2

METHOD: Final = "/inference.GRPCInferenceService/ModelInfer"
BESIDE: Final = 32
"""Queries that a client has on their way, on one connection."""
ITEMS: Final = 10

Answering = Callable[[bytes, Any], Awaitable[bytes]]


def request(model: str) -> bytes:
    """A query of 584 bytes."""
    tensor = {"name": "x", "datatype": "UINT8", "shape": [ITEMS, 56]}
    made = service_pb2.ModelInferRequest(model_name=model, inputs=[tensor], raw_input_contents=[b"x" * (56 * ITEMS)])
    return bytes(made.SerializeToString())


def answer() -> bytes:
    tensor = {"name": "y", "datatype": "FP32", "shape": [1]}
    made = service_pb2.ModelInferResponse(model_name="m", outputs=[tensor], raw_output_contents=[b"\0\0\0\0"])
    return bytes(made.SerializeToString())


class _Handler(grpc.GenericRpcHandler):  # type: ignore[misc]
    """Gives messages as bytes to `answering`."""

    def __init__(self, answering: Answering) -> None:
        self._handler = grpc.unary_unary_rpc_method_handler(answering)

    def service(self, details: Any) -> Any:
        return self._handler if details.method == METHOD else None


async def serve(addresses: list[str], answering: Answering) -> None:
    """Until SIGTERM."""
    server, stop = grpc.aio.server(), asyncio.Event()
    server.add_generic_rpc_handlers((_Handler(answering),))
    for address in addresses:
        server.add_insecure_port(address)
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    await server.start()
    await stop.wait()
    await server.stop(None)


async def instances(*addresses: str) -> None:
    said = answer()

    async def answering(_request: bytes, _context: Any) -> bytes:
        return said

    await serve(list(addresses), answering)


async def forward(address: str, *behind: str) -> None:
    """One query at a time to each instance; the others wait in their order."""
    free: asyncio.Queue[Any] = asyncio.Queue()
    for one in behind:
        free.put_nowait(grpc.aio.insecure_channel(one).unary_unary(METHOD))

    async def answering(given: bytes, _context: Any) -> bytes:
        ask = await free.get()
        try:
            return bytes(await ask(given))
        finally:
            free.put_nowait(ask)

    await serve([address], answering)


async def load(address: str, service: str, model: str, seconds: str) -> None:
    given, metadata = request(model), (("hetserve-service", service),)
    until, counts = time.monotonic() + float(seconds), {"answered": 0, "failed": 0}
    async with grpc.aio.insecure_channel(address) as channel:
        ask = channel.unary_unary(METHOD)

        async def loop() -> None:
            while time.monotonic() < until:
                try:
                    await ask(given, metadata=metadata)
                    counts["answered"] += 1
                except grpc.aio.AioRpcError as error:
                    counts["failed"] += 1
                    if counts["failed"] == 1:
                        print(error.details(), file=sys.stderr)

        await asyncio.gather(*(loop() for _ in range(BESIDE)))
    print(counts["answered"], counts["failed"])


_COMMANDS: Final[dict[str, Callable[..., Coroutine[Any, Any, None]]]] = {
    "instances": instances,
    "forward": forward,
    "load": load,
}

if __name__ == "__main__":
    asyncio.run(_COMMANDS[sys.argv[1]](*sys.argv[2:]))
