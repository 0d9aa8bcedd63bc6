"""Breadth-first search: visits every state once, by its key, and checks every law."""

from __future__ import annotations

import gc
import logging
import time
from collections import deque
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from modelcheck.canon import key, parts
from modelcheck.laws import broken
from modelcheck.steps import SLOT_AT, Step, perform, possible
from modelcheck.truth import Scope
from modelcheck.world import World


def _nothing(_: World) -> None:
    """Who visits where nobody looks."""


@dataclass(frozen=True, slots=True)
class Finding:
    """Result of a search; `trace` leads to the state with `wrong`."""

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
    world: World
    pods: tuple[int, ...]
    """Number per pod, as in its key."""


def explore(
    scope: Scope, most: int = 10_000_000, *, remember: bool = True, visit: Callable[[World], None] = _nothing
) -> Finding:
    """Visits every state of a scope, at most `most`, up to the first that breaks a law.

    `remember` False: the shipped code runs on every path, and must find the same. `visit`: called with every state,
    unchanged.
    """
    logging.disable(logging.CRITICAL)
    try:
        with _seldom_collected():
            return _Search(scope, most, visit, remember=remember).run()
    finally:
        logging.disable(logging.NOTSET)


class _Search:
    """Parents of states by number, keys seen, states to expand."""

    def __init__(self, scope: Scope, most: int, visit: Callable[[World], None], *, remember: bool) -> None:
        start = World.new(scope, remember=remember)
        whole = parts(start)
        self.scope, self.most, self.visit = scope, most, visit
        self.parents: list[tuple[int, Step]] = [(-1, ())]
        self.seen: set[Hashable] = {key(whole)}
        self.frontier = deque([_Node(0, 0, start, whole[1])])
        self.transitions = 0
        self.began = time.process_time()
        visit(start)

    def run(self) -> Finding:
        node = self.frontier[0]
        while self.frontier and len(self.seen) < self.most:
            node = self.frontier.popleft()
            wrong = self._expand(node)
            if wrong is not None:
                return self._finding(len(self._trace()), wrong, self._trace())
        return self._finding(node.depth)

    def _expand(self, node: _Node) -> str | None:
        """Takes every step of this state; returns what is wrong."""
        for step in _unlike(node.world, node.pods):
            child = node.world.copy()
            self.transitions += 1
            wrong = _perform(child, step)
            whole = parts(child)
            if (there := key(whole)) in self.seen and wrong is None:
                continue
            self.seen.add(there)
            self.parents.append((node.number, step))
            self.frontier.append(_Node(len(self.parents) - 1, node.depth + 1, child, whole[1]))
            self.visit(child)
            wrong = wrong or broken(child)
            if wrong is not None:
                return wrong
        return None

    def _finding(self, depth: int, wrong: str | None = None, trace: tuple[Step, ...] = ()) -> Finding:
        seconds = time.process_time() - self.began
        complete = not self.frontier or wrong is not None
        return Finding(self.scope.name, len(self.seen), self.transitions, depth, seconds, wrong, trace, complete)

    def _trace(self) -> tuple[Step, ...]:
        """Steps to the newest state."""
        number, steps = len(self.parents) - 1, []
        while number > 0:
            number, step = self.parents[number]
            steps.append(step)
        return tuple(reversed(steps))


def _unlike(world: World, pods: tuple[int, ...]) -> list[Step]:
    """One of the steps that differ only in equal pods."""
    found: dict[tuple[object, ...], Step] = {}
    for step in possible(world):
        kind, *about = step
        place = SLOT_AT.get(kind)
        alike = step if place is None else (kind, *about[:place], pods[about[place]], *about[place + 1 :])
        found.setdefault(alike, step)
    return list(found.values())


@contextmanager
def _seldom_collected() -> Iterator[None]:
    """Few processes die: collecting cycles each time is most of the work."""
    before = gc.get_threshold()
    gc.set_threshold(50_000, 100, 1_000)
    try:
        yield
    finally:
        gc.set_threshold(*before)


def _perform(world: World, step: Step) -> str | None:
    """Takes a step; an error is wrong too."""
    try:
        perform(world, step)
    except Exception as error:  # reported with its trace
        return f"{type(error).__name__}: {error}"
    return None
