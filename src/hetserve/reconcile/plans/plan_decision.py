"""The decision for one service, before anything follows it: conditions, and the plan in force."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final

from hetserve.api.conditions import Reason
from hetserve.api.inference_service import InferenceService
from hetserve.base.units import QPS, MicroDollarsPerHour, Seconds, parse_money
from hetserve.planning.offers import Offer
from hetserve.reconcile.plans.plan_record import Json, PlanRecord
from hetserve.scaling.dead_band import DeadBand
from hetserve.scaling.record.record import DecisionRecord


@dataclass(frozen=True, slots=True)
class Finding:
    """Status, reason and message of one condition."""

    status: str
    reason: str
    message: str

    @classmethod
    def stored(cls, condition: Mapping[str, Any] | None) -> Finding | None:
        """Of a condition as a status has it; None: there is none."""
        if condition is None:
            return None
        return cls(*(str(condition.get(key) or "") for key in ("status", "reason", "message")))

    def as_stored(self, stored: Finding | None) -> Finding:
        """The stored finding, where no more than the message differs."""
        same = stored is not None and (stored.status, stored.reason) == (self.status, self.reason)
        return stored if same and stored is not None else self


NOT_PLANNED: Final = Finding("Unknown", Reason.NOT_PLANNED, "")


class PlanState(Enum):
    """What is done about the plan of a decision."""

    AWAITED = "until the planner answers there is no plan to follow: nothing to do or to say"
    UNFOLLOWED = "what runs stays: there is no feasible plan, the inputs cannot be planned, or only advice is asked for"
    FOLLOWED = "Deployments are brought to the recorded plan"
    NEW = "it is recorded before it is followed"


@dataclass(frozen=True, slots=True)
class Following:
    """How a service with spec.scaling follows its load.

    active, limited: the conditions ScalingActive and ScalingLimited; None: as stored. load: queries/s now, None: not
    known or not fresh. holders: the counts that were in force when it was decided. capacity: queries/s that they hold;
    None: not known yet, or not of what runs. dead_band: loads at which the decision stays. stays: it stays for want of
    samples, and no room changes that. growing: it waits for a plan of more instances.
    turns_in: seconds until it may be another one though nothing else has changed. known: for status.capacity: what
    planners answered of the counts in force. pending: one has yet to.
    """

    active: Finding
    limited: Finding | None = None
    load: QPS | None = None
    capacity: QPS | None = None
    dead_band: DeadBand | None = None
    stays: bool = False
    growing: bool = False
    turns_in: Seconds | None = None
    known: Json | None = None
    pending: bool = False
    holders: Mapping[str, int] = field(default_factory=dict)

    @property
    def withheld(self) -> bool:
        """Whether spec.pause holds back what the load asks for."""
        return self.limited is not None and self.limited.reason == Reason.PAUSED


@dataclass(frozen=True, slots=True)
class Explained:
    """A change of the plan that was decided by what is measured.

    entry: of status.lastDecisions. record: the same with all that it stands on; None: advice, which has none.
    """

    entry: Json
    record: DecisionRecord | None = None


@dataclass(frozen=True, slots=True)
class PlanDecision:
    """The decision for one service: conditions, and the plan in force.

    record: the plan in force. ideal: no plan for an empty cluster is better, whether it is followed or only advised.
    following: None without spec.scaling. explained: of a new plan that was decided by what is measured. advice: of
    status.advice: what would be done, where spec.mode is Advise.
    """

    planned: Finding
    feasible: Finding
    profiles: Finding
    record: PlanRecord | None = None
    state: PlanState = PlanState.UNFOLLOWED
    ideal: bool = False
    service: InferenceService | None = None
    offers: Mapping[str, Offer] = field(default_factory=dict)
    following: Following | None = None
    explained: Explained | None = None
    advice: Json | None = None

    @property
    def is_new(self) -> bool:
        return self.state is PlanState.NEW

    @property
    def waits(self) -> bool:
        """Whether a planner has yet to answer what the decision stands on."""
        return self.state is PlanState.AWAITED or (self.following is not None and self.following.pending)

    @property
    def is_followed(self) -> bool:
        """Whether Deployments are brought to it, once it is recorded."""
        return self.state in (PlanState.FOLLOWED, PlanState.NEW)

    @property
    def advises(self) -> bool:
        """Whether nothing but the status is written."""
        return self.service is not None and self.service.spec.mode == "Advise"

    @property
    def counts(self) -> dict[str, int]:
        return {} if self.record is None else self.record.nonzero

    @property
    def total(self) -> int:
        """Instances of all types together."""
        return 0 if self.record is None else self.record.total

    @property
    def budget(self) -> MicroDollarsPerHour | None:
        budget = None if self.service is None else self.service.spec.budget
        return None if budget is None else parse_money(budget.hourly)

    @property
    def ceiling(self) -> MicroDollarsPerHour | None:
        """What may run at most: for the budget, or for what the plan in force costs, where that is kept above it."""
        budget = self.budget
        if budget is None or not self.is_followed or self.record is None or self._shrinks:
            return budget
        return max(budget, self.record.cost)

    @property
    def shrinks(self) -> bool:
        """Whether the budget is obeyed even where no plan fits it, or none is known."""
        return self._shrinks and not self.advises

    @property
    def _shrinks(self) -> bool:
        budget = None if self.service is None else self.service.spec.budget
        return budget is not None and budget.when_too_low == "Shrink"


def read_status(raw: Mapping[str, Any]) -> Mapping[str, Any]:
    """Status of a raw object; empty if there is none."""
    status = raw.get("status")
    return status if isinstance(status, Mapping) else {}
