"""Fang et al.'s schedulers and a server that they drive, in plain Python: what the engine is compared with.

Instances are alone on their GPUs, and a batch takes as long as is predicted.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from hetserve.dispatch.joining import VariantModel
from hetserve.dispatch.joining.arrays import CELLS
from hetserve.dispatch.joining.weights import PolicyWeights

BIN = 0.2


class Sent(NamedTuple):
    """One batch: instance, variant, queries in order."""

    start: float
    instance: int
    variant: int
    queries: tuple[int, ...]


@dataclass(slots=True)
class PlainServer:
    """A model's variants on instances, by type, in the order in which they are asked.

    items, deadlines: [query], the soft ones. waiting: in the order of their bins. free_at: [instance], when it was last
    free.
    """

    model: VariantModel
    types: Sequence[int]
    arrivals: Sequence[float]
    items: Sequence[int]
    deadlines: Sequence[float]
    now: float = 0.0
    waiting: list[int] = field(default_factory=list)
    free_at: list[float] = field(default_factory=list)
    sent: list[Sent] = field(default_factory=list)

    def rate(self) -> float:
        """Over the last 5 s: whole cells of the window, and the one under way."""
        width = 5.0 / CELLS
        oldest = int(self.now / width) - CELLS + 1
        arrived = zip(self.arrivals, self.items, strict=True)
        since = sum(items for at, items in arrived if oldest <= int(at / width) and at <= self.now)
        return since / (self.now - oldest * width)

    def time(self, instance: int, variant: int, items: int) -> float:
        table = self.model.mean[self.types[instance], variant]
        return float(table[items - 1]) if items <= len(table) else math.inf

    def asked(self) -> int:
        """Items of all that waits."""
        return sum(self.items[query] for query in self.waiting)

    def joined(self, instance: int, variant: int, most: int) -> list[int]:
        """The first queries of at most so many items, at least one, that the variant can serve."""
        for number in range(len(self.waiting), 0, -1):
            items = sum(self.items[query] for query in self.waiting[:number])
            if (number == 1 or items <= most) and math.isfinite(self.time(instance, variant, items)):
                return self.waiting[:number]
        return []

    def able(self, instance: int) -> list[int]:
        """Variants that can serve the head, the most accurate first."""
        return [v for v in range(self.best(instance), -1, -1) if self.joined(instance, v, 1)]

    def best(self, instance: int) -> int:
        """The most accurate variant that it serves."""
        return max(v for v in range(len(self.model.variants)) if math.isfinite(self.time(instance, v, 1)))

    def capacity(self, instance: int) -> float:
        best = self.best(instance)
        size = max(size for size in range(1, 9) if math.isfinite(self.time(instance, best, size)))
        return size / self.time(instance, best, size)

    def time_utility(self, end: float, query: int) -> float:
        late = end - self.deadlines[query]
        return 1.0 if late <= 0 else 1 - late / self.model.grace if late < self.model.grace else 0.0

    def worth(self, instance: int, variant: int, queries: Sequence[int], *, own: bool) -> float:
        end = self.now + self.time(instance, variant, sum(self.items[query] for query in queries))
        total = sum(self.time_utility(end, query) for query in queries)
        return total * (self.model.variants[variant].utility if own else 1.0)

    def worthiest(self, instance: int, size: int, *, own: bool) -> int:
        """The first of equals."""
        worth = {v: self.worth(instance, v, self.joined(instance, v, size), own=own) for v in self.able(instance)}
        return max(worth, key=lambda variant: worth[variant])


Choice = tuple[int, int]
"""Variant and most queries; 0: it waits."""
WAITS = (0, 0)
Scheduler = Callable[[PlainServer, int], Choice]


def fixed(server: PlainServer, instance: int) -> Choice:
    size = min(server.asked(), 32)
    return (server.worthiest(instance, size, own=False), size) if server.able(instance) else WAITS


def heuristic(alpha: float = 0.5, beta: float = 0.5, threshold: int = 8, *, own: bool = False) -> Scheduler:
    def choose(server: PlainServer, instance: int) -> Choice:
        best, rate = server.best(instance), server.rate()
        share = server.capacity(instance) / sum(map(server.capacity, range(len(server.types))))
        sizes = [1 << k for k in range(20) if math.isfinite(server.time(instance, best, 1 << k))]

        def needed(size: int) -> float:
            coming = server.time(instance, best, size) * rate
            return (alpha * coming + (1 - alpha) * server.asked()) * beta * share

        size = next((size for size in sizes if size >= needed(size)), sizes[-1])
        able = server.able(instance)
        if not able:
            return WAITS
        return (server.worthiest(instance, size, own=own) if size >= threshold else able[0]), size

    return choose


def learned(weights: PolicyWeights) -> Scheduler:
    """Without waits that end before the next event: those that do are asked again then."""

    def choose(server: PlainServer, instance: int) -> Choice:
        state = observed(server, instance, weights)
        hidden = np.maximum(state @ weights.network.inner + weights.network.inner_bias, 0)
        scores = hidden @ weights.network.outer + weights.network.outer_bias
        action, able = int(scores.argmax()), server.able(instance)
        if action == len(scores) - 1:
            head = server.waiting[0]
            if server.now + server.model.mean[:, :, server.items[head] - 1].min() <= server.deadlines[head]:
                return WAITS
            action = int(scores[:-1].argmax())
        variant = server.model.index_of(weights.variants[action // len(weights.sizes)])
        if not able:
            return WAITS
        return variant if variant in able else able[0], weights.sizes[action % len(weights.sizes)]

    return choose


def observed(server: PlainServer, instance: int, weights: PolicyWeights) -> np.ndarray:
    model, names = server.model, list(weights.fleet)
    capacity = sum(map(server.capacity, range(len(server.types))))
    here = math.floor(server.now / BIN)
    bins = [0.0] * 10
    for query in server.waiting:
        place = math.floor(server.deadlines[query] / BIN) - here + 4
        if 0 <= place < 10:
            bins[place] += server.items[query] / (capacity * BIN)
    is_type = [float(model.types[server.types[instance]] == name) for name in names]
    remaining = [
        max(server.free_at[other] - server.now, 0.0)
        for name in names
        for other, type_ in enumerate(server.types)
        if model.types[type_] == name
    ]
    return np.array([*bins, server.asked() / capacity, server.rate() / capacity, *is_type, *remaining])


def serve(server: PlainServer, choose: Scheduler, longest_wait: float = math.inf) -> list[Sent]:
    """Runs to the end; the batches in order. longest_wait: until an instance that waits is asked again [s]."""
    coming = sorted(range(len(server.arrivals)), key=lambda query: (server.arrivals[query], query))
    server.free_at = [0.0] * len(server.types)
    wake_at = math.inf
    while coming or server.waiting:
        times = [server.arrivals[coming[0]]] if coming else []
        server.now = min([*times, wake_at, *(at for at in server.free_at if at > server.now)], default=math.inf)
        if server.now == math.inf:
            break  # no instance can serve the head
        while coming and server.arrivals[coming[0]] == server.now:
            server.waiting.append(coming.pop(0))
        server.waiting.sort(key=lambda query: math.floor(server.deadlines[query] / BIN))
        wake_at = math.inf
        while server.waiting and (found := _first_that_serves(server, choose)) is not None:
            instance, variant, most = found
            queries = tuple(server.joined(instance, variant, most))
            items = sum(server.items[query] for query in queries)
            server.free_at[instance] = server.now + server.time(instance, variant, items)
            server.sent.append(Sent(server.now, instance, variant, queries))
            del server.waiting[: len(queries)]
        if server.waiting and min(server.free_at) <= server.now:
            wake_at = server.now + longest_wait
    return server.sent


def _first_that_serves(server: PlainServer, choose: Scheduler) -> tuple[int, int, int] | None:
    for instance, free_at in enumerate(server.free_at):
        if free_at <= server.now:
            variant, most = choose(server, instance)
            if most:
                return instance, variant, most
    return None
