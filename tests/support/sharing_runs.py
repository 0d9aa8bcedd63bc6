"""Measurements files of models that share a GPU, with known shares and factors."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

HEADER = "model,instance,batch,copies,neighbour,neighbour_batch,latency_ms"
LATENCY_MS = 20.0


def lines(
    ratio: float = 1.0,
    *,
    model: str = "a",
    batch: int = 8,
    copies: int | str = 1,
    neighbour: str = "",
    neighbour_batch: int | str = "",
    count: int = 100,
    noise: float = 0.0,
    seed: int = 0,
) -> list[str]:
    """One line per query; noise: coefficient of variation, with a slow part beside the independent one."""
    rng = np.random.default_rng(seed)
    slow = np.convolve(rng.normal(size=count), np.ones(5) / 5**0.5, mode="same")
    latencies = LATENCY_MS * ratio * (1 + noise * (rng.normal(size=count) + slow) / 2**0.5)
    run = f"{model},t4,{batch},{copies},{neighbour},{neighbour_batch}"
    return [f"{run},{latency:.6f}" for latency in latencies]


def copies_of(share: float, most: int = 3, *, noise: float = 0.0, seed: int = 0, count: int = 100) -> list[str]:
    """Runs of 1 to `most` copies of a model with this share."""
    return [
        line
        for k in range(1, most + 1)
        for line in lines(max(1.0, k * share), copies=k, count=count * k, noise=noise, seed=seed * 100 + k)
    ]


def file_of(*parts: Iterable[str], header: str = HEADER) -> str:
    return "\n".join([header, *(line for part in parts for line in part)]) + "\n"
