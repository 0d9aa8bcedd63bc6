"""What a router is told of a failure, and what it is to do, as data."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple


class Status(StrEnum):
    """Why a query gets no instance's answer. TOO_LARGE is the client's fault: neither received nor dropped."""

    OVERLOADED = "overloaded"
    NO_INSTANCE = "no instance"
    TOO_MANY_INSTANCES = "too many instances"
    DEADLINE_EXCEEDED = "deadline exceeded"
    INSTANCE_FAILED = "instance failed"
    TOO_LARGE = "too large"


class Send(NamedTuple):
    """The query goes to the instance now, which serves no other."""

    query: int
    instance: int


class Drop(NamedTuple):
    """The query ends without an instance's answer; one that still comes is not passed on. retry_after [s]: or None."""

    query: int
    status: Status
    reason: str
    retry_after: float | None = None


class Abandon(NamedTuple):
    """The instance's connection is to be closed: no answer to the query is expected any more."""

    query: int
    instance: int


class Probe(NamedTuple):
    """The instance is to be asked whether it is ready; then `ServiceRouter.probed` is due."""

    instance: int


class WakeAt(NamedTuple):
    """`ServiceRouter.wake` is due at this time [s], which replaces an earlier WakeAt; no other event cancels it."""

    at: float


Action = Send | Drop | Abandon | Probe | WakeAt
