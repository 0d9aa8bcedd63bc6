"""Takes services from the queue and reconciles them, while this process leads."""

from __future__ import annotations

import asyncio
import logging

from hetserve_operator.leader.leadership import NotLeadingError, OperatorLeadership
from hetserve_operator.metrics import OperatorMetrics
from hetserve_operator.work.controller import Controller, StuckError
from hetserve_operator.workqueue import Key, WorkQueue
from hetserve_shell.kube.client import ApiStatusError
from hetserve_shell.kube.connection import ApiUnreachableError

log = logging.getLogger(__name__)


class Workers:
    """What all workers share."""

    def __init__(
        self, queue: WorkQueue, controller: Controller, leadership: OperatorLeadership, metrics: OperatorMetrics
    ) -> None:
        self._queue = queue
        self._controller = controller
        self._leadership = leadership
        self._metrics = metrics

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
