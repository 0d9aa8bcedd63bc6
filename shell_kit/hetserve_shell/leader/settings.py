"""Settings of an election, and the candidate that they make."""

from __future__ import annotations

import socket
import uuid
from typing import Self

from pydantic import Field, model_validator

from hetserve_shell.leader.lease import Candidate, Terms
from hetserve_shell.settings import Duration, SettingsModel


class ElectionSettings(SettingsModel):
    """The Lease by which one of several replicas leads, and the times of its election.

    identity: what people read in the Lease; a part that only this process has is added to it.
    """

    enabled: bool = True
    namespace: str = Field(min_length=1)
    lease_name: str = Field(min_length=1)
    lease_duration: Duration = Field(default="3s")  # type: ignore[assignment]
    renew_deadline: Duration = Field(default="2s")  # type: ignore[assignment]
    retry_period: Duration = Field(default="500ms")  # type: ignore[assignment]
    identity: str = ""

    @property
    def terms(self) -> Terms:
        return Terms(self.lease_duration, self.renew_deadline, self.retry_period)

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        _ = self.terms
        return self

    def identified(self, identity: str) -> Self:
        """The same under another name in the Lease."""
        return self.model_copy(update={"identity": identity})

    def candidate(self, pod: str | None) -> Candidate:
        """A candidate with an identity of this process alone; pod: name of our pod, None outside of one."""
        who = self.identity or pod or socket.gethostname()
        return Candidate(f"{who}_{uuid.uuid4().hex[:8]}", self.terms)
