"""The rounds of `queues.next_round` without sorting every waiting pod for each of them.

Pods are kept sorted as they come and go, so a round costs what its queues and releases cost. With 10,000 pods
and a place that frees up every few milliseconds this is what keeps the scheduler busy. `next_round` stays the
definition: `tests/properties/test_placement_queues.py` holds the two together.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from heapq import merge
from itertools import chain
from typing import Final

from hetserve.placement.queues.clustering import Shape
from hetserve.placement.queues.partition import Partition
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
from hetserve.units import MiB, Seconds

MANY: Final = 64
"""New pods from which it is cheaper to sort all than to look for the place of each."""


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

    def older(self, pod: Waiting) -> int:
        """How many pods have waited longer."""
        return sum(bisect_left(held, entry(pod)) for held in self.shapes.values())

    def ages(self) -> dict[str, int]:
        """The same of every pod, by UID."""
        return {pod.uid: older for older, (*_, pod) in enumerate(sorted(chain(*self.shapes.values())))}

    def follow(self, partition: Partition) -> None:
        """Sort the pods into the queues of a new partition."""
        before, self.partition = self.partition, partition
        if partition is before:
            return
        if before is not None and partition.basis is before.basis:  # the same queues, joined by new shapes
            for shape in self.shapes.keys() - before.queue_of.keys():
                for pod in self.shapes[shape]:
                    insort(self.lines[partition.queue_of[shape]], pod)
            return
        by_queue: dict[int, list[list[Entry]]] = {}
        for shape, pods in self.shapes.items():
            by_queue.setdefault(partition.queue_of[shape], []).append(pods)
        self.lines = {id_: list(merge(*parts)) for id_, parts in by_queue.items()}

    def _line_of(self, shape: Shape) -> list[Entry] | None:
        """The queue of a shape; None for a shape that has none before the next round."""
        if self.partition is None or shape not in self.partition.queue_of:
            return None
        return self.lines.setdefault(self.partition.queue_of[shape], [])


@dataclass(slots=True)
class WaitingLine:
    """The waiting pods, and what the last round left to the next."""

    settings: QueueSettings
    fairness: Fairness = field(default_factory=Fairness)
    _pods: dict[str, Waiting] = field(default_factory=dict)
    _levels: dict[int, _Level] = field(default_factory=dict)
    _released: dict[int, int] = field(default_factory=dict)
    """How many releases of each priority were decided."""
    _due: dict[str, int] = field(default_factory=dict)
    """By which release of its priority each waiting pod is out, by the bound when it was first in a round."""
    _new: set[str] = field(default_factory=set)

    def __len__(self) -> int:
        return len(self._pods)

    def __contains__(self, uid: object) -> bool:
        return uid in self._pods

    def __iter__(self) -> Iterator[Waiting]:
        return iter(self._pods.values())

    def put(self, pod: Waiting) -> None:
        """Take a pod, or take it as it is now."""
        known = self._pods.get(pod.uid)
        if known == pod:
            return
        promised = self._due.get(pod.uid) if known is not None and known.priority == pod.priority else None
        if known is not None:
            self.discard(pod.uid)
        self._pods[pod.uid] = pod
        self._levels.setdefault(pod.priority, _Level()).put(pod)
        if promised is None:
            self._new.add(pod.uid)
        else:
            self._due[pod.uid] = promised

    def discard(self, uid: str) -> None:
        """Forget a pod, if it is here."""
        pod = self._pods.pop(uid, None)
        if pod is None:
            return
        self._due.pop(uid, None)
        self._new.discard(uid)
        level = self._levels[pod.priority]
        level.discard(pod)
        if not level.shapes:
            del self._levels[pod.priority]

    def round(self, *, outstanding: int, now: Seconds, largest_gpu: MiB) -> Round:
        """The round of `next_round` over the pods here; its releases stay here until they are discarded."""
        self._promise()
        slots = max(self.settings.beta - outstanding, 0)
        turns = RoundInProgress(now, self.settings, slots, self.fairness)
        for priority in sorted(self._levels, reverse=True):
            level = self._levels[priority]
            counts = {shape: len(pods) for shape, pods in level.shapes.items()}
            level.follow(turns.partition(priority, counts, largest_gpu))
            turns.release(priority, counts, level.lines)
        made = turns.result(f"{outstanding} of {self.settings.beta} released pods are unbound, {len(self)} wait")
        self.fairness = made.fairness
        return replace(made, releases=tuple(map(self._numbered, made.releases)))

    def _promise(self) -> None:
        """Note for each new pod when it is out at the latest: period x (older pods + 1) releases from now."""
        many = len(self._new) >= MANY
        ages = [level.ages() for level in self._levels.values()] if many else []
        older = {uid: count for level in ages for uid, count in level.items()}
        for uid in self._new:
            pod = self._pods[uid]
            count = older[uid] if many else self._levels[pod.priority].older(pod)
            self._due[uid] = self._released.get(pod.priority, 0) + self.settings.oldest_every * (count + 1)
        self._new.clear()

    def _numbered(self, release: Release) -> Release:
        priority = release.pod.priority
        number = self._released[priority] = self._released.get(priority, 0) + 1
        return replace(release, number=number, due=self._due[release.pod.uid])


def _remove(pods: list[Entry], gone: Entry) -> None:
    del pods[bisect_left(pods, gone)]
