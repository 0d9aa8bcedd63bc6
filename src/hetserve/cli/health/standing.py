"""`hetserve wait`: how a service stands, by its conditions, followed by a watch until a deadline."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import Any, Final, Literal, NoReturn

import click

from hetserve.api.conditions import ConditionType
from hetserve.api.kinds import INFERENCE_SERVICE
from hetserve.base.units import Seconds
from hetserve.cli.cluster.client import ClusterClient, ClusterError, RawObject, absent
from hetserve.cli.output import streams
from hetserve.cli.output.streams import EXIT_INFEASIBLE, dump
from hetserve.sanitize import sanitize

EXIT_TIMED_OUT: Final = 4
_EXITS: Final = {"Ready": 0, "Stalled": EXIT_INFEASIBLE}
_LONGEST_WATCH: Final = 300.0
_GONE: Final = 410
_PAUSE: Final = 0.2
_UNAVAILABLE: Final = (0, 429, 500, 502, 503, 504)
"""Answers after which a watch is opened again, until the deadline: a server that restarts is not the end of a wait."""
State = Literal["Unseen", "Reconciling", "Ready", "Stalled"]
_STATES: Final[tuple[tuple[ConditionType, State], ...]] = (
    (ConditionType.STALLED, "Stalled"),
    (ConditionType.READY, "Ready"),
    (ConditionType.RECONCILING, "Reconciling"),
)
_UNSEEN: Final = "the operator has not seen this generation yet"


def run(service: str, namespace: str | None, timeout: Seconds, cluster: ClusterClient, output: str) -> NoReturn:
    """The command, with its options. Raises ClusterError."""
    found = namespace or cluster.namespace
    began = time.monotonic()
    generation, stood = _settled(cluster, found, service, timeout)
    document: dict[str, Any] = {
        "service": service,
        "namespace": found,
        "generation": generation,
        "state": stood.state,
        "reason": stood.reason,
        "message": stood.message,
        "timedOut": not stood.settled,
        "waitedSeconds": round(time.monotonic() - began, 3),
    }
    late = "" if stood.settled else f"is neither Ready nor Stalled after {document['waitedSeconds']:.0f} s; it "
    text = f"{found}/{service} {late}is {stood}"
    click.echo(sanitize(text) + "\n" if output == "table" else dump([document], output), nl=False)
    sys.exit(_EXITS.get(stood.state, EXIT_TIMED_OUT))


def _settled(cluster: ClusterClient, namespace: str, name: str, timeout: Seconds) -> tuple[int, ServiceState]:
    """(generation, standing): settled, or the last before the deadline."""
    last: tuple[int, ServiceState] | None = None
    for raw in follow_object(cluster, INFERENCE_SERVICE.path(namespace), name, timeout):
        if raw is None and last is None:
            raise absent("InferenceService", namespace, name)
        if raw is None:
            raise ClusterError(f"InferenceService {name} in namespace {namespace} was deleted meanwhile")
        before, last = last, (int(raw["metadata"].get("generation") or 0), standing(raw))
        if last[1].settled:
            break
        if before is None or before[1] != last[1]:
            streams.note(f"{namespace}/{name} is {last[1]}")
    assert last is not None  # noqa: S101  the first is yielded before the deadline is looked at
    return last


@dataclass(frozen=True, slots=True)
class ServiceState:
    """State with the reason and message of the condition that says so; Unseen has no reason."""

    state: State
    reason: str
    message: str

    def __str__(self) -> str:
        return f"{self.state}{f' ({self.reason})' if self.reason else ''}: {self.message}"

    @property
    def settled(self) -> bool:
        return self.state in ("Ready", "Stalled")


def standing(raw: Mapping[str, Any]) -> ServiceState:
    """How a raw InferenceService stands.

    A condition counts where it is about the generation there is: one of an earlier spec says nothing of this one.
    """
    generation = int((raw.get("metadata") or {}).get("generation") or 0)
    status = raw.get("status") or {}
    if int(status.get("observedGeneration") or 0) != generation:
        return ServiceState("Unseen", "", _UNSEEN)
    true = {
        str(condition.get("type")): condition
        for condition in status.get("conditions") or ()
        if condition.get("status") == "True" and int(condition.get("observedGeneration") or 0) == generation
    }
    for kind, state in _STATES:
        if found := true.get(kind):
            return ServiceState(state, str(found.get("reason") or ""), str(found.get("message") or ""))
    return ServiceState("Unseen", "", _UNSEEN)


def follow_object(
    cluster: ClusterClient,
    collection: str,
    name: str,
    timeout: Seconds,
    *,
    clock: Callable[[], float] = time.monotonic,
    pause: Callable[[float], object] = time.sleep,
) -> Iterator[RawObject | None]:
    """Yields the object as it is (None: there is none), then after each change; ends at the deadline.

    collection: path of the object's collection in its namespace. timeout: s; 0 yields once. Asks by field selector, so
    that the right to list and watch this name is enough. Raises ClusterError if refused, or never reached.
    """
    deadline = clock() + timeout
    selector = f"metadata.name={name}"
    reached = False
    while True:
        try:
            listing = cluster.list(collection, selector)
            reached = True
            yield next(iter(listing.items), None)
            left = min(deadline - clock(), _LONGEST_WATCH)
            if left > 0:
                with closing(cluster.watch(collection, listing.revision, selector, seconds=math.ceil(left))) as events:
                    for event in events:
                        yield None if event["type"] == "DELETED" else event["object"]
                        if clock() >= deadline:
                            return
        except ClusterError as error:
            if not reached or error.status not in (_GONE, *_UNAVAILABLE):
                raise
        if clock() >= deadline:
            return
        pause(min(_PAUSE, max(deadline - clock(), 0.0)))
