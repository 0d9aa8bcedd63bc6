"""k-means of pod shapes by L1 distance: which shapes share a queue (HetSev section 4.2, step 1).

Features of a shape: (MiB / largest GPU, 0.5 x one-hot of the model), so two models are 1 apart, as far as an
empty and a whole GPU. Under L1 the best centre is the component-wise median. Pods of one shape are one
weighted point. Seeds are scikit-learn's k-means++; it is imported only where there is a choice to make,
since it costs 130 MiB.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hetserve.units import MiB

_MAX_STEPS: Final = 100
_MODEL_SCALE: Final = 0.5


class Shape(NamedTuple):
    """What makes two pods alike for the queues; a pod without a model has the model ""."""

    memory_mib: MiB
    model: str


def cluster(counts: Mapping[Shape, int], k: int, largest_gpu: MiB, seed: int) -> tuple[tuple[Shape, ...], ...]:
    """At most k groups of shapes, each sorted, in the order of their smallest shape.

    `counts` is how many pods have a shape; `largest_gpu` [MiB] scales memory to one; `seed` makes k-means++
    repeatable. Raises ValueError for k < 1.
    """
    if k < 1:
        raise ValueError(f"queues: {k} is not a number of queues; at least 1 is needed")
    shapes = sorted(counts)
    if len(shapes) <= k:
        return tuple((shape,) for shape in shapes)
    points = _features(shapes, largest_gpu)
    weights = np.array([counts[shape] for shape in shapes], dtype=np.float64)
    labels = _lloyd(points, weights, _seeds(points, weights, k, seed))
    groups: dict[int, list[Shape]] = {}
    for shape, label in zip(shapes, labels, strict=True):
        groups.setdefault(int(label), []).append(shape)
    return tuple(sorted(tuple(group) for group in groups.values()))


def _features(shapes: list[Shape], largest_gpu: MiB) -> NDArray[np.float64]:
    models = {model: column for column, model in enumerate(sorted({shape.model for shape in shapes}))}
    points = np.zeros((len(shapes), 1 + len(models)))
    for row, shape in enumerate(shapes):
        points[row, 0] = shape.memory_mib / max(largest_gpu, 1)
        points[row, 1 + models[shape.model]] = _MODEL_SCALE
    return points


def _seeds(points: NDArray[np.float64], weights: NDArray[np.float64], k: int, seed: int) -> NDArray[np.float64]:
    from sklearn.cluster import kmeans_plusplus  # noqa: PLC0415

    centres, _ = kmeans_plusplus(points, k, sample_weight=weights, random_state=seed)
    return np.asarray(centres, dtype=np.float64)


def _lloyd(points: NDArray[np.float64], weights: NDArray[np.float64], centres: NDArray[np.float64]) -> NDArray[np.intp]:
    """Assign to the nearest centre (ties: the first), move centres to weighted medians, until nothing moves."""
    labels = np.full(len(points), -1)
    for _ in range(_MAX_STEPS):
        nearest = np.abs(points[:, None, :] - centres[None, :, :]).sum(axis=2).argmin(axis=1)
        if (nearest == labels).all():
            break
        labels = nearest
        for centre in np.unique(labels):
            mine = labels == centre
            centres[centre] = _weighted_median(points[mine], weights[mine])
    return labels


def _weighted_median(points: NDArray[np.float64], weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """Lower weighted median of every column."""
    order = np.argsort(points, axis=0, kind="stable")
    heavy = np.cumsum(weights[order], axis=0) >= weights.sum() / 2
    rows = order[heavy.argmax(axis=0), np.arange(points.shape[1])]
    return np.asarray(points[rows, np.arange(points.shape[1])])
