"""Who may lead, and until when: the election over a Lease of coordination.k8s.io, without any request.

Two rules keep two candidates from leading at once, by the rate of their clocks alone (neither needs the right
time): a leader counts from the moment *before* it sent its last accepted write, for `renew_deadline`; another
takes the Lease only when it has seen it unchanged for the longer `duration`, from the moment *after* it read it.
Where no Lease tells of the past (absent, or never held) the first holder leads only after a whole `duration`.
"""

from __future__ import annotations

import hashlib
import math
import socket
import uuid
from dataclasses import dataclass, field
from typing import Any, Final, Literal, Self

from pydantic import Field, model_validator

from hetserve_shell.kube.connection import RawObject
from hetserve_shell.settings import Duration, SettingsModel

NEVER: Final = -math.inf
Write = Literal["create", "take", "renew"]


@dataclass(frozen=True, slots=True)
class Terms:
    """Times of an election [s]; retry_period < renew_deadline < duration."""

    duration: float = 3.0
    renew_deadline: float = 2.0
    retry_period: float = 0.5

    def __post_init__(self) -> None:
        if not 0 < self.retry_period < self.renew_deadline < self.duration:
            raise ValueError(
                f"retryPeriod {self.retry_period:g}s, renewDeadline {self.renew_deadline:g}s and leaseDuration "
                f"{self.duration:g}s must each be longer than the one before"
            )


@dataclass(frozen=True, slots=True)
class Lease:
    """A Lease as read: `version` changes with every write; `used`: somebody has held it."""

    holder: str
    version: str
    duration: float
    transitions: int
    used: bool
    raw: RawObject = field(compare=False, repr=False)


def parse_lease(raw: RawObject) -> Lease:
    """A Lease of the API server. Raises ValueError for a number that is none."""
    spec = raw.get("spec") or {}
    return Lease(
        holder=str(spec.get("holderIdentity") or ""),
        version=str((raw.get("metadata") or {}).get("resourceVersion", "")),
        duration=float(spec.get("leaseDurationSeconds") or 0),
        transitions=int(spec.get("leaseTransitions") or 0),
        used=bool(spec.get("renewTime")),
        raw=raw,
    )


@dataclass(slots=True, kw_only=True)
class Tenure:
    """What is known of a Lease, and for how long it lets us lead. Times are of one monotonic clock [s]."""

    seen: Lease | None = None
    term: int = 0
    """Counts the times that leadership was won here, or won back after a lapse: a number never comes back."""
    origin: int = 0
    """First term since which the Lease has been ours alone: the later ones only followed a lapse."""
    until: float = NEVER
    """When our term ends if no further renewal succeeds or is seen; `NEVER` where another holds the Lease."""
    leads_from: float = NEVER
    """When a Lease that is ours lets us lead."""

    @property
    def holder(self) -> str:
        """Identity of who holds the Lease, as far as we know; empty: nobody."""
        return "" if self.seen is None else self.seen.holder

    def leads(self, now: float) -> bool:
        """Whether nobody else can lead at `now`."""
        return self.leads_from <= now < self.until

    def continues(self, term: int) -> bool:
        """Whether nobody else can have led since that term of ours."""
        return term >= self.origin


