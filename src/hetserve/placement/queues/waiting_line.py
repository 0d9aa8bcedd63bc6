"""Rounds over pods that are kept sorted (decision 0034)."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from heapq import merge
from itertools import chain
from typing import Final

from hetserve.base.units import MiB, Seconds
from hetserve.placement.queues.clustering import Partition, Shape
from hetserve.placement.queues.rounds import (
    Entry,
    Fairness,
    QueueSettings,
    Release,
    Round,
    RoundInProgress,
    Waiting,
    entry,
)

MANY: Final = 64
"""New pods from which sorting all is cheaper than ranking each."""


@dataclass(slots=True)
class _Level:
    """The pods of one priority, by shape and by queue, each in order."""

    shapes: dict[Shape, list[Entry]] = field(default_factory=dict)
    lines: dict[int, list[Entry]] = field(default_factory=dict)
    partition: Partition | None = None

    def put(self, pod: Waiting) -> None:
        insort(self.shapes.setdefault(pod.shape, []), entry(pod))
        line = self._line_of(pod.shape)
        if line is not None:
            insort(line, entry(pod))

    def discard(self, pod: Waiting) -> None:
        held = self.shapes[pod.shape]
        _remove(held, entry(pod))
        if not held:
            del self.shapes[pod.shape]
        line = self._line_of(pod.shape)
        if line is not None:
            _remove(line, entry(pod))

    def rank(self, pod: Waiting) -> int:
        return sum(bisect_left(held, entry(pod)) for held in self.shapes.values())

    def ranks(self) -> dict[str, int]:
        return {pod.uid: rank for rank, (*_, pod) in enumerate(sorted(chain(*self.shapes.values())))}

    def follow(self, partition: Partition) -> None:
        """Sorts the pods into the queues of a new partition."""
        before, self.partition = self.partition, partition
        if partition is before:
            return
        if before is not None and partition.basis is before.basis:
            for shape in self.shapes.keys() - before.queue_of.keys():
                for pod in self.shapes[shape]:
                    insort(self.lines[partition.queue_of[shape]], pod)
            return
        by_queue: dict[int, list[list[Entry]]] = {}
        for shape, pods in self.shapes.items():
            by_queue.setdefault(partition.queue_of[shape], []).append(pods)
        self.lines = {id_: list(merge(*parts)) for id_, parts in by_queue.items()}

    def _line_of(self, shape: Shape) -> list[Entry] | None:
        if self.partition is None or shape not in self.partition.queue_of:
            return None
        return self.lines.setdefault(self.partition.queue_of[shape], [])


@dataclass(slots=True, eq=False)
class _InLine:
    """`due`: the number of the release by which it is released; None before its first round."""

    pod: Waiting
    due: int | None = None


@dataclass(slots=True)
class WaitingLine:
    settings: QueueSettings
    fairness: Fairness = field(default_factory=Fairness)
    _pods: dict[str, _InLine] = field(default_factory=dict)
    _levels: dict[int, _Level] = field(default_factory=dict)
    _released: dict[int, int] = field(default_factory=dict)
    _new: set[_InLine] = field(default_factory=set)

    def __len__(self) -> int:
        return len(self._pods)

    def __contains__(self, uid: object) -> bool:
        return uid in self._pods

    def __iter__(self) -> Iterator[Waiting]:
        return (held.pod for held in self._pods.values())

    def put(self, pod: Waiting) -> None:
        """Adds or replaces a pod; `due` stays unless the priority changes."""
        known = self._pods.get(pod.uid)
        if known is not None and known.pod == pod:
            return
        due = known.due if known is not None and known.pod.priority == pod.priority else None
        if known is not None:
            self.discard(pod.uid)
        held = self._pods[pod.uid] = _InLine(pod, due)
        self._levels.setdefault(pod.priority, _Level()).put(pod)
        if due is None:
            self._new.add(held)

    def discard(self, uid: str) -> None:
        held = self._pods.pop(uid, None)
        if held is None:
            return
        self._new.discard(held)
        level = self._levels[held.pod.priority]
        level.discard(held.pod)
        if not level.shapes:
            del self._levels[held.pod.priority]

    def round(self, *, outstanding: int, now: Seconds, largest_gpu: MiB) -> Round:
        """Chooses the pods to release now; at most beta are released and unbound. Higher priorities go first.

        outstanding: released and unbound pods, without unschedulable ones. now: on the clock of `Waiting.since`.
        largest_gpu: scales memory. The releases stay here until they are discarded.
        """
        self._set_due()
        slots = max(self.settings.beta - outstanding, 0)
        turns = RoundInProgress(now, self.settings, slots, self.fairness)
        for priority in sorted(self._levels, reverse=True):
            level = self._levels[priority]
            counts = {shape: len(pods) for shape, pods in level.shapes.items()}
            level.follow(turns.partition(priority, counts, largest_gpu))
            turns.release(priority, counts, level.lines)
        made = turns.result()
        self.fairness = made.fairness
        return replace(made, releases=tuple(map(self._numbered, made.releases)))

    def _set_due(self) -> None:
        levels = self._levels.values() if len(self._new) >= MANY else ()
        ranks = {uid: rank for level in levels for uid, rank in level.ranks().items()}
        for held in self._new:
            priority = held.pod.priority
            rank = ranks[held.pod.uid] if ranks else self._levels[priority].rank(held.pod)
            held.due = self._released.get(priority, 0) + self.settings.oldest_every * (rank + 1)
        self._new.clear()

    def _numbered(self, release: Release) -> Release:
        priority, due = release.pod.priority, self._pods[release.pod.uid].due
        if due is None:
            raise RuntimeError(f"pod {release.pod.uid} was released by a round that it was not in")
        number = self._released[priority] = self._released.get(priority, 0) + 1
        return replace(release, number=number, due=due)


def _remove(pods: list[Entry], gone: Entry) -> None:
    del pods[bisect_left(pods, gone)]
