"""What must hold in every state; each law returns what is wrong, in words."""

from __future__ import annotations

from collections.abc import Iterator

from hetserve.placement import Booking, State
from hetserve.placement.bookings import UNNAMED
from modelcheck.extender import Extender
from modelcheck.truth import PodTruth, places
from modelcheck.world import World


def broken(world: World) -> str | None:
    """The first law that this state breaks."""
    return next(_broken(world), None)


def _broken(world: World) -> Iterator[str]:
    yield from world.scope.shape.wrong(tuple(world.pods))
    for who, extender in enumerate(world.extenders):
        if world.serves(who):
            yield from _held_but_believed_free(world, extender)
        yield from _never_ends(world, who, extender)
        yield from _search_structure(extender)
        if extender.listing is None:
            yield from _not_at_rest(world, who, extender)
    yield from world.loop.errors


def _held_but_believed_free(world: World, extender: Extender) -> Iterator[str]:
    """A process that may decide knows of every GPU that a pod holds."""
    for pod in world.unfinished():
        held = places(pod)
        booking = extender.placer.ledger.booking(pod.uid)
        if held and (booking is None or not _says(booking, pod)):
            yield f"pod {pod.uid} holds {held}, the deciding ledger says {booking and booking.places}"


def _says(booking: Booking, pod: PodTruth) -> bool:
    """Whether a booking keeps what the pod holds; of one that no longer says where it runs, the node being closed."""
    closed = pod.stripped and (str(pod.node), UNNAMED) in booking.places
    return closed or tuple(booking.places) == places(pod)


def _never_ends(world: World, who: int, extender: Extender) -> Iterator[str]:
    """Whatever is booked and not confirmed ends by a deadline or by a task that runs."""
    running, timed = world.running[who], {tuple(entry) for entry in extender.placer.ledger._deadlines}
    for uid, booking in extender.placer.ledger.bookings().items():
        if booking.confirmed or uid in running.binder._running:
            continue
        looked_after = running.tidying and booking.deadline is not None and booking.deadline <= world.clock.now
        if not looked_after and (booking.deadline is None or (booking.deadline, uid) not in timed):
            yield f"the booking of {uid} ({booking.state.value}) leaks: nothing will ever end or confirm it"


def _search_structure(extender: Extender) -> Iterator[str]:
    """What decisions look at equals the bookings."""
    index = extender.placer.ledger.index
    for use in extender.placer.ledger.gpus():
        row = index.row[use.node, use.gpu.id]
        if int(index.free[row]) != use.free_mib or bool(index.idle[row]) != (not use.bookings):
            yield f"GPU {use.gpu.id} of {use.node}: index {int(index.free[row])} MiB, bookings {use.free_mib} MiB"


def _not_at_rest(world: World, who: int, extender: Extender) -> Iterator[str]:
    """Where nothing about a pod is on its way, the ledger holds for it what its annotations say."""
    ledger, running = extender.placer.ledger, world.running[who]
    for slot, pod in enumerate(world.pods):
        if slot in extender.pods or any(request.slot == slot for request in world.requests):
            continue
        for incarnation in range(1, world.born[slot] + 1):
            uid = f"pod{slot}-{incarnation}"
            booking = ledger.booking(uid)
            if uid in running.binder._running or (booking is not None and booking.state is State.RESERVED):
                continue
            if booking is not None and not booking.confirmed and booking.deadline is not None:
                continue
            waits = pod is not None and pod.uid == uid and pod.node is None and not pod.finished
            if (uid in extender.placer.pods) != waits:
                yield f"at rest: pod {uid} {'waits' if waits else 'does not wait'}, process {who} says otherwise"
            held = places(pod) if pod is not None and pod.uid == uid else ()
            booked = () if booking is None else tuple(booking.places)
            if booked != held and not (held and booking is not None and pod is not None and _says(booking, pod)):
                yield f"at rest: pod {uid} holds {held or 'nothing'}, the ledger of process {who} says {booked}"
