"""A scheduler as its Lease shows it: renewed in a fake API server, for tests of the extender beside it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

from hetserve.api.names import SYSTEM_NAMESPACE
from testing.kit.apiserver import FakeApiServer

NAME: Final = "hetserve-scheduler"
PATH: Final = f"/apis/coordination.k8s.io/v1/namespaces/{SYSTEM_NAMESPACE}/leases/{NAME}"
EVERY: Final = 0.02


@dataclass
class Scheduler:
    """Holds the Lease as the scheduler of `host`, in its `process`."""

    api: FakeApiServer
    host: str = "me"
    process: str = "u1"
    seconds: float = 4.0
    renewals: int = 0

    @property
    def identity(self) -> str:
        return f"{self.host}_{self.process}"

    def renew(self) -> None:
        """As client-go does: annotations stay, and another holder counts as a transition."""
        found: dict[str, Any] = self.api.objects.get(PATH) or {"metadata": {}, "spec": {"leaseTransitions": 1}}
        before = found["spec"]
        self.renewals += 1
        spec = before | {
            "holderIdentity": self.identity,
            "leaseDurationSeconds": self.seconds,
            "renewTime": f"{self.identity} {self.renewals}",
            "leaseTransitions": before["leaseTransitions"] + (before.get("holderIdentity") != self.identity),
        }
        self._write(spec)

    def release(self) -> None:
        self._write(self.api.objects[PATH]["spec"] | {"holderIdentity": "", "renewTime": "released"})

    def _write(self, spec: dict[str, Any]) -> None:
        known = (self.api.objects.get(PATH) or {"metadata": {}})["metadata"]
        metadata = known | {"namespace": SYSTEM_NAMESPACE, "name": NAME, "uid": "uid-lease"}
        self.api.add({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": spec})

    @asynccontextmanager
    async def renewing(self) -> AsyncIterator[None]:
        """Renews fifty times a second."""
        self.renew()
        work = asyncio.create_task(self._run())
        try:
            yield
        finally:
            work.cancel()
            await asyncio.wait([work])

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(EVERY)
            self.renew()
