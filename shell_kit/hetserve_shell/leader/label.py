"""The label by which a Service finds the pod that leads."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from hetserve_shell.kube.client import MERGE_PATCH, ApiServer, pod_path
from hetserve_shell.kube.connection import ApiUnreachableError

log = logging.getLogger(__name__)

LABELLED_EVERY: Final = 2.0
"""Seconds between two looks: a label that a paused leader wrote late sends calls astray only so long."""
_LABEL_TIMEOUT: Final = 2.0


@dataclass(slots=True)
class LeaderLabel:
    """Keeps `label` on the pod `name` of `namespace` while it leads: only the way of calls depends on it."""

    api: ApiServer
    label: str
    namespace: str
    name: str
    sleep: Callable[[float], Awaitable[object]] = asyncio.sleep

    async def keep(self) -> None:
        """Never returns: the label is on our pod and on no other."""
        while True:
            try:
                await self._settle()
            except ApiUnreachableError as error:
                log.warning("label %s: %s", self.label, error)
            await self.sleep(LABELLED_EVERY)

    async def _settle(self) -> None:
        query = {"labelSelector": f"{self.label}=true"}
        collection = pod_path(self.namespace, "").removesuffix("/")
        answer = await self.api.request("GET", collection, query=query, timeout=_LABEL_TIMEOUT)
        if not answer.ok:
            log.warning("label %s: %s", self.label, answer.message)
            return
        labelled = {str(raw["metadata"]["name"]) for raw in answer.json().get("items") or []}
        if self.name not in labelled:
            await self._patch(self.name, "true")
        for other in sorted(labelled - {self.name}):
            await self._patch(other, None)

    async def _patch(self, name: str, value: str | None) -> None:
        patch = {"metadata": {"labels": {self.label: value}}}
        path = pod_path(self.namespace, name)
        answer = await self.api.request("PATCH", path, body=patch, content_type=MERGE_PATCH, timeout=_LABEL_TIMEOUT)
        if not answer.ok and answer.status != 404:
            log.warning("label %s on %s: %s", self.label, name, answer.message)
