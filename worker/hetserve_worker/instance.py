"""One address of a worker: an instance that serves a query at a time, and lets the others wait in order."""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final

import orjson

import hetserve
from hetserve_shell.http import grpc
from hetserve_shell.http.limits import HttpError, as_http_error
from hetserve_shell.http.takers import Head, Headers, Replier, Taker
from hetserve_worker.models import ServedModel
from hetserve_worker.oip import INFERENCE_HEADER, OipError, encode_answer, parse_request
from hetserve_worker.rpc import SERVICE, encode_message, encode_metadata, parse_message
from hetserve_worker.service_times import ServiceTimes

FAULTS: Final = ("unready", "hang", "reset")
"""Not ready for ever; no answer to any query; each query's connection broken."""
MOST_BYTES: Final = 64 << 20
VERSION: Final = "1"
"""Of the model."""

Answer = tuple[int, Headers, bytes, Headers]
"""Status, headers, body, trailers."""


def _json(status: int, document: Any) -> Answer:
    return status, ((b"content-type", b"application/json"),), orjson.dumps(document), ()


def _rpc(body: bytes) -> Answer:
    return HTTPStatus.OK, (grpc.CONTENT_TYPE,), body, grpc.WELL


@dataclass(slots=True, eq=False)
class _Known:
    """A request whose answer is known."""

    answer: Answer
    limit: int = 4096

    def take(self, _body: bytes | bytearray, reply: Replier) -> None:
        reply.answer(*self.answer)

    def gone(self) -> None:
        """Nothing waits for it."""


@dataclass(slots=True, eq=False)
class _Query:
    """A query; reply is there once its body is."""

    instance: Instance
    head: Head
    limit: int = MOST_BYTES
    body: bytes | bytearray = b""
    reply: Replier | None = None

    def take(self, body: bytes | bytearray, reply: Replier) -> None:
        self.body, self.reply = body, reply
        self.instance.arrive(self)

    def gone(self) -> None:
        self.body, self.reply = b"", None


class Instance:
    """Answers by the protocol for a model of this name. times: None: as long as it takes.

    fault: what it plays, of FAULTS; empty: nothing. A client that leaves while it is served frees nothing, as on a GPU.
    """

    def __init__(self, name: str, model: ServedModel, times: ServiceTimes | None = None, fault: str = "") -> None:
        self.name, self._model, self._times, self._fault = name, model, times, fault
        self._waiting: deque[_Query] = deque()
        self._busy = False
        ready = _json(400 if fault == "unready" else 200, {"name": name, "ready": fault != "unready"})
        server = {"name": "hetserve-worker", "version": hetserve.__version__, "extensions": ["binary_tensor_data"]}
        bases = (f"/v2/models/{name}", f"/v2/models/{name}/versions/{VERSION}")
        self._known = {"/v2": _json(200, server), "/v2/health/live": _json(200, {"live": True})}
        self._known |= dict.fromkeys(("/v2/health/ready", *(f"{base}/ready" for base in bases)), ready)
        self._known |= dict.fromkeys(bases, _json(200, {"name": name, "versions": [VERSION], **model.metadata}))
        self._infer = tuple(f"{base}/infer" for base in bases)
        yes, is_ready = (grpc.framed(grpc.field(1, one)) for one in (1, int(fault != "unready")))
        rpcs = {"ServerLive": yes, "ServerReady": is_ready, "ModelReady": is_ready}
        rpcs["ServerMetadata"] = grpc.framed(grpc.field(1, "hetserve-worker") + grpc.field(2, hetserve.__version__))
        rpcs["ModelMetadata"] = encode_metadata(name, VERSION, model.metadata)
        self._known_rpcs = {f"{SERVICE}{method}": _rpc(body) for method, body in rpcs.items()}

    def asked(self, head: Head) -> Taker:
        """The taker of a request. Raises HttpError for a path, method or encoding that is not served."""
        path = head.path.decode("latin-1")
        if head.is_grpc:
            if path in self._known_rpcs:
                return _Known(self._known_rpcs[path])
            if path == f"{SERVICE}ModelInfer":
                return _Query(self, head)
            there = ", ".join((*self._known_rpcs, f"{SERVICE}ModelInfer"))
            raise HttpError(HTTPStatus.NOT_IMPLEMENTED, f"method {path!r}: must be one of {there}")
        if path not in self._known and path not in self._infer:
            there = ", ".join((*self._known, *self._infer))
            raise HttpError(HTTPStatus.NOT_FOUND, f"path {path!r}: must be one of {there}")
        method = "GET" if path in self._known else "POST"
        if head.method != method.encode():
            raise HttpError(HTTPStatus.METHOD_NOT_ALLOWED, f"method of {path}: must be {method}", method)
        if path in self._known:
            return _Known(self._known[path])
        if (coding := head.get(b"content-encoding")) not in {b"", b"identity"}:
            right = f"content-encoding {coding.decode('latin-1')!r}: must be identity"
            raise HttpError(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, right)
        return _Query(self, head)

    def arrive(self, query: _Query) -> None:
        self._waiting.append(query)
        if not self._busy:
            self._serve_next()

    def _serve_next(self) -> None:
        """Begins with the next query that is held; answers those before it that are not."""
        loop, self._busy = asyncio.get_running_loop(), True
        while self._waiting:
            query, began = self._waiting.popleft(), loop.time()
            if query.reply is None:
                continue
            if self._fault == "hang":
                return
            answer, seconds = self._computed(query)
            if self._fault == "reset":
                query.reply.abort()
            elif seconds:
                loop.call_at(began + seconds, self._end, query, answer)
                return
            else:
                _say(query, answer)
        self._busy = False

    def _end(self, query: _Query, answer: Answer | HttpError) -> None:
        _say(query, answer)
        self._serve_next()

    def _computed(self, query: _Query) -> tuple[Answer | HttpError, float]:
        """The answer, and after how many seconds since it began."""
        head = query.head
        try:
            request = (
                parse_message(query.body, self.name)
                if head.is_grpc
                else parse_request(query.body, head.get(INFERENCE_HEADER))
            )
            found = self._model.infer(request.inputs)
            if head.is_grpc:
                answer = _rpc(encode_message(self.name, VERSION, request, found))
            else:
                answer = HTTPStatus.OK, *encode_answer(self.name, VERSION, request, found), ()
            number = head.get(b"x-request-id").decode("latin-1") or request.id
            seconds = self._times.seconds(number, request.items) if self._times else 0.0
        except OipError as error:
            return HttpError(HTTPStatus.BAD_REQUEST, str(error)), 0.0
        except Exception as error:
            return as_http_error(error), 0.0
        return answer, seconds


def _say(query: _Query, answer: Answer | HttpError) -> None:
    if query.reply is None:
        return
    if isinstance(answer, HttpError):
        query.reply.refuse(answer)
    else:
        query.reply.answer(*answer)
