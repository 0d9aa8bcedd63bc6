"""Time: how far it may go, and its effects."""

from __future__ import annotations

from collections.abc import Iterator

from modelcheck.process import HOLD, SHORT
from modelcheck.world import World


def time_steps(world: World) -> Iterator[tuple[str, str]]:
    """Time passes up to the next deadline; before, everything due is done, and clients stop waiting.

    A retired process may have deadlines of both kinds.
    """
    if any(process.due for process in world.processes):
        return
    seconds = _until_next(world)
    if seconds is not None and (seconds <= SHORT or world.retired):
        yield ("time", "until reservations end")
    long = bool(world.retired and world.requests) if seconds is None else seconds > SHORT
    if long and not any(request.waits for request in world.requests):
        yield ("time", "until doubts are looked up")


def _until_next(world: World) -> float | None:
    return min((process.later for process in world.processes if process.later is not None), default=None)


def pass_time(world: World, until: str) -> None:
    """A short time ends no request; a long one all."""
    short = until == "until reservations end"
    seconds = HOLD if short and world.retired else _until_next(world) or 0.0
    for who in range(len(world.processes)):
        world.tell(who, "wait_for_reservations" if short else "wait_for_doubts", seconds)
    if not short:
        world.requests.clear()
