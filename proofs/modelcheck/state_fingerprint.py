"""What tells two states of a process apart: equal fingerprints mean that equal inputs have equal effects.

It is made of public values: the ledger's, the sinks', and those of the machines for binds, the leadership and the
election. One part per pod, which does not name it, and one about all else. Times count from now, in two scales: what
ends a reservation is short beside what ends a doubt, so deadlines that are a reservation apart are one.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from functools import cache
from typing import Any, Final

from hetserve.placement import Booking, State
from hetserve.placement.placer import VERIFY_AFTER
from hetserve_extender.leader.leadership import Leadership, LeadershipState
from modelcheck.process import HOLD, Memory, Process

_numbers: Final[dict[Hashable, int]] = {}

Fingerprint = tuple[str, tuple[str, ...]]
"""All but the pods, and a part per pod in their order."""


def fingerprint(process: Process) -> Fingerprint:
    memory, scope = process.memory, process.scope
    nodes = sorted((node.name, node.uid) for node in memory.placer.ledger.index.nodes)
    whole = repr((memory.ready, nodes, _leadership(memory)))
    timed = set(memory.placer.ledger.deadlines())
    return whole, tuple(
        without_name(repr(list(_pod(memory, timed, slot, scope.incarnations))), slot)
        for slot in range(len(scope.shape.pods))
    )


def numbered(value: Hashable) -> int:
    """The number of a value; equal ones have one number, and they live as long as Python does."""
    return _numbers.setdefault(value, len(_numbers))


def without_name(text: str, slot: int) -> str:
    return text.replace(f"pod{slot}", "pod*").replace(f"slot={slot}", "slot=*")


@cache
def _text(value: Hashable) -> str:
    """Text of a value that never changes; there are few of them, and writing them takes long."""
    return repr(value)


def _pod(memory: Memory, timed: set[tuple[float, str]], slot: int, incarnations: int) -> Iterator[Any]:
    fence = memory.fence
    for incarnation in range(1, incarnations + 1):
        uid = f"pod{slot}-{incarnation}"
        booking = memory.placer.ledger.booking(uid)
        yield None if booking is None else (*_booking(booking, memory.clock.now), _rank(memory, booking))
        # Whether its deadline will end or name a booking; an outdated entry about its pod does nothing, now or later.
        yield booking is not None and (booking.deadline, uid) in timed
        yield _text(memory.placer.pods.get(uid)), _text(memory.sink.unbound.get(uid))
        yield _bind(memory, uid), _waits_to_be_read(memory, uid, booking)
        yield None if fence is None else (uid in fence.unshown, uid in fence.in_flight, uid in fence.failed)


def _booking(booking: Booking, now: float) -> tuple[Any, ...]:
    left = None if booking.deadline is None else _left(booking.deadline - now)
    settled = booking.confirmed, booking.other_models, booking.through, booking.unread
    return _text(booking.request), booking.places, booking.mib, booking.state.value, left, *settled


def _left(seconds: float) -> tuple[Any, ...]:
    """How long until a deadline; of a doubt also whether it is of this moment: of two, the older is looked up first."""
    return seconds > 0, round(seconds), seconds >= VERIFY_AFTER - HOLD / 2


def _rank(memory: Memory, booking: Booking) -> int:
    """Place among bookings that are due together: housekeeping begins to read them in the order of their UIDs."""
    if booking.deadline is None or booking.state is State.RESERVED:
        return 0
    others = memory.placer.ledger.bookings().values()
    return sum(o.deadline is not None and (o.deadline, o.request.uid) < _due(booking) for o in others)


def _due(booking: Booking) -> tuple[float, str]:
    return booking.deadline or 0.0, booking.request.uid


def _bind(memory: Memory, uid: str) -> Any:
    bind = memory.binds.running.get(uid)
    return None if bind is None else (bind.args.node, bind.verifies, _text((type(bind.state).__name__, bind.state)))


def _waits_to_be_read(memory: Memory, uid: str, booking: Booking | None) -> list[tuple[int, bool]]:
    """The place of a bind in doubt among those that are read after others, and whether it is still that bind."""
    waiting = enumerate(memory.binds.overdue)
    return [(place, one is booking) for place, one in waiting if one.request.uid == uid]


def _leadership(memory: Memory) -> Any:
    """Whether it serves, how far its take-over and its end are, what it knows of terms.

    Terms that are over count too: that they do is what the shipped code has to know, not the check.
    """
    leadership = memory.leadership
    if leadership is None:
        return None
    candidate = memory.election.candidate
    term = candidate.term if candidate.leads(memory.election.clock.now) else None
    since = candidate.ours_since_won and candidate.origin
    handed_over = leadership.state is LeadershipState.LISTING and candidate.handed_over
    terms = term, leadership.served, since, handed_over
    ending = memory.giving_up, memory.gave_up
    return leadership.state.name, terms, memory.list_awaited, ending, _take_over(leadership, memory)


def _take_over(leadership: Leadership, memory: Memory) -> Any:
    """How far a take-over is that a term may go on with; the pods of its fence are told with each pod."""
    known = leadership.take_over
    if known is None:
        return None
    lists = memory.listing.lists > known.listed_after, memory.listing.taken > known.listed_after
    return known.term, known.fence.began is not None, known.fence.state.name, known.unshown_after is not None, lists
