"""The scheduler's verbs over HTTP.

An answer that the scheduler should show to the user has status 200 and `Error`: it throws the body of any
other status away. Requests that are not of the protocol get a 4xx.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from http import HTTPStatus
from time import perf_counter
from typing import TypeVar

from prometheus_client import Histogram

from hetserve.placement import LedgerError
from hetserve.placement.decision.wording import decision_text, texts_by_node
from hetserve.placement.placer import Placer
from hetserve.sanitize import sanitize
from hetserve_extender.observe.metrics import Metrics
from hetserve_extender.requeue.requeuer import Requeuer
from hetserve_extender.verbs import wire
from hetserve_extender.verbs.bind import Binder
from hetserve_shell.http.limits import HttpError, LastAnswer, Routes

log = logging.getLogger(__name__)
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Verbs:
    """The verbs of the scheduler. Those that read the ledger alone answer at once; bind answers by a coroutine."""

    placer: Placer
    binder: Binder
    metrics: Metrics
    refusal: Callable[[], str]
    """Why no verb can be answered now (not synced, not the leader); empty where they can.

    Its answer closes the connection: a Service chooses who is reached when a connection is made, and the scheduler
    keeps one for as long as pods wait.
    """
    requeuer: Requeuer | None = None
    _passed: wire.PassedNames = field(default_factory=wire.PassedNames)
    _seconds: dict[str, Histogram] = field(default_factory=dict)

    def routes(self) -> Routes:
        return {
            b"/filter": self.filter,
            b"/prioritize": self.prioritize,
            b"/bind": self.bind,
            b"/healthz": lambda _body: b"{}",  # asked by ourselves: whether this very port answers
        }

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
        if refusal := self.refusal():
            return LastAnswer(wire.bind_result(refusal))
        answer = wire.bind_result(await self.binder.bind(args))
        self._observe("bind", start)
        return answer

    def _filter(self, args: wire.FilterArgs) -> bytes:
        if refusal := self.refusal():  # the scheduler tells it too, and asks again and again
            self.metrics.decisions.labels("error").inc()
            log.debug("filter: %s", refusal)
            return LastAnswer(wire.filter_error(refusal))
        try:
            outcome = self.placer.filter(args.pod, args.names)
        except LedgerError as error:
            return self._error(str(error))
        except ValueError as error:
            return self._unreadable(args, str(error))
        if self.requeuer is not None:
            self.requeuer.answered(args.pod, args.names, placed=bool(outcome.passed))
        self.metrics.decisions.labels("placed" if outcome.passed else "refused").inc()
        if outcome.decision is not None and log.isEnabledFor(logging.DEBUG):
            request = outcome.decision.request
            log.debug("filter %s/%s: %s", request.namespace, request.name, decision_text(outcome.decision))
        keep = self._passed if len(outcome.passed) > 1 else None  # of a single node no scores are asked
        # All as unresolvable: for FailedNodes the scheduler looks for victims of preemption by its own plugins, which
        # know nothing of GPUs; it finds none and fails by an internal error. What frees a GPU wakes the pod anyway.
        return wire.filter_result(args, outcome.passed, {}, texts_by_node(outcome.refusals), keep)

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
        return wire.filter_result(args, (), {}, dict.fromkeys(args.names, sanitize(text)))

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
