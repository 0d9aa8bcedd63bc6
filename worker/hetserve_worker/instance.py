"""One address of a worker: an instance that serves a query at a time, and lets the others wait in order."""

from __future__ import annotations

import asyncio
import logging
import re
from collections import deque
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final

import orjson

import hetserve
from hetserve_shell.http.limits import HttpError
from hetserve_shell.http.takers import Head, Headers, Replier, Taker
from hetserve_worker.models import ServedModel
from hetserve_worker.oip import INFERENCE_HEADER, OipError, encode_answer, parse_request
from hetserve_worker.service_times import ServiceTimes

log = logging.getLogger(__name__)

FAULTS: Final = ("unready", "hang", "reset")
"""Not ready for ever; no answer to any query; each query's connection broken."""
MOST_BYTES: Final = 64 << 20
VERSION: Final = "1"
"""Of the model."""
_PATH: Final = re.compile(
    rb"/v2(?:/health/(live|ready)|/models/(?P<model>[^/]+)(?:/versions/(?P<version>[^/]+))?(?:/(?P<what>ready|infer))?)?"
)
_JSON: Final = ((b"content-type", b"application/json"),)

Answer = tuple[int, Headers, bytes]


def _json(status: int, document: Any) -> Answer:
    return status, _JSON, orjson.dumps(document)


@dataclass(slots=True, eq=False)
class _Known:
    """A request whose answer is known at once."""

    answer: Answer
    limit: int = 0

    def take(self, _body: bytes | bytearray, reply: Replier) -> None:
        reply.answer(*self.answer)

    def gone(self) -> None:
        """Nothing waits for it."""


@dataclass(slots=True, eq=False)
class _Query:
    """A query; reply is there once its body is. id: of its head. json_bytes: value of INFERENCE_HEADER."""

    instance: Instance
    id: str
    json_bytes: bytes
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

    def asked(self, head: Head) -> Taker:
        """The taker of a request. Raises HttpError for a path, method or encoding that is not served."""
        found = _PATH.fullmatch(head.path)
        if found is None:
            right = f"/v2, /v2/health/live|ready or /v2/models/{self.name}[/versions/{VERSION}][/ready|infer]"
            raise HttpError(HTTPStatus.NOT_FOUND, f"path {head.path.decode('latin-1')!r}: must be {right}")
        for what, right in (("model", self.name), ("version", VERSION)):
            if found[what] not in {None, right.encode()}:
                raise HttpError(HTTPStatus.NOT_FOUND, f"{what} {found[what].decode('latin-1')!r}: must be {right}")
        method = "POST" if found["what"] == b"infer" else "GET"
        if head.method != method.encode():
            raise HttpError(HTTPStatus.METHOD_NOT_ALLOWED, f"method of {head.path.decode()}: must be {method}", method)
        if method == "GET":
            return _Known(self._described(found))
        if (coding := head.get(b"content-encoding")) not in {b"", b"identity"}:
            right = f"content-encoding {coding.decode('latin-1')!r}: must be identity"
            raise HttpError(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, right)
        return _Query(self, head.get(b"x-request-id").decode("latin-1"), head.get(INFERENCE_HEADER))

    def _described(self, found: re.Match[bytes]) -> Answer:
        ready = self._fault != "unready"
        if found[1] == b"live":
            return _json(HTTPStatus.OK, {"live": True})
        if found[1] == b"ready" or found["what"]:
            status = HTTPStatus.OK if ready else HTTPStatus.BAD_REQUEST
            return _json(status, {"name": self.name, "ready": ready})
        if found["model"]:
            return _json(HTTPStatus.OK, {"name": self.name, "versions": [VERSION], **self._model.metadata})
        named = {"name": "hetserve-worker", "version": hetserve.__version__}
        return _json(HTTPStatus.OK, {**named, "extensions": ["binary_tensor_data"]})

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
                query.reply.answer(*answer)
        self._busy = False

    def _end(self, query: _Query, answer: Answer) -> None:
        if query.reply is not None:
            query.reply.answer(*answer)
        self._serve_next()

    def _computed(self, query: _Query) -> tuple[Answer, float]:
        """The answer, and after how many seconds since it began."""
        try:
            request = parse_request(query.body, query.json_bytes)
            headers, body = encode_answer(self.name, VERSION, request, self._model.infer(request.inputs))
            seconds = self._times.seconds(query.id or request.id, request.items) if self._times else 0.0
        except OipError as error:
            return _json(HTTPStatus.BAD_REQUEST, {"error": str(error)}), 0.0
        except Exception as error:
            log.exception("a query failed")
            return _json(HTTPStatus.INTERNAL_SERVER_ERROR, {"error": f"{type(error).__name__}: {error}"}), 0.0
        return (HTTPStatus.OK, headers, body), seconds
