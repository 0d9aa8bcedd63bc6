"""Whether the extender books the compute that pods declare, as the one that leads says on its Lease.

Until it does, no plan with shared GPUs is made: an extender of before would bind such pods beside any others.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from hetserve.api import names
from hetserve_operator.paths import lease_path
from hetserve_shell.kube.client import ApiServer, ApiStatusError
from hetserve_shell.kube.connection import ApiUnreachableError
from hetserve_shell.leader.lease import signed

log = logging.getLogger(__name__)

ASK_AGAIN: Final = 2.0
"""Seconds between two looks until the extender says it."""


class ExtenderLease:
    """The Lease of the extender. name: empty: it is not read. changed: called when the answer has changed."""

    def __init__(self, api: ApiServer, namespace: str, name: str, changed: Callable[[], None]) -> None:
        self._api = api
        self._path = lease_path(namespace, name) if name else None
        self._changed = changed
        self._complaint = ""
        self.books_compute = not name

    async def look(self) -> None:
        """Reads the Lease; without an answer, or a holder, what was known stays. Raises nothing of the API."""
        if self._path is None:
            return
        try:
            found = signed((await self._api.request("GET", self._path)).content(), names.ANNOTATION_BOOKS_COMPUTE)
        except (ApiStatusError, ApiUnreachableError, ValueError) as error:
            self._complain(str(error))
            return
        self._complaint = ""
        if found is not None and found != self.books_compute:
            self.books_compute = found
            log.info("the extender that leads %s compute", "books" if found else "does not say that it books")
            self._changed()

    def pause(self, usual: float) -> float:
        """Seconds until the next look; usual: once the extender says that it books compute."""
        return usual if self.books_compute else min(ASK_AGAIN, usual)

    def _complain(self, words: str) -> None:
        """Logs once until it works again or the words change."""
        if words != self._complaint:
            log.warning("%s cannot be read: %s", self._path, words)
        self._complaint = words
