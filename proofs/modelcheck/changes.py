"""Steps of leadership: change, lapse, end in order, start."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

from modelcheck.election import OTHER, identity
from modelcheck.world import World

CHANGES: Final = frozenset({"promote", "lapse", "end", "release"})
"""Not counted among the faults of a scope."""


def leader_steps(world: World, who: int) -> Iterator[tuple[Any, ...]]:
    """Steps of a followed process."""
    process = world.processes[who]
    if len(world.processes) == 1:
        yield ("restart", who)
    elif who == world.unaware:
        yield ("notice", who)
    elif who != world.leader:
        yield ("restart", who)
        if process.ready and world.unaware < 0:
            yield ("promote", who)
            if world.serves(world.leader):
                yield ("release", who)
    elif world.lapsed:
        yield ("win back", who)
        yield ("end", who)
    else:
        yield ("lapse", who)
        yield ("end", who)


def restart(world: World, who: int) -> None:
    """Kills the process, and a new one lists; its requests are cut off or carried out."""
    world.requests = [request for request in world.requests if request.who != who]
    world.start(who)


def start(world: World, who: int) -> None:
    """A new process follows one that ended; requests of the old one may still land."""
    world.retired -= {who}
    world.ended -= {who}
    world.start(who)


def retire_followers(world: World) -> None:
    """If the leader stays for ever, the others are no longer followed."""
    if all(world.spent.get(kind, 0) >= world.scope.limits.get(kind, 0) for kind in ("promote", "release")):
        for who in {*range(len(world.processes))} - world.retired - {world.leader, world.unaware}:
            world.retire(who)


def _promote(world: World, who: int) -> None:
    """The Lease changes hands."""
    world.tell(world.leader, "follow")
    _drop_takeover(world)
    world.leader, world.term = who, world.term + 1
    world.tell(who, "lead", world.term, OTHER)
    world.lapsed = False


def _release(world: World, who: int) -> None:
    """The scheduler of the leader ends in order, and its extender has not read that: what it was asked for goes on."""
    world.unaware, world.leader, world.term = world.leader, who, world.term + 1
    world.tell(who, "lead", world.term, OTHER)


def _notice(world: World, who: int) -> None:
    """The extender of before reads the Lease."""
    world.tell(who, "follow")
    world.unaware = -1
    retire_followers(world)


def _lapse(world: World, who: int) -> None:
    """The leader does not renew in time, and nobody has taken the Lease."""
    world.lapsed = True
    world.tell(who, "lapse")
    _drop_takeover(world)


def _win_back(world: World, who: int) -> None:
    """The leader renews after all: a new term, none of another between."""
    world.lapsed, world.term = False, world.term + 1
    world.tell(who, "lead", world.term, identity(who))


def _end(world: World, who: int) -> None:
    """The leader ends in order."""
    world.end(who)


def _drop_takeover(world: World) -> None:
    """The take-over is over; nobody waits for its requests."""
    world.abandon(request for request in world.requests if request.who == world.leader and not request.ticket.owner)


PERFORM: Final[dict[str, Callable[..., None]]] = {
    "restart": restart,
    "start": start,
    "promote": _promote,
    "lapse": _lapse,
    "win back": _win_back,
    "end": _end,
    "release": _release,
    "notice": _notice,
}
