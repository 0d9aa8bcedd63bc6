"""The dispatch policies."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from hetserve.registry.members import Member, Registry


@dataclass(frozen=True, slots=True, kw_only=True)
class DispatchMember(Member):
    """Its function is a `hetserve.dispatch.PolicyFactory`.

    default: serves if nobody names one. compared: `hetserve compare` takes it by default. climbs: the setting, an index
    into the batch sizes, that hill climbing finds.
    """

    default: bool = False
    compared: bool = False
    climbs: str | None = None


DISPATCH_POLICIES: Final = Registry(
    DispatchMember(
        name="hetserve",
        where="hetserve.dispatch.hetserve:policy",
        about="what has to start soonest, where it costs least; keeps large queries from starving",
        default=True,
        compared=True,
    ),
    DispatchMember(name="kairos", where="hetserve.dispatch.kairos:policy", about="the paper's matching", compared=True),
    DispatchMember(
        name="clockwork-least-wait",
        where="hetserve.dispatch.clockwork:least_wait",
        about="Clockwork: of the instances that meet the SLO, the one that starts first",
        compared=True,
    ),
    DispatchMember(
        name="fcfs",
        where="hetserve.dispatch.fcfs:policy",
        about="the head of the queue to the first idle instance",
        compared=True,
    ),
    DispatchMember(
        name="threshold",
        where="hetserve.dispatch.threshold:policy",
        about="DeepRecSys, climbing to its threshold",
        climbs="size",
    ),
    DispatchMember(
        name="clockwork-earliest",
        where="hetserve.dispatch.clockwork:earliest_completion",
        about="Clockwork: of the instances that meet the SLO, the one that finishes first",
    ),
)


def default_dispatch_policy() -> str:
    return next(member.name for member in DISPATCH_POLICIES if member.default)
