"""Breadth-first search over worlds.

Coroutines cannot be copied. A state without any is kept as bytes; one with some is the last such state on its
path and the steps since, which are taken again. Every state is visited once, by its key. Two things spare most of
that work: some worlds wait for their turn as they are, and a step that changed nothing leaves its world for the next.
"""

from __future__ import annotations

import gc
import logging
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from modelcheck.canon import digest, parts
from modelcheck.laws import broken
from modelcheck.parsing import parsing_once
from modelcheck.steps import SLOT_AT, Step, perform, possible
from modelcheck.world import Scope, World

KEPT: Final = 3_000
"""Worlds of the frontier that are kept as they are, some 30 KiB each; the others are made again in their turn."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What a search saw. `trace` leads from the start to the state in which `wrong` holds."""

    scope: str
    states: int
    transitions: int
    depth: int
    seconds: float
    wrong: str | None = None
    trace: tuple[Step, ...] = ()
    complete: bool = True


@dataclass(slots=True)
class _Node:
    number: int
    depth: int
    base: bytes
    steps: tuple[Step, ...]
    world: World | None


def explore(scope: Scope, most: int = 10_000_000) -> Finding:
    """Visit every state of a scope, at most `most`, and stop at the first that breaks a law."""
    logging.disable(logging.CRITICAL)  # a refused bind is no news here
    try:
        with parsing_once(), _seldom_collected():
            return _Search(scope, most).run()
    finally:
        logging.disable(logging.NOTSET)


class _Search:
    """A search under way: parents of all states by number, keys seen, states whose steps are still to take."""

    def __init__(self, scope: Scope, most: int) -> None:
        start = World.new(scope)
        self.scope, self.most = scope, most
        self.parents: list[tuple[int, Step]] = [(-1, ())]
        self.seen = {digest(parts(start))}
        self.frontier = deque([_Node(0, 0, start.snapshot(), (), start)])
        self.kept = 1
        self.transitions = 0
        self.began = time.process_time()

    def run(self) -> Finding:
        node = self.frontier[0]
        while self.frontier and len(self.seen) < self.most:
            node = self.frontier.popleft()
            wrong = self._expand(node, self._world(node))
            if wrong is not None:
                return self._finding(len(self._trace()), wrong, self._trace())
        return self._finding(node.depth)

    def _world(self, node: _Node) -> World:
        """The world of a state, which nobody else uses."""
        if node.world is None:
            return rebuilt(self.scope, node.base, node.steps)
        self.kept -= 1
        world, node.world = node.world, None
        return world

    def _expand(self, node: _Node, world: World) -> str | None:
        """Take every step that this state allows; what is wrong in a state that one leads to."""
        here = parts(world)
        child: World | None = world
        for step in _unlike(world, here[1]):
            child = child or rebuilt(self.scope, node.base, node.steps)
            self.transitions += 1
            wrong = _perform(child, step)
            there = parts(child)
            if there == here and wrong is None:
                continue  # nothing changed, names included: the world serves for the next step too
            key = digest(there)
            if key not in self.seen or wrong is not None:
                self.seen.add(key)
                wrong = wrong or broken(child)
                self._keep(node, child, step)
            if wrong is not None:
                return wrong
            child = None
        return None

    def _keep(self, node: _Node, child: World, step: Step) -> None:
        """Put a new state into the line."""
        self.parents.append((node.number, step))
        base, steps = (child.snapshot(), ()) if child.quiet else (node.base, (*node.steps, step))
        self.kept += (live := self.kept < KEPT)
        self.frontier.append(_Node(len(self.parents) - 1, node.depth + 1, base, steps, child if live else None))

    def _finding(self, depth: int, wrong: str | None = None, trace: tuple[Step, ...] = ()) -> Finding:
        seconds = time.process_time() - self.began
        complete = not self.frontier or wrong is not None
        return Finding(self.scope.name, len(self.seen), self.transitions, depth, seconds, wrong, trace, complete)

    def _trace(self) -> tuple[Step, ...]:
        """The steps that led to the newest state."""
        number, steps = len(self.parents) - 1, []
        while number > 0:
            number, step = self.parents[number]
            steps.append(step)
        return tuple(reversed(steps))


def _unlike(world: World, pods: tuple[str, ...]) -> list[Step]:
    """The steps to take, of those that differ only in which of two pods of equal parts they are about one."""
    found: dict[tuple[object, ...], Step] = {}
    for step in possible(world):
        kind, *about = step
        place = SLOT_AT.get(kind)
        alike = step if place is None else (kind, *about[:place], pods[about[place]], *about[place + 1 :])
        found.setdefault(alike, step)
    return list(found.values())


@contextmanager
def _seldom_collected() -> Iterator[None]:
    """Worlds are full of cycles but die young: looking through all that lives each time would be most of the work."""
    before = gc.get_threshold()
    gc.set_threshold(50_000, 20, 1_000)
    try:
        yield
    finally:
        gc.set_threshold(*before)


def rebuilt(scope: Scope, base: bytes, steps: tuple[Step, ...]) -> World:
    world = World.restored(scope, base)
    for step in steps:
        perform(world, step)
    return world


def _perform(world: World, step: Step) -> str | None:
    """Take a step; what it raises is wrong too."""
    try:
        perform(world, step)
    except Exception as error:  # the search reports it with the trace that led there
        return f"{type(error).__name__}: {error}"
    return None
