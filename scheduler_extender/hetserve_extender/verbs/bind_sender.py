"""The bind verb: performs what `binding` decides."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Final

from hetserve_extender.verbs.binding import BindStateMachine, Ended, PendingBind, SendBinding
from hetserve_extender.verbs.wire import BindArgs
from hetserve_shell.kube.client import Answer, ApiServer, pod_path
from hetserve_shell.kube.connection import ApiUnreachableError

log = logging.getLogger(__name__)

API_TIMEOUT: Final = 20.0
ANSWER_WITHIN: Final = 4.5
"""Seconds before the verb answers that the bind goes on; the scheduler hangs up after 5."""


@dataclass(slots=True)
class BindSender:
    """Binds pods; a bind goes on if its caller hangs up."""

    api: ApiServer
    binds: BindStateMachine
    on_error: Callable[[str], None] = lambda _kind: None
    answer_within: float = ANSWER_WITHIN
    _tasks: dict[PendingBind, asyncio.Task[Ended | Exception]] = field(default_factory=dict)
    """Keeps running tasks from garbage collection."""

    async def bind(self, args: BindArgs) -> str:
        """Binds a pod to a node; returns an error text, empty on success."""
        bind = self.binds.called(args)
        ended: Ended | Exception
        if isinstance(bind.state, Ended):
            ended = bind.state
        else:
            task = self._tasks.get(bind) or self._start(bind)
            await asyncio.wait((task,), timeout=self.answer_within)  # cancels no task
            if not task.done():
                self.on_error("slow")
                return f"bind to node {args.node} is still under way"
            ended = task.result()
        if isinstance(ended, Exception):
            raise ended
        if ended.kind:
            self.on_error(ended.kind)
            log.warning("bind %s/%s to %s: %s", args.namespace, args.name, args.node, ended.text)
        return ended.text

    def verify_overdue(self) -> None:
        """Starts to read the pods of binds that the watch has not confirmed in time."""
        for bind in self.binds.verify_overdue():
            self._start(bind)

    async def drain(self, within: float) -> None:
        self.binds.stop_reading()
        if self._tasks:
            await asyncio.wait(list(self._tasks.values()), timeout=within)

    def _start(self, bind: PendingBind) -> asyncio.Task[Ended | Exception]:
        task = asyncio.create_task(self._run(bind), name=f"bind {bind.args.namespace}/{bind.args.name}")
        self._tasks[bind] = task
        return task

    async def _run(self, bind: PendingBind) -> Ended | Exception:
        """Sends requests until the bind ends. Logs and returns an unknown error: nobody may await it."""
        try:
            ended: Ended | Exception = await self._perform(bind)
        except Exception as error:
            log.exception("bind %s/%s", bind.args.namespace, bind.args.name)
            ended = error
        finally:
            del self._tasks[bind]
        if bind.verifies:
            self._verified(bind)
        return ended

    async def _perform(self, bind: PendingBind) -> Ended:
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

    def _verified(self, bind: PendingBind) -> None:
        if isinstance(bind.state, Ended) and bind.state.kind:
            args = bind.args
            log.warning("verify %s/%s on %s: %s", args.namespace, args.name, args.node, bind.state.text)
        for following in self.binds.next_reads():
            self._start(following)

    def _send(self, args: BindArgs, request: SendBinding | None) -> Awaitable[Answer]:
        if request is None:
            return self.api.request("GET", pod_path(args.namespace, args.name))
        term, over = request.term, self.binds.fence.over
        # Checked once more when a connection is free, which may be terms later.
        return self.api.request(
            "POST",
            pod_path(args.namespace, args.name, "binding"),
            body=request.body,
            timeout=API_TIMEOUT,
            unless=lambda: over(term),
        )