@dataclass(slots=True)
class Candidate(Tenure):
    """One contender. `identity` is of this process alone: a restarted one is another, and waits like any other.

    Times are of one monotonic clock [s]; the caller reads it, before a request it sends and after each answer.
    """

    identity: str
    terms: Terms
    ours_since_won: bool = False
    """Whether nobody else has had the Lease since our last term began, as far as we know."""
    given_up: bool = False
    """Whether this process leads no more, whatever the Lease says: it is ending."""
    _seen_at: float = math.inf
    _past_unknown: bool = False

    def observe(self, lease: Lease | None, at: float) -> None:
        """Take what was read (None: there is no Lease), the answer in hand at `at`."""
        if self._seen_at == math.inf or lease != self.seen:
            self._seen_at = at
        self.seen = lease
        if lease is None or not lease.used:
            self._past_unknown = True
        elif not self.mine:
            self._past_unknown = False
        if not self.mine:
            self.until, self.ours_since_won = NEVER, False

    def wrote(self, lease: Lease, sent: float, at: float, *, created: bool = False) -> None:
        """Our write was accepted: `lease` is the result, sent at `sent`, the answer in hand at `at`.

        `created`: there was none to write to, so nothing is known of who led meanwhile, a renewal or not.
        """
        self.seen, self._seen_at = lease, at
        self._past_unknown |= created
        # By when the answer is there, not when the write was sent: between the two we have said that we do not lead.
        if created or at >= self.until:
            self.term += 1
            if created or not self.ours_since_won:
                self.origin = self.term
            wait = max(self.terms.duration, lease.duration) if self._past_unknown else 0.0
            self.leads_from = max(self.leads_from, at + wait)
            self._past_unknown = False
        self.until, self.ours_since_won = sent + self.terms.renew_deadline, True

    @property
    def mine(self) -> bool:
        """Whether the Lease names us, as far as we know."""
        return self.seen is not None and self.seen.holder == self.identity

    def leads(self, now: float) -> bool:
        """Whether nobody else can lead at `now`, and we have not given up."""
        return not self.given_up and self.mine and self.leads_from <= now < self.until

    def fresh(self, now: float) -> bool:
        """Whether the Lease is ours so surely that it can be written without being read."""
        return self.mine and now < self.until

    def next_write(self, now: float) -> Write | None:
        """What to write now; None while another holds the Lease, nothing has been read, or the Lease is given up."""
        if self.given_up or self._seen_at == math.inf:
            return None
        if self.seen is None:
            return "create"
        if self.mine:
            return "renew"
        if not self.seen.holder:
            return "take"
        expired = now - self._seen_at >= max(self.terms.duration, self.seen.duration)
        return "take" if expired else None

    def pause(self, now: float) -> float:
        """Seconds until the next step: a retry period, or less where another's Lease ends before."""
        if self.mine or self.seen is None or not self.seen.holder:
            return self.terms.retry_period
        left = self._seen_at + max(self.terms.duration, self.seen.duration) - now
        return min(self.terms.retry_period, left) if left > 0 else self.terms.retry_period

    def manifest(self, write: Write, namespace: str, name: str, stamp: str) -> RawObject:
        """The Lease to send; what others put on it stays. `stamp`: time of day, for people to read."""
        known: dict[str, Any] = self.seen.raw if self.seen else {}
        spec = dict(known.get("spec") or {})
        spec |= {
            "holderIdentity": self.identity,
            "leaseDurationSeconds": math.ceil(self.terms.duration),
            "renewTime": stamp,
        }
        if write != "renew":
            before = self.seen.transitions if self.seen else 0
            spec |= {"acquireTime": stamp, "leaseTransitions": before + 1}
        return _manifest(known, namespace, name, spec)

    def released(self, namespace: str, name: str, stamp: str, now: float) -> RawObject | None:
        """The Lease given up, which the next may take at once.

        None where it is not ours or does not let us lead yet: who led before may lead still, and the next would not
        wait.
        """
        if self.seen is None or not self.mine or now < self.leads_from:
            return None
        spec = dict(self.seen.raw.get("spec") or {}) | {"holderIdentity": "", "renewTime": stamp}
        return _manifest(self.seen.raw, namespace, name, spec)


def signed(raw: RawObject, sign: str) -> bool | None:
    """Whether an annotation of a raw Lease says the identity of its holder, and so was written for it; None: nobody
    holds it.
    """
    holder = (raw.get("spec") or {}).get("holderIdentity")
    annotations = (raw.get("metadata") or {}).get("annotations") or {}
    return annotations.get(sign) == holder if holder else None


def _manifest(known: RawObject, namespace: str, name: str, spec: RawObject) -> RawObject:
    metadata = dict(known.get("metadata") or {}) | {"namespace": namespace, "name": name}
    metadata.pop("managedFields", None)
    return {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": spec}


def stamp_of(identity: str, term: int, secret: str) -> str:
    """A label's value for a term: of 32 characters, however long the identity is, and never written before.

    An identity is of one process and a term is won once. Events expose both to tenants, and an object that carries the
    stamp passes for fenced; `secret` stops a tenant from forging it. Who copies the stamp from a fenced object writes
    later than all that an earlier leader can know.
    """
    return hashlib.blake2b(f"{identity}/{term}/{secret}".encode(), digest_size=16).hexdigest()


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
