"""The scheduler's verbs over HTTP.

An error for the user has status 200 and `Error`, because the scheduler drops the body of other answers.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from http import HTTPStatus
from time import perf_counter

from prometheus_client import Histogram

from hetserve.placement.decision.wording import decision_text, texts_by_node
from hetserve.placement.ledger.bookings import LedgerError
from hetserve.placement.placer import Placer
from hetserve.sanitize import sanitize
from hetserve_extender.observe.metrics import Metrics
from hetserve_extender.requeue.requeuer import Requeuer
from hetserve_extender.verbs import wire
from hetserve_extender.verbs.bind_sender import BindSender
from hetserve_shell.http.handlers import Handler, Routes
from hetserve_shell.http.limits import HttpError

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Verbs:
    """The scheduler's verbs; bind answers by a coroutine."""

    placer: Placer
    binder: BindSender
    metrics: Metrics
    refusal: Callable[[], str]
    """Why no verb is answered; empty if they are."""
    served: Callable[[], Awaitable[None]] | None = None
    """Waits a while for what is refused to be answered; None: it does not change."""
    requeuer: Requeuer | None = None
    _passed: wire.PassedNames = field(default_factory=wire.PassedNames)
    _seconds: dict[str, Histogram] = field(default_factory=dict)

    def routes(self) -> Routes:
        return {b"/filter": self._held(self.filter), b"/prioritize": self._held(self.prioritize), b"/bind": self.bind}

    def filter(self, body: bytes) -> bytes:
        start = perf_counter()
        answer = self._filter(wire.parse_filter(body, self._passed))
        self._observe("filter", start)
        return answer

    def prioritize(self, body: bytes) -> bytes:
        start = perf_counter()
        args = wire.parse_filter(body, self._passed)
        if refusal := self.refusal():
            raise HttpError(HTTPStatus.SERVICE_UNAVAILABLE, refusal)  # an array holds no error
        try:
            scores = self.placer.prioritize(args.pod, args.names)
        except ValueError as error:
            raise HttpError(HTTPStatus.BAD_REQUEST, str(error)) from None
        answer = wire.priorities(scores)
        self._observe("prioritize", start)
        return answer

    async def bind(self, body: bytes) -> bytes:
        start = perf_counter()
        args = wire.parse_bind(body)
        if self.served is not None and self.refusal():
            await self.served()
        if refusal := self.refusal():
            return wire.bind_result(refusal)
        answer = wire.bind_result(await self.binder.bind(args))
        self._observe("bind", start)
        return answer

    def _held(self, handler: Callable[[bytes], bytes]) -> Handler:
        """The verb; one that would be refused waits first."""
        if (served := self.served) is None:
            return handler

        async def later(body: bytes) -> bytes:
            await served()
            return handler(body)

        return lambda body: later(body) if self.refusal() else handler(body)

    def _filter(self, args: wire.FilterArgs) -> bytes:
        if refusal := self.refusal():  # the scheduler reports it too
            self.metrics.decisions.labels("error").inc()
            log.debug("filter: %s", refusal)
            return wire.filter_error(refusal)
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
        keep = self._passed if len(outcome.passed) > 1 else None  # no scores are asked for one node
        # Unresolvable, not FailedNodes: the scheduler's preemption knows no GPUs and would fail.
        return wire.filter_result(args, outcome.passed, texts_by_node(outcome.refusals), keep)

    def _unreadable(self, args: wire.FilterArgs, text: str) -> bytes:
        """Refuses every node until the pod changes; after an `Error` it would return every second.

        A pod without a UID is the caller's mistake.
        """
        metadata, error = args.pod.get("metadata"), self._error(text)
        if not isinstance(metadata, dict) or not metadata.get("uid"):
            return error
        return wire.filter_result(args, (), dict.fromkeys(args.names, sanitize(text)))

    def _error(self, text: str) -> bytes:
        self.metrics.decisions.labels("error").inc()
        log.warning("filter: %s", text)
        return wire.filter_error(text)

    def _observe(self, verb: str, start: float) -> None:
        taken = perf_counter() - start
        if verb not in self._seconds:
            self._seconds[verb] = self.metrics.verb_seconds.labels(verb)
        self._seconds[verb].observe(taken)
