"""Requests at the API server: what refuses them, and the answers."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import orjson

from hetserve_shell.kube.client import Answer
from modelcheck.process import SentRequest, Ticket
from modelcheck.truth import PodTruth, Shape


@dataclass(frozen=True, slots=True)
class Request:
    """Sent, then carried out; the answer may not have arrived.

    `waits` False: the client is gone.
    """

    who: int
    sent: SentRequest
    answer: Answer | None = None
    saw: PodTruth | None = None
    waits: bool = True

    @property
    def ticket(self) -> Ticket:
        return self.sent.ticket

    @property
    def slot(self) -> int:
        return self.sent.ticket.slot

    @property
    def method(self) -> str:
        return self.sent.ticket.method


def refused(sent: SentRequest, pod: PodTruth) -> int:
    """Status of a refusal; 0: none. What a request does not name is no condition.

    Refusals last: versions only grow, and a pod is bound once.
    """
    if sent.ticket.method == "GET":
        return 0
    if sent.uid not in ("", pod.uid) or sent.version not in ("", str(pod.version)):
        return 409
    return 409 if sent.ticket.method == "POST" and (pod.node is not None or pod.terminating) else 0


@cache
def answer(status: int) -> Answer:
    return Answer(status, orjson.dumps({"message": f"status {status}"}))


@cache
def found(shape: Shape, pod: PodTruth) -> Answer:
    return Answer(200, orjson.dumps(shape.pod(pod)))
