"""Which pod shapes share a queue: k-means by L1 distance (HetSev section 4.2, step 1).

Features: GPUs x share of a GPU, and 0.5 x one-hot of the model (with its namespace): two models are 1 apart. The share
is MiB / largest GPU as published, or the declared share of compute where that is larger. A centre is the component-wise
median. Pods of one shape are one weighted point. k is given, or chosen by the silhouette (Rousseeuw 1987).

A queue keeps its id while pods wait in it. Clusters are computed anew when a quarter of the pods have changed, or a new
shape comes and a queue is free; else a new shape joins the most similar queue.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from types import MappingProxyType
from typing import Final, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hetserve.base.units import MiB, Percent
from hetserve.objects.resources import WHOLE_COMPUTE
from hetserve.placement.pods.requests import ModelKey

AUTO: Final = "auto"
MOST_AUTO_QUEUES: Final = 8
MOST_JUDGED_SHAPES: Final = 256
"""The most frequent shapes that the silhouette compares in pairs."""

_MAX_STEPS: Final = 100
_NO_MODEL: Final = -1
_FLOATS = NDArray[np.float64]
Queues = int | Literal["auto"]


class Shape(NamedTuple):
    """MiB per GPU (0: whole GPUs), model ("": none), GPUs, percent of compute per GPU (0: none declared).

    `namespace`: the model's; "" without a model.
    """

    memory_mib: MiB
    model: str
    gpus: int = 1
    compute: Percent = Percent(0)
    namespace: str = ""

    @property
    def model_key(self) -> ModelKey:
        return self.namespace, self.model

    def size(self, largest_gpu: MiB) -> float:
        memory = self.memory_mib / max(largest_gpu, 1) if self.memory_mib else 1.0
        return self.gpus * max(memory, self.compute / WHOLE_COMPUTE)


Groups = tuple[tuple[Shape, ...], ...]


def cluster(counts: Mapping[Shape, int], k: Queues, largest_gpu: MiB, seed: int) -> Groups:
    """At most k groups of shapes, each sorted, by their smallest shape.

    `counts`: pods per shape. k "auto": the k up to 8 with the highest silhouette, the largest of equal ones.
    `largest_gpu`: MiB that scale to 1. `seed`: of k-means++. Raises ValueError for k < 1.
    """
    if k != AUTO and k < 1:
        raise ValueError(f'queues: {k} is not a number of queues; at least 1, or "auto", is needed')
    points = _Points.of(counts, largest_gpu)
    if k == AUTO:
        return points.groups(_best_labels(points, seed))
    return points.groups(_labels(points, k, seed))


def distance(one: Shape, other: Shape, largest_gpu: MiB) -> float:
    return abs(one.size(largest_gpu) - other.size(largest_gpu)) + (one.model_key != other.model_key)


@dataclass(frozen=True, slots=True)
class _Points:
    shapes: Sequence[Shape]
    size: _FLOATS
    model: NDArray[np.int64]
    weight: _FLOATS

    @classmethod
    def of(cls, counts: Mapping[Shape, int], largest_gpu: MiB) -> _Points:
        shapes = sorted(counts)
        number = {model: index for index, model in enumerate(sorted({shape.model_key for shape in shapes}))}
        return cls(
            shapes,
            np.array([shape.size(largest_gpu) for shape in shapes], dtype=np.float64),
            np.array([number[shape.model_key] for shape in shapes], dtype=np.int64),
            np.array([counts[shape] for shape in shapes], dtype=np.float64),
        )

    def __len__(self) -> int:
        return len(self.shapes)

    def distances(self, size: _FLOATS, model: NDArray[np.int64]) -> _FLOATS:
        """[point, centre]; a centre without a model is half a model from all."""
        apart = np.where(model[None, :] == _NO_MODEL, 0.5, self.model[:, None] != model[None, :])
        return np.asarray(np.abs(self.size[:, None] - size[None, :]) + apart, dtype=np.float64)

    def median(self, mine: NDArray[np.bool_]) -> tuple[float, int]:
        """Weighted component-wise median, the lower of two."""
        sizes, weights = self.size[mine], self.weight[mine]
        order = np.argsort(sizes, kind="stable")
        half = weights.sum() / 2
        middle = sizes[order[int((np.cumsum(weights[order]) >= half).argmax())]]
        votes = np.bincount(self.model[mine], weights=weights)
        winner = int(votes.argmax())
        return float(middle), winner if votes[winner] > half else _NO_MODEL

    def groups(self, labels: NDArray[np.intp]) -> Groups:
        found: dict[int, list[Shape]] = {}
        for shape, label in zip(self.shapes, labels, strict=True):
            found.setdefault(int(label), []).append(shape)
        return tuple(sorted(tuple(group) for group in found.values()))

    def heaviest(self, most: int) -> _Points:
        kept = np.sort(np.argsort(-self.weight, kind="stable")[:most])
        return _Points([self.shapes[row] for row in kept], self.size[kept], self.model[kept], self.weight[kept])


def _labels(points: _Points, k: int, seed: int) -> NDArray[np.intp]:
    """Lloyd's steps until nothing moves: assign to the nearest centre (ties: the first), move centres to medians."""
    if len(points) <= k:
        return np.arange(len(points))
    seeds = _seeds(points, k, seed)
    size, model = points.size[seeds], points.model[seeds]
    labels = np.full(len(points), -1)
    for _ in range(_MAX_STEPS):
        nearest = points.distances(size, model).argmin(axis=1)
        if (nearest == labels).all():
            break
        labels = nearest
        for centre in np.unique(labels):
            size[centre], model[centre] = points.median(labels == centre)
    return labels


