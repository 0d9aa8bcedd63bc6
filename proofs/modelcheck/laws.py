"""What must hold in every state; each law returns what is wrong."""

from __future__ import annotations

from collections.abc import Iterator

from hetserve.placement.ledger.bookings import UNNAMED, Booking, State
from modelcheck.automaton import Known
from modelcheck.truth import PodTruth, places
from modelcheck.world import World


def broken(world: World) -> str | None:
    """The first broken law."""
    return next(_broken(world), None)


def _broken(world: World) -> Iterator[str]:
    yield from world.scope.shape.wrong(tuple(world.pods))
    for who, process in enumerate(world.processes):
        if process.serves and who != world.unaware:  # the scheduler that asked this one has ended
            yield from _held_but_believed_free(world, process)
        yield from process.wrong
        if world.wires[who].listing is None and who not in world.retired:
            yield from _not_at_rest(world, who, process)


def _held_but_believed_free(world: World, process: Known) -> Iterator[str]:
    """A process that may decide knows every held GPU."""
    for pod in world.unfinished():
        held = places(pod)
        booking = process.bookings.get(pod.uid)
        if held and (booking is None or not _says(booking, pod)):
            yield f"pod {pod.uid} holds {held}, the deciding ledger says {booking and booking.places}"
        declared = world.scope.shape.pods[pod.slot].compute
        if held and booking is not None and booking.request.booked_compute != declared:
            yield f"pod {pod.uid} declares {declared} %, the deciding ledger says {booking.request.booked_compute}"


def _says(booking: Booking, pod: PodTruth) -> bool:
    """Whether a booking keeps what the pod holds, or the node is closed."""
    closed = pod.stripped and (str(pod.node), UNNAMED) in booking.places
    return closed or tuple(booking.places) == places(pod)


def _not_at_rest(world: World, who: int, process: Known) -> Iterator[str]:
    """With nothing on its way, the ledger holds what the annotations say."""
    for slot, pod in enumerate(world.pods):
        if slot in world.wires[who].pods or any(r.slot == slot and r.who == who for r in world.requests):
            continue
        for incarnation in range(1, world.born[slot] + 1):
            uid = f"pod{slot}-{incarnation}"
            booking = process.bookings.get(uid)
            if uid in process.running or (booking is not None and booking.state is State.RESERVED):
                continue
            if booking is not None and not booking.confirmed and booking.deadline is not None:
                continue
            waits = pod is not None and pod.uid == uid and pod.node is None and not pod.finished
            if (uid in process.unbound) != waits:
                yield f"at rest: pod {uid} {'waits' if waits else 'does not wait'}, process {who} says otherwise"
            held = places(pod) if pod is not None and pod.uid == uid else ()
            booked = () if booking is None else tuple(booking.places)
            if booked != held and not (held and booking is not None and pod is not None and _says(booking, pod)):
                yield f"at rest: pod {uid} holds {held or 'nothing'}, the ledger of process {who} says {booked}"
