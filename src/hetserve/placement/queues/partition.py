"""Which shapes share which queue, kept from round to round.

A queue keeps its id while pods wait in it. Clusters are computed anew when a quarter of the pods have changed, or a new
shape comes and a queue is free; else a new shape joins the most similar queue.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from itertools import count
from types import MappingProxyType
from typing import Final

from hetserve.base.units import MiB
from hetserve.placement.queues.clustering import AUTO, MOST_AUTO_QUEUES, Groups, Queues, Shape, cluster, distance

DRIFT: Final = 0.25
"""Share of the clustered pods that may come or go before the next clustering."""

Counts = Mapping[Shape, int]


@dataclass(frozen=True, slots=True)
class Partition:
    """Queue of every shape; `basis`, `groups`: counts and number of queues of its clustering."""

    queue_of: Mapping[Shape, int]
    basis: Counts
    groups: int

    def ids(self) -> set[int]:
        return set(self.queue_of.values())


@dataclass(frozen=True, slots=True)
class Clustering:
    k: Queues
    largest_gpu: MiB
    seed: int


def renewed(before: Partition | None, counts: Counts, how: Clustering, taken: Collection[int]) -> Partition:
    """The partition for the waiting pods: `before` itself if it still fits.

    `counts`: pods per shape, none zero. `taken`: ids of other queues.
    """
    if before is None or _outdated(before, counts, how.k):
        return _clustered(before, counts, how, taken)
    strange = sorted(shape for shape in counts if shape not in before.queue_of)
    if not strange:
        return before
    typical: dict[int, tuple[int, Shape]] = {}
    for shape, waiting in counts.items():
        if (queue := before.queue_of.get(shape)) is not None:
            typical[queue] = max(typical.get(queue, (0, shape)), (waiting, shape))
    joined = dict(before.queue_of)
    for shape in strange:
        joined[shape] = min(typical, key=lambda queue: (distance(shape, typical[queue][1], how.largest_gpu), queue))
    return Partition(MappingProxyType(joined), before.basis, before.groups)


def carried(credit: Mapping[int, float], before: Partition, after: Partition, counts: Counts) -> dict[int, float]:
    """Credits of the new queues: each pod takes its share of its old queue's along."""
    pods: dict[int, int] = {}
    for shape, waiting in counts.items():
        if (old := before.queue_of.get(shape)) is not None:
            pods[old] = pods.get(old, 0) + waiting
    moved: dict[int, float] = {}
    for shape in sorted(counts):
        if (old := before.queue_of.get(shape)) is not None and old in credit:
            new = after.queue_of[shape]
            moved[new] = moved.get(new, 0.0) + credit[old] * counts[shape] / pods[old]
    return moved


def _outdated(before: Partition, counts: Counts, k: Queues) -> bool:
    drift = sum(abs(waiting - before.basis.get(shape, 0)) for shape, waiting in counts.items())
    drift += sum(waiting for shape, waiting in before.basis.items() if shape not in counts)
    if drift > DRIFT * sum(before.basis.values()):
        return True
    if all(shape in before.queue_of for shape in counts):
        return False
    live = {before.queue_of[shape] for shape in counts if shape in before.queue_of}
    few = len(before.basis) <= (MOST_AUTO_QUEUES if k == AUTO else k)
    return few or len(live) < before.groups


def _clustered(before: Partition | None, counts: Counts, how: Clustering, taken: Collection[int]) -> Partition:
    groups = cluster(counts, how.k, how.largest_gpu, how.seed)
    ids = _matched(before.queue_of if before else {}, groups, counts)
    free = _free_ids({*taken, *ids.values()})
    queue_of = {}
    for number, shapes in enumerate(groups):
        queue = ids[number] if number in ids else next(free)
        queue_of.update(dict.fromkeys(shapes, queue))
    return Partition(MappingProxyType(queue_of), MappingProxyType(dict(counts)), len(groups))


def _matched(queue_of: Mapping[Shape, int], groups: Groups, counts: Counts) -> dict[int, int]:
    """Old id of each group that inherits one: most pods in common first (ties: lower id)."""
    shared: dict[tuple[int, int], int] = {}
    for number, shapes in enumerate(groups):
        for shape in shapes:
            if (old := queue_of.get(shape)) is not None:
                shared[old, number] = shared.get((old, number), 0) + counts[shape]
    ids: dict[int, int] = {}
    for (old, number), _ in sorted(shared.items(), key=lambda item: (-item[1], item[0])):
        if number not in ids and old not in ids.values():
            ids[number] = old
    return ids


def _free_ids(used: Collection[int]) -> Iterator[int]:
    return (number for number in count() if number not in used)
