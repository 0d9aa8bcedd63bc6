"""What must hold in every state of a process; each law returns what is wrong."""

from __future__ import annotations

from collections.abc import Iterator

from hetserve.objects.resources import WHOLE_COMPUTE
from modelcheck.process import Process


def broken_within(process: Process) -> Iterator[str]:
    yield from _never_ends(process)
    yield from _search_structure(process)


def _never_ends(process: Process) -> Iterator[str]:
    """What is unconfirmed ends by a deadline or a bind under way."""
    memory = process.memory
    ledger, binds = memory.placer.ledger, memory.binds
    timed = set(ledger.deadlines())
    for uid, booking in ledger.bookings().items():
        if booking.confirmed or uid in binds.running or any(b is booking for b in binds.overdue):
            continue
        if booking.deadline is None or (booking.deadline, uid) not in timed:
            yield f"the booking of {uid} ({booking.state.value}) leaks: nothing will ever end or confirm it"


def _search_structure(process: Process) -> Iterator[str]:
    """The search structure equals the bookings."""
    ledger = process.memory.placer.ledger
    index = ledger.index
    for use in ledger.gpus():
        row = index.row[use.node, use.gpu.id]
        if int(index.free[row]) != use.free_mib or bool(index.idle[row]) != (not use.bookings):
            yield f"GPU {use.gpu.id} of {use.node}: index {int(index.free[row])} MiB, bookings {use.free_mib} MiB"
        compute = WHOLE_COMPUTE - int(index.free_compute[row]), int(index.undeclared[row])
        if compute != (use.booked_compute, len(use.undeclared)):
            there = use.booked_compute, len(use.undeclared)
            yield f"GPU {use.gpu.id} of {use.node}: index {compute} (percent, undeclared pods), bookings {there}"
