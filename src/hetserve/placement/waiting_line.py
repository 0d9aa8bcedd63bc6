"""The rounds of `queues.next_round` without sorting every waiting pod for each of them.

Pods are kept sorted as they come and go, so a round costs what its queues and releases cost. With 10,000 pods
and a place that frees up every few milliseconds this is what keeps the scheduler busy. `next_round` stays the
definition: `tests/properties/test_placement_queues.py` holds the two together.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator
from dataclasses import dataclass, field
from heapq import merge

from hetserve.placement.clustering import Shape
from hetserve.placement.partition import Partition
from hetserve.placement.queues import Entry, Fairness, QueueSettings, Round, RoundInProgress, Waiting, entry
from hetserve.units import MiB, Seconds


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
        if known is not None:
            self.discard(pod.uid)
        self._pods[pod.uid] = pod
        self._levels.setdefault(pod.priority, _Level()).put(pod)

    def discard(self, uid: str) -> None:
        """Forget a pod, if it is here."""
        pod = self._pods.pop(uid, None)
        if pod is None:
            return
        level = self._levels[pod.priority]
        level.discard(pod)
        if not level.shapes:
            del self._levels[pod.priority]

    def clear(self) -> None:
        self._pods.clear()
        self._levels.clear()

    def round(self, *, outstanding: int, now: Seconds, largest_gpu: MiB) -> Round:
        """The round of `next_round` over the pods here; its releases stay here until they are discarded."""
        slots = max(self.settings.beta - outstanding, 0)
        turns = RoundInProgress(now, self.settings, slots, self.fairness)
        for priority in sorted(self._levels, reverse=True):
            level = self._levels[priority]
            counts = {shape: len(pods) for shape, pods in level.shapes.items()}
            level.follow(turns.partition(priority, counts, largest_gpu))
            turns.release(priority, counts, level.lines)
        made = turns.result(f"{outstanding} of {self.settings.beta} released pods are unbound, {len(self)} wait")
        self.fairness = made.fairness
        return made


def _remove(pods: list[Entry], gone: Entry) -> None:
    del pods[bisect_left(pods, gone)]
