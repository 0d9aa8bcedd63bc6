"""The bind verb: sends what each bind asks for (`binding`) and answers the scheduler."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from hetserve_extender.verbs.binding import Bind, Binds, Ended, ReadPod, SendBinding
from hetserve_extender.verbs.wire import BindArgs
from hetserve_shell.kube.client import Answer, ApiServer, pod_path
from hetserve_shell.kube.connection import ApiUnreachableError

log = logging.getLogger(__name__)

API_TIMEOUT: Final = 20.0
ANSWER_WITHIN: Final = 4.5
"""Seconds after which the verb answers that the bind goes on: the scheduler hangs up after 5 and hears nothing."""


@dataclass(slots=True)
class Binder:
    """Binds pods: each bind is a task, which no caller that hangs up ends."""

    api: ApiServer
    binds: Binds
    on_error: Callable[[str], None] = lambda _kind: None
    answer_within: float = ANSWER_WITHIN
    _tasks: dict[Bind, asyncio.Task[Ended]] = field(default_factory=dict)
    """asyncio alone would let them be garbage-collected while they run."""

    async def bind(self, args: BindArgs) -> str:
        """Bind a pod to a node; empty text on success, else what went wrong."""
        bind = self.binds.called(args)
        if isinstance(bind.state, Ended):
            ended = bind.state
        else:
            task = self._tasks.get(bind) or self._start(bind)
            await asyncio.wait((task,), timeout=self.answer_within)  # which ends no task, whoever gives up
            if not task.done():
                self.on_error("slow")
                return f"bind to node {args.node} is still under way"
            ended = task.result()
        if ended.kind:
            self.on_error(ended.kind)
            log.warning("bind %s/%s to %s: %s", args.namespace, args.name, args.node, ended.text)
        return ended.text

    def verify_overdue(self) -> None:
        """Begin to read the pods of binds that the watch has not confirmed in time."""
        self._verify(self.binds.verify_overdue())

    async def drain(self, within: float) -> None:
        """Let binds under way finish before the process ends."""
        self.binds.stop_reading()
        if self._tasks:
            await asyncio.wait(list(self._tasks.values()), timeout=within)

    def _verify(self, binds: list[Bind]) -> None:
        for bind in binds:
            self._start(bind).add_done_callback(lambda _task, bind=bind: self._verified(bind))  # type: ignore[misc]

    def _verified(self, bind: Bind) -> None:
        if isinstance(bind.state, Ended) and bind.state.kind:
            args = bind.args
            log.warning("verify %s/%s on %s: %s", args.namespace, args.name, args.node, bind.state.text)
        self._verify(self.binds.next_reads())

    def _start(self, bind: Bind) -> asyncio.Task[Ended]:
        task = asyncio.create_task(self._run(bind), name=f"bind {bind.args.namespace}/{bind.args.name}")
        self._tasks[bind] = task
        task.add_done_callback(lambda done: self._finished(bind, done))
        return task

    def _finished(self, bind: Bind, task: asyncio.Task[Ended]) -> None:
        del self._tasks[bind]
        # Asking for the exception also keeps asyncio from complaining if nobody is left to await it.
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("%s", task.get_name(), exc_info=error)

    async def _run(self, bind: Bind) -> Ended:
        """Send one request after another until the bind has ended."""
        while not isinstance(bind.state, Ended):
            try:
                answer = await self._send(bind.args, bind.request())
            except ApiUnreachableError as error:
                self.binds.lost(bind, str(error))
            except Exception:
                self.binds.failed(bind)
                raise
            else:
                self.binds.answered(bind, answer)
        return bind.state

    async def _send(self, args: BindArgs, request: ReadPod | SendBinding) -> Answer:
        if isinstance(request, ReadPod):
            return await self.api.request("GET", pod_path(args.namespace, args.name))
        term, over = request.term, self.binds.fence.over
        # Asked again when a connection is had: a bind that waits for one could go out terms later, and for a pod
        # that could not be fenced the next leader counts LANDED_BY from its own beginning.
        return await self.api.request(
            "POST",
            pod_path(args.namespace, args.name, "binding"),
            body=request.body,
            timeout=API_TIMEOUT,
            unless=lambda: over(term),
        )
