"""Reconciles one service at a time: observe, take a step, perform its request, repeat."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final, TypeVar

from hetserve.api import names
from hetserve.reconcile.cluster.api_messages import is_of_the_content, renamed
from hetserve.reconcile.deployments.build import manifest_digest
from hetserve.reconcile.events import announcements
from hetserve.reconcile.snapshot import (
    Apply,
    Change,
    Create,
    Delete,
    Render,
    Rendered,
    Replace,
    Request,
    ServiceSnapshot,
    Settled,
    WriteAddress,
    WriteFence,
    WriteStatus,
)
from hetserve.reconcile.step import failure_status, step
from hetserve_operator.leadership import NotLeadingError, OperatorLeadership, Permit
from hetserve_operator.memory import TROUBLES, Memory
from hetserve_operator.metrics import OperatorMetrics
from hetserve_operator.plans.queue import PlannerQueue
from hetserve_operator.revisions import DEPLOYMENTS
from hetserve_operator.watch.observe import Observer
from hetserve_operator.work.announcer import Announcer
from hetserve_operator.work.apply import NameTakenError, Writer, unused_name
from hetserve_operator.workqueue import Key, WorkQueue
from hetserve_shell.kube.client import ApiStatusError
from hetserve_shell.kube.connection import ApiUnreachableError, RawObject

log = logging.getLogger(__name__)
T = TypeVar("T")

MOST_STEPS: Final = 500
MOST_CONFLICTS: Final = 5
AFTER_STATUS: Final = 0.2
"""Seconds until the next pass: pods start in bursts, and an immediate one would write a status for each."""
AFTER_RECORD: Final = 0.0
"""The services that wait have their plans recorded first, then each is followed."""
CONFLICTS: Final = (404, 409)


class StuckError(Exception):
    """A write did not persist; retrying at once could loop for ever."""


@dataclass(eq=False)
class Controller:
    """Reconciles services by key."""

    _observer: Observer
    _writer: Writer
    _metrics: OperatorMetrics
    _clock: Callable[[], float]
    _plans: PlannerQueue
    _announcer: Announcer
    _leadership: OperatorLeadership
    _memories: dict[Key, Memory] = field(default_factory=dict, init=False)

    @property
    def remembered(self) -> frozenset[Key]:
        """Services with a memory; reconciling a deleted one removes it."""
        return frozenset(self._memories)

    async def reconcile(self, key: Key) -> float | None:
        """Reconciles a service until it is settled or its plan is recorded.

        Returns seconds until the next pass, or None.

        Raises errors that deserve a retry with backoff: no answer, a failing server, a write that does not persist.
        Raises NotLeadingError if the term in which the pass began is over.
        """
        term = self._term()
        permit = self._leadership.permit(term)
        memory = self._memories.setdefault(key, Memory())
        done: Request | None = memory.recorded
        memory.recorded = None
        snapshot: ServiceSnapshot | None = None
        conflicts = 0
        for _ in range(MOST_STEPS):
            memory.fence.begin(term, self._leadership.new_stamp)
            # A dry run changes nothing, so the snapshot stays good for one more step.
            snapshot = await self._snapshot(key, memory, snapshot if isinstance(done, Render) else None)
            if message := permit():
                raise NotLeadingError(message)
            if snapshot.service is None:
                self._forget(key)
                return None
            request = await self._step(key, snapshot, permit)
            self._metrics.observe(key, snapshot.service)
            if isinstance(request, Settled | WriteStatus):
                self._metrics.observe_costs(key, request.costs)
            if isinstance(request, Settled):
                kept = memory.keep_load(snapshot.demand if request.interest.growing else None, self._clock())
                rest = self._rest(key, request, memory)
                return AFTER_STATUS if kept else rest
            if _same(request, done):
                raise StuckError(f"{request.key} was done and must be done again: is the CRD of another version?")
            done = request if await self._perform(request, snapshot, memory, permit) else None
            if isinstance(done, WriteStatus):
                memory.recorded = done if done.intent else None
                return AFTER_RECORD if done.intent else AFTER_STATUS
            conflicts = 0 if done is not None else conflicts + 1
            if conflicts > MOST_CONFLICTS:
                raise StuckError(f"{request.key}: somebody else writes at the same time")
        raise StuckError(f"{key} is not settled after {MOST_STEPS} writes")

    def _term(self) -> int:
        term = self._leadership.term()
        if term is None:
            raise NotLeadingError(self._leadership.refusal())
        return term

    def _rest(self, key: Key, settled: Settled, memory: Memory) -> float | None:
        """Remembers what concerns a settled service; returns seconds until the next pass, or None."""
        self._observer.interests.record(key, settled.interest)
        waits = (settled.wake_after, memory.wake_after(self._clock()), self._plans.retry_after(key))
        return min((wait for wait in waits if wait is not None), default=None)

    async def _snapshot(self, key: Key, memory: Memory, last: ServiceSnapshot | None) -> ServiceSnapshot:
        """What the next step reads. last: a snapshot of which only what is remembered has changed since."""
        now = self._clock()
        if last is not None:
            return replace(last, rendered=memory.rendered(now), refused=memory.refused(now))
        snapshot = await self._observer.snapshot(key, memory, now)
        memory.fence.keep(str(raw["metadata"]["uid"]) for raw in snapshot.deployments)
        return snapshot

    async def _step(self, key: Key, snapshot: ServiceSnapshot, permit: Permit) -> Request | Settled:
        assert snapshot.service is not None  # noqa: S101
        try:
            return self._plans.run_pass(key, partial(step, snapshot))
        except Exception as error:
            log.exception("reconciling failed")
            failure = failure_status(snapshot.service, snapshot, f"{type(error).__name__}: {error}")
            if failure is not None:
                await self._writer.perform(failure, permit)
            raise

    async def _perform(self, request: Request, snapshot: ServiceSnapshot, memory: Memory, permit: Permit) -> bool:
        """Performs a request; False after a conflict, which needs a new pass."""
        log.info("%s", describe(request))
        try:
            answer = await self._send(request, memory, permit)
        except NameTakenError as error:
            memory.keep_refused(request.key, str(error), self._clock())
            return True
        except ApiStatusError as error:
            self._metrics.write(request, str(error.status))
            return self._refused(request, error, memory)
        except ApiUnreachableError as error:
            self._metrics.write(request, "unreachable")
            if self._is_reported(request, error, memory):
                return True
            raise
        self._metrics.write(request, "ok")
        self._note(request, answer, memory)
        service = snapshot.service
        assert service is not None  # noqa: S101
        if isinstance(request, WriteStatus):
            self._announcer.tell(service, announcements(request.previous, request.status, service))
            await self._record(request, permit)
        elif isinstance(request, Apply | Delete) and request.news is not None:
            self._announcer.tell(service, [request.news])
        return True

    async def _send(self, request: Request, memory: Memory, permit: Permit) -> RawObject:
        """Sends a request; a change of unknown outcome may still land, so the next one fences again."""
        try:
            return await self._writer.perform(request, permit)
        except Exception as error:
            if isinstance(request, Create | Change | WriteFence):
                memory.seen.forget(DEPLOYMENTS)
            if isinstance(request, Change) and not _is_known(error):
                memory.fence.lapse()
            raise

    def _note(self, request: Request, answer: RawObject, memory: Memory) -> None:
        """Remembers what later steps need of a performed request."""
        if isinstance(request, Delete):
            memory.seen.forget(DEPLOYMENTS)  # its answer tells no revision
        elif isinstance(request, Create | Change | WriteFence):
            memory.seen.wrote(DEPLOYMENTS, answer)
        if isinstance(request, Render):
            memory.keep_rendered(request.digest, Rendered(spec=answer["spec"]), self._clock())
        elif isinstance(request, Create | Apply | Replace):
            annotations = answer["metadata"].get("annotations") or {}
            memory.written[request.name] = str(annotations.get(names.ANNOTATION_APPLIED))
            if request.repair:
                note = memory.note_cut if request.cut else memory.note_repair
                note(request.name, self._clock())
        elif isinstance(request, Delete):
            memory.written.pop(request.name, None)
        elif isinstance(request, WriteAddress) and request.wanted is not None:
            memory.note_repair(request.key, self._clock())
        if isinstance(request, Create | WriteFence):
            memory.fence.clear(str(answer["metadata"]["uid"]))

    def _refused(self, request: Request, error: ApiStatusError, memory: Memory) -> bool:
        if error.status in CONFLICTS:
            if isinstance(request, Create):  # it was there without its labels
                memory.note_repair(request.name, self._clock())
            return False
        of_the_content = is_of_the_content(error.status, error.message)
        if isinstance(request, WriteStatus) or not (error.status == 403 or of_the_content):
            if self._is_reported(request, error, memory):
                return True
            raise error
        message = error.message
        if isinstance(request, Render):
            message = renamed(message, unused_name(request), str(request.manifest["metadata"]["name"]))
        if isinstance(request, Render | Create) and of_the_content:
            digest = manifest_digest(request.manifest)
            memory.keep_rendered(digest, Rendered(refusal=message), self._clock())
        else:
            memory.keep_refused(request.key, message, self._clock())
            if isinstance(request, WriteFence):
                memory.fence.refuse(request.uid, self._clock())
        return True

    def _is_reported(self, request: Request, error: Exception, memory: Memory) -> bool:
        """Whether a dry run has failed so often that the status reports it: the template may be the cause."""
        if not isinstance(request, Render) or not memory.fails_again():
            return False
        name = request.manifest["metadata"]["name"]
        message = f"the dry run of {name} failed, and {TROUBLES} in a row have: {error}"
        memory.keep_refused(request.key, message, self._clock())
        return True

    async def _record(self, done: WriteStatus, permit: Permit) -> None:
        """Records the decision of a status that was written; like an Event it may be lost, and holds nothing up."""
        request = done.decided
        if request is None:
            return
        self._metrics.decide(request.record.decision)
        try:
            await self._writer.perform(request, permit)
        except (ApiStatusError, ApiUnreachableError, NameTakenError, NotLeadingError) as error:
            if isinstance(error, ApiStatusError | ApiUnreachableError):
                self._metrics.write(request, str(getattr(error, "status", "unreachable")))
            log.warning("%s/%s: a decision is not on record: %s", done.namespace, done.name, error)
        else:
            self._metrics.write(request, "ok")

    def forget_all(self) -> None:
        """Forgets every service, since another leader has written meanwhile."""
        for key in list(self._memories):
            self._forget(key)

    def _forget(self, key: Key) -> None:
        self._memories.pop(key, None)
        self._plans.forget(key)
        self._observer.interests.forget(key)
        self._metrics.forget(key)


def describe(request: Request) -> str:
    """One line for the log."""
    if isinstance(request, WriteStatus):
        return f"{request.namespace}/{request.name}: write status ({request.status['reason']}): {request.reason}"
    return f"{request.key}: {request.reason}"


def _is_known(error: Exception) -> bool:
    """Whether a request that failed has certainly changed nothing and never will."""
    if isinstance(error, ApiStatusError):
        return error.status < 500 or is_of_the_content(error.status, error.message)
    return isinstance(error, NotLeadingError)


def _same(request: Request, done: Request | None) -> bool:
    if isinstance(request, WriteStatus):
        return isinstance(done, WriteStatus) and _timeless(request.status) == _timeless(done.status)
    return done is not None and request.key == done.key


def _timeless(status: dict[str, Any]) -> dict[str, Any]:
    conditions = [{k: v for k, v in c.items() if k != "lastTransitionTime"} for c in status["conditions"]]
    return {**status, "conditions": conditions}


@dataclass(eq=False)
class Workers:
    """What all workers share."""

    _queue: WorkQueue
    _controller: Controller
    _leadership: OperatorLeadership
    _metrics: OperatorMetrics

    async def work(self) -> None:
        """One worker. Never returns."""
        while True:
            await self._leadership.won()
            key = await self._queue.get()
            self._metrics.waiting.set(len(self._queue))
            await self._work_on(key)

    async def _work_on(self, key: Key) -> None:
        """Reconciles one service; an error affects only it and is retried later."""
        try:
            with self._metrics.seconds.time():
                wake_after = await self._controller.reconcile(key)
        except asyncio.CancelledError:
            raise
        except NotLeadingError as error:
            log.info("%s: %s", key, error)
            self._queue.done(key)
            self._queue.add(key, urgent=True)  # it had its turn
            return
        except Exception as error:
            self._metrics.errors.labels(type(error).__name__).inc()
            delay = self._queue.failed(key)
            expected = isinstance(error, ApiStatusError | ApiUnreachableError | StuckError)
            log.warning("%s: %s; again in %.1f s", key, error, delay, exc_info=not expected)
            return
        self._queue.done(key)
        if wake_after is not None:
            self._queue.add(key, wake_after)
