"""Steps about who leads: a change of leader, a lapse of the Lease, an end in order, a start."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

from modelcheck.election import NOBODY, OTHER, identity
from modelcheck.world import World

CHANGES: Final = frozenset({"promote", "lapse", "end"})
"""Counted each for itself, not among the faults of a scope."""


def leader_steps(world: World, who: int) -> Iterator[tuple[Any, ...]]:
    """What can happen to a process that is followed."""
    process = world.processes[who]
    if len(world.processes) == 1:
        yield ("restart", who)
    elif who != world.leader:
        yield ("restart", who)
        if process.ready:
            yield ("promote", who)
    elif world.lapsed:
        yield ("win back", who)
        yield ("end", who)
    elif process.giving_up:
        yield ("give up", who)
    else:
        yield ("lapse", who)
        yield ("end", who)


def restart(world: World, who: int) -> None:
    """The process is killed and a new one lists; what it sent is cut off with its connection, or was carried out."""
    world.requests = [request for request in world.requests if request.who != who]
    world.start(who)


def start(world: World, who: int) -> None:
    """A process that has ended is followed by a new one; what the old one sent may still land."""
    world.retired -= {who}
    world.ended -= {who}
    world.start(who)


def retire_followers(world: World) -> None:
    """Where the leader stays the leader for ever, the other processes are followed no further."""
    if world.spent.get("promote", 0) >= world.scope.limits.get("promote", 0):
        for who in {*range(len(world.processes))} - world.retired - {world.leader}:
            world.retire(who)


def _promote(world: World, who: int) -> None:
    """The Lease changes hands: the old leader believes no longer that it leads, the new one takes over."""
    before = world.leader
    world.tell(before, "follow")
    _drop_takeover(world)
    if world.processes[before].giving_up:
        world.end(before)
    world.leader, world.term = who, world.term + 1
    world.tell(who, "lead", world.term, NOBODY if world.free else OTHER)
    world.lapsed = world.free = False


def _lapse(world: World, who: int) -> None:
    """The leader could not renew the Lease in time, and nobody has taken it yet."""
    world.lapsed = True
    world.tell(who, "lapse")
    _drop_takeover(world)


def _win_back(world: World, who: int) -> None:
    """The leader renews the Lease after all: a new term of its own, with nobody's between."""
    world.lapsed, world.term = False, world.term + 1
    world.tell(who, "lead", world.term, identity(who))


def _end(world: World, who: int) -> None:
    """The leader is told to end, and has waited for what is under way as long as it does; it may give the Lease up."""
    world.tell(who, "end")
    if not world.processes[who].giving_up:
        world.end(who)


def _give_up(world: World, who: int) -> None:
    """The Lease is given up: the next takes it at once, and raises no fence."""
    world.tell(who, "give_up")
    world.free = world.processes[who].gave_up
    world.end(who)


def _drop_takeover(world: World) -> None:
    """The leader's take-over is over; nobody waits for its requests."""
    world.abandon(request for request in world.requests if request.who == world.leader and not request.ticket.owner)


PERFORM: Final[dict[str, Callable[..., None]]] = {
    "restart": restart,
    "start": start,
    "promote": _promote,
    "lapse": _lapse,
    "win back": _win_back,
    "end": _end,
    "give up": _give_up,
}
