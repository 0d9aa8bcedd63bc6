"""Clients and servers of gRPC by its own library, in the environment of peers."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Final

from harness import peers

_CALLERS: Final = """
import sys, grpc
from tritonclient.grpc import service_pb2
ask = grpc.insecure_channel(sys.argv[1], [("grpc.default_authority", sys.argv[2])]).unary_unary(
    "/inference.GRPCInferenceService/ModelInfer"
)
tensor = {"name": "x", "datatype": "UINT8", "shape": [3, 1]}
made = service_pb2.ModelInferRequest(model_name="rm2", inputs=[tensor], raw_input_contents=[b"abc"])
def answer(call):
    try:
        call.result()
        return dict(call.initial_metadata())["hetserve-instance"]
    except grpc.RpcError as error:
        return error.code().name

for _ in sys.stdin:
    calls = [ask.future(made.SerializeToString(), timeout=10) for _ in range(int(sys.argv[3]))]
    for call in calls:
        print(answer(call), flush=True)
"""
_INSTANCE: Final = """
import asyncio, sys, grpc

async def main():
    server, going = grpc.aio.server(), asyncio.Event()

    class Handler(grpc.GenericRpcHandler):
        def service(self, details):
            return grpc.unary_unary_rpc_method_handler(self.answer)

        async def answer(self, given, context):
            print("asked", flush=True)
            await going.wait()
            return b""

    server.add_generic_rpc_handlers((Handler(),))
    print(server.add_insecure_port("127.0.0.1:0"), flush=True)
    await server.start()
    lines = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    await lines.readline()
    stopping = asyncio.create_task(server.stop(60))
    await asyncio.sleep(0.2)  # until it has said so
    print("stopping", flush=True)
    await lines.readline()
    going.set()
    await stopping

asyncio.run(main())
"""


@dataclass(frozen=True, slots=True)
class Told:
    """A process that does something for each line."""

    process: subprocess.Popen[str]

    def ask(self) -> str:
        """What it says to a line."""
        self.tell()
        return self.heard()

    def tell(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def heard(self) -> str:
        """Its next line."""
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()


@contextmanager
def _told(program: str, *arguments: str) -> Iterator[Told]:
    command = [str(peers.provide() / "python"), "-c", program, *arguments]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield Told(process)
        finally:
            process.kill()


def rpc_callers(address: str, authority: str, beside: int = 1) -> AbstractContextManager[Told]:
    """A client: each line asks so many queries at once; of each it says which instance answers, or the status."""
    return _told(_CALLERS, address, authority, str(beside))


@contextmanager
def rpc_instance() -> Iterator[tuple[Told, int]]:
    """A server that holds its queries, and its port. A line stops it in order; another answers the queries."""
    with _told(_INSTANCE) as instance:
        yield instance, int(instance.heard())
