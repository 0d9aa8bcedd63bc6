"""Brings one service at a time to what it should be: look, ask the reconciler, do the one thing, look again."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any, Final

from hetserve.api import names
from hetserve.planning import plan
from hetserve.planning.plan import Plan
from hetserve.planning.problem import Problem
from hetserve.reconcile import (
    Announcement,
    Apply,
    Create,
    Delete,
    Render,
    Rendered,
    Replace,
    Request,
    Settled,
    World,
    WriteStatus,
    announcements,
    failure_status,
    step,
)
from hetserve.reconcile.build import manifest_digest
from hetserve_operator.api import ApiRefusalError
from hetserve_operator.apply import ForeignDeploymentError, Writer, unused_name
from hetserve_operator.memory import TROUBLES, Memory
from hetserve_operator.metrics import Metrics
from hetserve_operator.observe import Observer
from hetserve_operator.workqueue import Key
from hetserve_shell.kube.connection import ApiUnreachableError, RawObject

log = logging.getLogger(__name__)

MOST_STEPS: Final = 500
MOST_CONFLICTS: Final = 5
AFTER_STATUS: Final = 0.2
CONFLICTS: Final = (404, 409)


class StuckError(Exception):
    """What was written did not stay; trying at once again would never end."""


class Controller:
    """Reconciles services by key."""

    def __init__(
        self,
        observer: Observer,
        writer: Writer,
        metrics: Metrics,
        clock: Callable[[], float],
        planner: Callable[[Problem], Plan] = plan,
    ) -> None:
        self._observer = observer
        self._writer = writer
        self._metrics = metrics
        self._clock = clock
        self._memories: dict[Key, Memory] = {}

        @lru_cache(maxsize=512)
        def counted(problem: Problem) -> Plan:
            decided = planner(problem)
            metrics.plans.labels(decided.planner, str(decided.feasible).lower()).inc()
            return decided

        self._planner = counted

    @property
    def remembered(self) -> frozenset[Key]:
        """Services of which anything is kept in memory; a look at one that is gone forgets it."""
        return frozenset(self._memories)

    async def reconcile(self, key: Key) -> float | None:
        """Look at a service until nothing is left to do; seconds until it should be looked at again, or None.

        Raises what is worth a retry with backoff: no answer, a server in trouble, a write that does not stay.
        """
        memory = self._memories.setdefault(key, Memory())
        done: Request | None = None
        conflicts = 0
        for _ in range(MOST_STEPS):
            world = await self._observer.world(key, memory, self._clock())
            if world.service is None:
                self._forget(key)
                return None
            request = await self._step(world)
            self._metrics.observe(key, world.service)
            if isinstance(request, Settled):
                waits = [w for w in (request.wake_after, memory.wake_after(self._clock())) if w is not None]
                return min(waits) if waits else None
            if _same(request, done):
                raise StuckError(f"{request.key} was done and must be done again: is the CRD of another version?")
            done = request if await self._perform(request, world, memory) else None
            conflicts = 0 if done is not None else conflicts + 1
            if isinstance(done, WriteStatus) and not done.intent:
                # Pods come up in bursts; looking again at once would write a status for each.
                return AFTER_STATUS
            if conflicts > MOST_CONFLICTS:
                raise StuckError(f"{request.key}: somebody else writes at the same time")
        raise StuckError(f"{key} is not settled after {MOST_STEPS} writes")

    async def _step(self, world: World) -> Request | Settled:
        assert world.service is not None  # noqa: S101
        try:
            # A planner may take seconds; the loop must go on answering probes and reading watches.
            return await asyncio.to_thread(step, world, self._planner)
        except Exception as error:
            log.exception("reconciling failed")
            failure = failure_status(world.service, world, f"{type(error).__name__}: {error}")
            if failure is not None:
                await self._writer.perform(failure)
            raise

    async def _perform(self, request: Request, world: World, memory: Memory) -> bool:
        """Whether the request was carried out or its refusal noted; False for a conflict: look again."""
        log.info("%s", describe(request))
        try:
            answer = await self._writer.perform(request)
        except ForeignDeploymentError as error:
            memory.keep_refused(request.key, str(error), self._clock())
            return True
        except ApiRefusalError as error:
            self._metrics.write(request, str(error.status))
            return self._refused(request, error, memory)
        except ApiUnreachableError as error:
            self._metrics.write(request, "unreachable")
            if self._is_told(request, error, memory):
                return True
            raise
        self._metrics.write(request, "ok")
        self._note(request, answer, memory)
        if isinstance(request, WriteStatus):
            await self._announce(announcements(request.previous, request.status), world)
        elif isinstance(request, Apply | Delete) and request.news is not None:
            await self._announce([request.news], world)
        return True

    def _note(self, request: Request, answer: RawObject, memory: Memory) -> None:
        """What is to be remembered of a request that was carried out."""
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

    def _refused(self, request: Request, error: ApiRefusalError, memory: Memory) -> bool:
        if error.status in CONFLICTS:
            return False
        if isinstance(request, WriteStatus) or not (error.status == 403 or error.of_the_content):
            if self._is_told(request, error, memory):
                return True
            raise error
        words = _own_words(error.message, request) if isinstance(request, Render) else error.message
        if isinstance(request, Render | Create) and error.of_the_content:
            digest = manifest_digest(request.manifest)
            memory.keep_rendered(digest, Rendered(refusal=words), self._clock())
        else:
            memory.keep_refused(request.key, words, self._clock())
        return True

    def _is_told(self, request: Request, error: Exception, memory: Memory) -> bool:
        """Whether trouble with a dry run is told by now: it may be of the template, and the status must not stand."""
        if not isinstance(request, Render) or not memory.fails_again():
            return False
        name = request.manifest["metadata"]["name"]
        words = f"the dry run of {name} failed, and {TROUBLES} in a row have: {error}"
        memory.keep_refused(request.key, words, self._clock())
        return True

    async def _announce(self, all_news: Iterable[Announcement], world: World) -> None:
        assert world.service is not None  # noqa: S101
        for news in all_news:
            try:
                await self._writer.announce(dict(world.service), news)
            except (ApiRefusalError, ApiUnreachableError) as error:
                # An event is a courtesy; the status has the same words.
                log.warning("event %s not posted: %s", news.reason, error)

    def _forget(self, key: Key) -> None:
        self._memories.pop(key, None)
        self._metrics.forget(key)


def describe(request: Request) -> str:
    """One line for the log."""
    if isinstance(request, WriteStatus):
        return f"{request.namespace}/{request.name}: write status ({request.status['reason']}): {request.reason}"
    return f"{request.key}: {request.reason}"


def _own_words(message: str, render: Render) -> str:
    """The apiserver's words with the Deployment's name for the one that the dry run had."""
    return message.replace(unused_name(render), str(render.manifest["metadata"]["name"]))


def _same(request: Request, done: Request | None) -> bool:
    if isinstance(request, WriteStatus):
        return isinstance(done, WriteStatus) and _timeless(request.status) == _timeless(done.status)
    return done is not None and request.key == done.key


def _timeless(status: dict[str, Any]) -> dict[str, Any]:
    conditions = [{k: v for k, v in c.items() if k != "lastTransitionTime"} for c in status["conditions"]]
    return {**status, "conditions": conditions}
