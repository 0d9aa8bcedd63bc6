"""Breadth-first search over worlds.

Coroutines cannot be copied. A state without any is kept as bytes; one with some is the last such state on its
path and the steps since, which are taken again. Every state is visited once, by its key.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from dataclasses import dataclass

from modelcheck.canon import key
from modelcheck.laws import broken
from modelcheck.parsing import parsing_once
from modelcheck.steps import Step, perform, possible
from modelcheck.world import Scope, World


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


@dataclass(frozen=True, slots=True)
class _Node:
    number: int
    depth: int
    base: bytes
    steps: tuple[Step, ...]


def explore(scope: Scope, most: int = 10_000_000) -> Finding:
    """Visit every state of a scope, at most `most`, and stop at the first that breaks a law."""
    logging.disable(logging.CRITICAL)  # a refused bind is no news here
    try:
        with parsing_once():
            return _Search(scope, most).run()
    finally:
        logging.disable(logging.NOTSET)


class _Search:
    """A search under way: parents of all states by number, keys seen, states whose steps are still to take."""

    def __init__(self, scope: Scope, most: int) -> None:
        start = World.new(scope)
        self.scope, self.most = scope, most
        self.parents: list[tuple[int, Step]] = [(-1, ())]
        self.seen = {key(start)}
        self.frontier = deque([_Node(0, 0, start.snapshot(), ())])
        self.transitions = 0
        self.began = time.process_time()

    def run(self) -> Finding:
        node = self.frontier[0]
        while self.frontier and len(self.seen) < self.most:
            node = self.frontier.popleft()
            world = rebuilt(self.scope, node.base, node.steps)
            for number, step in enumerate(list(possible(world))):
                child = world if number == 0 else rebuilt(self.scope, node.base, node.steps)
                wrong = self._take(node, child, step)
                if wrong is not None:
                    return self._finding(len(self._trace()), wrong, self._trace())
        return self._finding(node.depth)

    def _take(self, node: _Node, child: World, step: Step) -> str | None:
        """Follow one step; what is wrong in the state that it leads to, if that is new."""
        self.transitions += 1
        wrong = _perform(child, step)
        digest = key(child)
        if digest in self.seen and wrong is None:
            return None
        self.seen.add(digest)
        self.parents.append((node.number, step))
        base, steps = (child.snapshot(), ()) if child.quiet else (node.base, (*node.steps, step))
        self.frontier.append(_Node(len(self.parents) - 1, node.depth + 1, base, steps))
        return wrong or broken(child)

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
