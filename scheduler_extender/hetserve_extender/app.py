"""The two HTTP faces: the scheduler's verbs, and on a second port health, metrics and the ledger.

An answer that the scheduler should show to the user has status 200 and `Error`: it throws the body of any
other status away. Requests that are not of the protocol get a 4xx.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from http import HTTPStatus
from time import perf_counter
from typing import Any, Final, TypeVar

import orjson
from prometheus_client import CONTENT_TYPE_LATEST, Histogram
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from hetserve.placement import Booking, LedgerError, State
from hetserve.placement.index import Place
from hetserve.placement.placer import Placer
from hetserve_extender import wire
from hetserve_extender.bind import Binder
from hetserve_extender.http_limits import HttpError, Routes
from hetserve_extender.metrics import Metrics
from hetserve_extender.placement_log import PlacementLog
from hetserve_extender.recall import Recall

log = logging.getLogger(__name__)
T = TypeVar("T")

NOT_SYNCED: Final = "hetserve extender has not listed pods and nodes yet"


@dataclass(frozen=True, slots=True)
class Verbs:
    """The verbs of the scheduler. Those that read the ledger alone answer at once; bind answers by a coroutine."""

    placer: Placer
    binder: Binder
    metrics: Metrics
    refusal: Callable[[], str]
    """Why no verb can be answered now (not synced, not the leader); empty where they can."""
    recall: Recall | None = None
    _passed: wire.PassedNames = field(default_factory=wire.PassedNames)
    _seconds: dict[str, Histogram] = field(default_factory=dict)

    def routes(self) -> Routes:
        return {b"/filter": self.filter, b"/prioritize": self.prioritize, b"/bind": self.bind}

    def filter(self, body: bytes) -> bytes:
        start = perf_counter()
        answer = self._filter(self._args(body))
        self._observe("filter", start)
        return answer

    def prioritize(self, body: bytes) -> bytes:
        start = perf_counter()
        args = self._args(body)
        if refusal := self.refusal():
            raise HttpError(HTTPStatus.SERVICE_UNAVAILABLE, refusal)  # a bare array has no place for an error
        try:
            scores = self.placer.prioritize(args.pod, args.names)
        except ValueError as error:
            raise HttpError(HTTPStatus.BAD_REQUEST, str(error)) from None
        answer = wire.priorities(scores)
        self._observe("prioritize", start)
        return answer

    async def bind(self, body: bytes) -> bytes:
        start = perf_counter()
        args = _parsed(wire.parse_bind, body)
        answer = wire.bind_result(self.refusal() or await self.binder.bind(args))
        self._observe("bind", start)
        return answer

    def _filter(self, args: wire.FilterArgs) -> bytes:
        if refusal := self.refusal():  # the scheduler tells it too, and asks again and again
            self.metrics.decisions.labels("error").inc()
            log.debug("filter: %s", refusal)
            return wire.filter_error(refusal)
        try:
            outcome = self.placer.filter(args.pod, args.names)
        except LedgerError as error:
            return self._error(str(error))
        except ValueError as error:
            return self._unreadable(args, str(error))
        if self.recall is not None:
            self.recall.answered(args.pod, args.names, placed=bool(outcome.passed))
        self.metrics.decisions.labels("placed" if outcome.passed else "refused").inc()
        if outcome.decision is not None and log.isEnabledFor(logging.DEBUG):
            request = outcome.decision.request
            log.debug("filter %s/%s: %s", request.namespace, request.name, outcome.decision.why)
        keep = self._passed if len(outcome.passed) > 1 else None  # of a single node no scores are asked
        # All as unresolvable: for FailedNodes the scheduler looks for victims of preemption by its own plugins, which
        # know nothing of GPUs; it finds none and fails by an internal error. What frees a GPU wakes the pod anyway.
        return wire.filter_result(args, outcome.passed, {}, {**outcome.failed, **outcome.unresolvable}, keep)

    def _args(self, body: bytes) -> wire.FilterArgs:
        return _parsed(lambda body: wire.parse_filter(body, self._passed), body)

    def _unreadable(self, args: wire.FilterArgs, text: str) -> bytes:
        """No node, for a reason that nothing but a change of the pod ends: for an `Error` it came back every second.

        What has no UID is no pod, and a mistake of the caller.
        """
        metadata = args.pod.get("metadata")
        if not isinstance(metadata, dict) or not metadata.get("uid"):
            return self._error(text)
        self.metrics.decisions.labels("error").inc()
        log.warning("filter: %s", text)
        return wire.filter_result(args, (), {}, dict.fromkeys(args.names, text))

    def _error(self, text: str) -> bytes:
        self.metrics.decisions.labels("error").inc()
        log.warning("filter: %s", text)
        return wire.filter_error(text)

    def _observe(self, verb: str, start: float) -> None:
        taken = perf_counter() - start
        if verb not in self._seconds:
            self._seconds[verb] = self.metrics.verb_seconds.labels(verb)
        self._seconds[verb].observe(taken)


def _parsed(parse: Callable[[bytes], T], body: bytes) -> T:
    try:
        return parse(body)
    except wire.WireError as error:
        raise HttpError(HTTPStatus.BAD_REQUEST, str(error)) from None


@dataclass(frozen=True, slots=True)
class Probes:
    """Health, readiness, metrics, the ledger and the placement log (None: none is kept)."""

    placer: Placer
    metrics: Metrics
    ready: Callable[[], bool]
    placement_log: PlacementLog | None = None

    def app(self) -> Starlette:
        return Starlette(
            routes=[
                Route("/healthz", self.healthz),
                Route("/readyz", self.readyz),
                Route("/metrics", self.scrape),
                Route("/ledger", self.ledger),
                Route("/log", self.log),
            ]
        )

    async def healthz(self, _request: Request) -> Response:
        return PlainTextResponse("ok\n")

    async def readyz(self, _request: Request) -> Response:
        if self.ready():
            return PlainTextResponse("ok\n")
        return PlainTextResponse(f"{NOT_SYNCED}\n", status_code=503)

    async def scrape(self, _request: Request) -> Response:
        return Response(await self.metrics.text(), media_type=CONTENT_TYPE_LATEST)

    async def ledger(self, _request: Request) -> Response:
        return _json(orjson.dumps(ledger_view(self.placer), option=orjson.OPT_INDENT_2))

    async def log(self, _request: Request) -> Response:
        if self.placement_log is None:
            text = "no placement log is kept; the setting placementLog (such as 16Mi) makes one\n"
            return PlainTextResponse(text, status_code=404)
        return Response(self.placement_log.content(), media_type="application/jsonl")


def ledger_view(placer: Placer) -> dict[str, Any]:
    """The ledger as JSON: every GPU with its pods in a stable order, and what does not add up."""
    gpus = [
        {
            "node": use.node,
            "gpu": use.gpu.id,
            "product": use.gpu.product,
            "memoryMiB": use.gpu.memory_mib,
            "freeMiB": use.free_mib,
            "healthy": use.gpu.healthy,
            "pods": [_pod_view(booking, (use.node, use.gpu.id)) for booking in use.bookings],
        }
        for use in placer.ledger.gpus()
    ]
    return {"gpus": gpus, "problems": list(placer.problems())}


def _pod_view(booking: Booking, place: Place) -> dict[str, Any]:
    request = booking.request
    return {
        "namespace": request.namespace,
        "name": request.name,
        "uid": request.uid,
        "model": request.model,
        "memoryMiB": booking.mib[booking.places.index(place)],
        "state": "bound" if booking.state is State.BOUND else "reserved",
    }


def _json(body: bytes) -> Response:
    return Response(body, media_type="application/json")
