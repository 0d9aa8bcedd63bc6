"""A client of gRPC by the frame, and messages of inference.GRPCInferenceService."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import unquote

from hetserve_shell.http.grpc import PREFIX, field, framed, varint
from http2_clients import Answer, Http2Client

SERVICE = "/inference.GRPCInferenceService/"


def message(model: str = "rm2", *shape: int, raw: bytes = b"", **parameters: int | str) -> bytes:
    """A request for inference behind its prefix, with one input."""
    sizes = field(3, b"".join(map(varint, shape))) if shape else b""
    given = [
        field(4, field(1, name) + field(2, field(3 if isinstance(value, str) else 2, value)))
        for name, value in parameters.items()
    ]
    parts = [field(1, model), *given, field(5, field(1, "x") + field(2, "UINT8") + sizes), field(7, raw)]
    return framed(b"".join(parts))


class RpcClient(Http2Client):
    """One connection to a router or a worker."""

    def begin_call(self, method: str, *headers: tuple[str, str], authority: str = "rm2.default") -> int:
        path = method if method.startswith("/") else SERVICE + method
        stream = self.h2.get_next_available_stream_id()
        fields = [(":method", "POST"), (":scheme", "http"), (":path", path), (":authority", authority)]
        fields += [("te", "trailers"), ("content-type", "application/grpc"), *headers]
        self.h2.send_headers(stream, fields)
        return stream

    async def start_call(
        self, method: str, body: bytes, *headers: tuple[str, str], authority: str = "rm2.default"
    ) -> int:
        stream = self.begin_call(method, *headers, authority=authority)
        await self.send(stream, body)
        return stream

    async def rpc(self, method: str, body: bytes, *headers: tuple[str, str], authority: str = "rm2.default") -> Answer:
        return await self.answer(await self.start_call(method, body, *headers, authority=authority))


def status_of(answer: Answer) -> tuple[int, str]:
    """Status and message of gRPC."""
    fields = {**answer.headers, **answer.trailers}
    return int(fields["grpc-status"]), unquote(fields.get("grpc-message", ""))


def message_of(answer: Answer) -> bytes:
    """The message of an answer, that is whole."""
    assert status_of(answer)[0] == 0, status_of(answer)
    assert answer.body[:PREFIX] == framed(answer.body[PREFIX:])[:PREFIX]
    return answer.body[PREFIX:]


@asynccontextmanager
async def rpc_client(host: str, port: int) -> AsyncIterator[RpcClient]:
    client = RpcClient(*await asyncio.open_connection(host, port))
    await client.begin()
    try:
        yield client
    finally:
        client.writer.transport.abort()