def _seeds(points: _Points, k: int, seed: int) -> list[int]:
    """Greedy k-means++ (Arthur and Vassilvitskii 2007) for L1: drawn by weight x distance, the best of some draws."""
    random = np.random.default_rng(seed)
    nearest = np.ones(len(points))
    chosen: list[int] = []
    for _ in range(k):
        mass = np.cumsum(points.weight * nearest)
        if mass[-1] <= 0.0:
            break
        drawn = np.searchsorted(mass, random.random(2 + int(np.log(k))) * mass[-1], side="right")
        drawn = np.minimum(drawn, len(points) - 1)  # against rounding
        tried = points.distances(points.size[drawn], points.model[drawn])
        if chosen:
            tried = np.minimum(tried, nearest[:, None])
        best = int((points.weight @ tried).argmin())
        chosen.append(int(drawn[best]))
        nearest = tried[:, best]
    return chosen


def _best_labels(points: _Points, seed: int) -> NDArray[np.intp]:
    """Labels of the k with the highest silhouette; without structure, each shape is a group, up to the most."""
    if len(points) <= 2:
        return np.arange(len(points))
    judged = points.heaviest(MOST_JUDGED_SHAPES)
    apart = judged.distances(judged.size, judged.model)
    scores = {}
    for k in range(2, min(MOST_AUTO_QUEUES, len(points)) + 1):
        scores[k] = silhouette(apart, judged.weight, _labels(judged, k, seed))
    return _labels(points, max(scores, key=lambda k: (round(scores[k], 9), k)), seed)


def silhouette(apart: _FLOATS, weight: _FLOATS, labels: NDArray[np.intp]) -> float:
    """Weighted mean of (b - a) / max(a, b) over points; 0 for a point alone in its group.

    `apart`: distances of all pairs. a: weighted mean distance within the group; b: least such mean to another group.
    Equal pods are one point; else a queue per shape would always win.
    """
    member = labels[:, None] == np.unique(labels)[None, :]
    if member.shape[1] < 2:
        return 0.0
    mass = np.where(member, weight[:, None], 0.0)
    others = mass.sum(axis=0)[None, :] - mass
    means = np.divide(apart @ mass, others, out=np.zeros_like(others), where=others > 0.0)
    a = means[member]
    b = np.where(member, np.inf, means).min(axis=1)
    larger = np.maximum(a, b)
    values = np.divide(b - a, larger, out=np.zeros_like(a), where=(others[member] > 0.0) & (larger > 0.0))
    return float(values @ weight / weight.sum())


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
