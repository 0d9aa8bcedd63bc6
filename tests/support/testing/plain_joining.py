"""The joining policies in plain Python: what their rules, and the decision that asks them, are compared with."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from hetserve.dispatch.joining import JoiningPolicy
from hetserve.dispatch.joining.arrays import CELLS
from hetserve.serving.services import Service
from hetserve.serving.variants import VariantSystem
from testing import plain_fang


class WaitingQuery(NamedTuple):
    items: int
    deadline: float


class JoiningWorker(NamedTuple):
    type: int
    variant: int
    busy: bool
    free_at: float


class JoiningAnswer(NamedTuple):
    """Drops the first queries, or joins them on this worker."""

    joined: int = 0
    dropped: int = 0
    worker: int = -1
    variant: int = -1
    wake_at: float = math.inf


@dataclass(frozen=True, slots=True, eq=False)
class JoiningScene:
    """What a policy decides by. arrived: (time, items) of all queries so far."""

    now: float
    service: Service
    queue: Sequence[WaitingQuery]
    workers: Sequence[JoiningWorker]
    arrived: Sequence[tuple[float, int]]

    @property
    def policy(self) -> JoiningPolicy:
        assert isinstance(self.service.policy, JoiningPolicy)
        return self.service.policy

    @property
    def system(self) -> VariantSystem:
        assert isinstance(self.service.system, VariantSystem)
        return self.service.system

    @property
    def settings(self) -> tuple[float | str, ...]:
        """Of the policy's factory."""
        return getattr(self.policy.prepare, "args", ())

    @property
    def slack(self) -> float:
        return self.queue[0].deadline - self.now

    @property
    def times(self) -> list[list[list[float]]]:
        """[type][variant][items - 1] in seconds."""
        model = self.service.predicted.arrays.mean
        rows, variants = model.tolist(), len(self.system.variants)
        return [rows[k : k + variants] for k in range(0, len(rows), variants)]

    @property
    def most(self) -> int:
        """Items of the first queries that may be joined."""
        items = 0
        for query in self.queue:
            if items + query.items > self.service.predicted.arrays.mean.shape[1]:
                break
            items += query.items
        return items

    def rate(self, width: float, parts: int, last: int) -> float:
        """Items that arrived in the parts of time of this width that end with the part `last`."""
        found = [items for time, items in self.arrived if last - parts < int(time / width) <= last]
        return float(sum(found))

    def decide(self) -> JoiningAnswer:
        usable = USABLE[self.policy.name](self)
        dropped = self._hopeless(usable) if self.policy.drops else 0
        if dropped:
            return JoiningAnswer(dropped=dropped)
        wake_at = math.inf
        for number, worker in enumerate(self.workers):
            if worker.busy:
                continue
            variant, most, asked = REFERENCES[self.policy.name](self, worker, usable[worker.type])
            joined = self._heads(most, usable[worker.type][variant]) if most else 0
            if joined:
                return JoiningAnswer(joined, 0, number, variant)
            wake_at = min(wake_at, asked)
        return JoiningAnswer(wake_at=wake_at)

    def _hopeless(self, usable: Times) -> int:
        for number, query in enumerate(self.queue):
            soonest = min(row[query.items - 1] for table in usable for row in table)
            if soonest <= query.deadline + (self.system.grace - self.now):
                return number
        return len(self.queue)

    def _heads(self, most: int, row: Sequence[float]) -> int:
        held = 0
        for number in range(1, len(self.queue) + 1):
            items = sum(query.items for query in self.queue[:number])
            if items > len(row) or math.isinf(row[items - 1]) or (number > 1 and items > most):
                break
            held = number
        return held


Table = list[list[float]]
Times = list[Table]
Choice = tuple[int, int, float]
Rule = Callable[[JoiningScene, JoiningWorker, Table], Choice]


def rising(row: Sequence[float]) -> list[float]:
    return [max(row[: k + 1]) for k in range(len(row))]


def pareto(scene: JoiningScene) -> Times:
    """Lemma 4.1, then no more accurate variant is faster."""
    out = []
    for table in scene.times:
        grown = [rising(row) for row in table]
        kept = [
            not any(all(a >= b for a, b in zip(row, other, strict=True)) for other in grown[k + 1 :])
            for k, row in enumerate(grown)
        ]
        own = [row if keep else [math.inf] * len(row) for row, keep in zip(grown, kept, strict=True)]
        worse = [
            [[r[n] for r in own[: v + 1] if r[n] < math.inf] for n in range(len(row))] for v, row in enumerate(own)
        ]
        out.append(
            [
                [max(w) if t < math.inf else t for t, w in zip(*pair, strict=True)]
                for pair in zip(own, worse, strict=True)
            ]
        )
    return out


def options(scene: JoiningScene, table: Table) -> list[tuple[int, int]]:
    """(items, variant) that are in time."""
    sizes = range(scene.queue[0].items, scene.most + 1)
    return [(n, v) for v, row in enumerate(table) for n in sizes if row[n - 1] <= scene.slack]


def all_by_the_fastest(scene: JoiningScene, table: Table) -> Choice:
    for n in range(scene.most, scene.queue[0].items - 1, -1):
        able = [(row[n - 1], -v) for v, row in enumerate(table) if row[n - 1] < math.inf]
        if able:
            return -min(able)[1], n, math.inf
    return 0, 0, math.inf


def max_batch(scene: JoiningScene, worker: JoiningWorker, table: Table) -> Choice:
    in_time = options(scene, table)
    if not in_time:
        return all_by_the_fastest(scene, table)
    items, variant = max(in_time)
    return variant, items, math.inf


def max_accuracy(scene: JoiningScene, worker: JoiningWorker, table: Table) -> Choice:
    in_time = options(scene, table)
    if not in_time:
        return all_by_the_fastest(scene, table)
    variant, items = max((variant, items) for items, variant in in_time)
    return variant, items, math.inf


def slackfit(scene: JoiningScene, worker: JoiningWorker, table: Table) -> Choice:
    (buckets,), most = scene.settings, len(table[0])
    assert isinstance(buckets, int)
    sizes = {n for n in range(1, most + 1) if n == most or n & (n - 1) == 0}
    entries = [(row[n - 1], n, v) for v, row in enumerate(table) for n in sizes if row[n - 1] < math.inf]
    if not entries:
        return max_batch(scene, worker, table)
    first, last = min(entries)[0], max(entries)[0]
    width = (last - first) / buckets
    held: dict[int, list[tuple[float, int, int]]] = {}
    for entry in entries:
        held.setdefault(min(int((entry[0] - first) / width), buckets - 1) if width > 0 else 0, []).append(entry)
    for bucket in sorted(held, reverse=True):
        items, variant = max((n, v) for _, n, v in held[bucket])
        if max(held[bucket])[0] <= scene.slack and table[variant][scene.queue[0].items - 1] <= scene.slack:
            return variant, items, math.inf
    return max_batch(scene, worker, table)


def by_one(scene: JoiningScene, table: Table, variant: int) -> Choice:
    in_time = [n for n, v in options(scene, table) if v == variant]
    return variant, max(in_time, default=scene.most), math.inf


def fixed(scene: JoiningScene, worker: JoiningWorker, table: Table) -> Choice:
    return by_one(scene, table, next(v for v, row in enumerate(_allowed(scene)) if row))


def only_allowed(scene: JoiningScene) -> Times:
    allowed = _allowed(scene)
    return [
        [rising(row) if allowed[v] else [math.inf] * len(row) for v, row in enumerate(table)] for table in scene.times
    ]


def _allowed(scene: JoiningScene) -> list[bool]:
    (wanted,), variants = scene.settings, scene.system.variants
    if isinstance(wanted, str):
        return [one.name == wanted for one in variants]
    first = min(v for v, one in enumerate(variants) if one.accuracy >= wanted)
    return [v == first for v in range(len(variants))]


def coarse(scene: JoiningScene, worker: JoiningWorker, table: Table) -> Choice:
    interval, headroom = map(float, scene.settings)
    rate = headroom * scene.rate(interval, 1, int(scene.now / interval) - 1) / interval
    carried = {v: carried_by(scene, v) for v, row in enumerate(table) if row[scene.queue[0].items - 1] < math.inf}
    able = [v for v, most in carried.items() if most >= rate]
    chosen = max(able) if able else max(carried, key=lambda v: (carried[v], v), default=0)
    return by_one(scene, table, chosen)


def carried_by(scene: JoiningScene, variant: int) -> float:
    """Items/s of all instances by this variant."""
    slo, out = scene.system.slo, 0.0
    usable = pareto(scene)
    for worker in scene.workers:
        row = usable[worker.type][variant]
        out += max([n / time for n, time in enumerate(row, 1) if time <= slo], default=0.0)
    return out


def rate_fit(scene: JoiningScene, worker: JoiningWorker, table: Table) -> Choice:
    share, window, horizon, longest = map(float, scene.settings)
    slo, most = scene.system.slo, scene.most
    width = window * slo / CELLS
    latest = int(scene.now / width)
    rate = scene.rate(width, CELLS, latest) / (scene.now - (latest - CELLS + 1) * width)
    demand = share * rate + sum(query.items for query in scene.queue) / (horizon * slo)
    able, rest = [], []
    for v, row in enumerate(table):
        switch = float(scene.system.switches[worker.type]) if worker.variant not in (-1, v) else 0.0
        in_time = [n for n in range(scene.queue[0].items, most + 1) if row[n - 1] <= scene.slack - switch]
        if in_time:
            items = max(in_time)
            time, carried = row[items - 1] + switch, carried_by(scene, v)
            own = max(n / one if one <= slo else 0.0 for n, one in enumerate(row, 1))
            if items < most:
                carried *= min(1.0, items / time / own) if own else 0.0
            rest.append((carried, v, items))
            if carried >= demand and (items == most or time <= longest * slo):
                able.append((v, items))
    if able:
        return *max(able), math.inf
    if not rest:
        return all_by_the_fastest(scene, table)
    _, variant, items = max(rest)
    return variant, items, math.inf


def of_fang(make: Callable[..., plain_fang.Scheduler]) -> Rule:
    """make: of alpha, beta, threshold and whether utilities count."""

    def choose(scene: JoiningScene, worker: JoiningWorker, table: Table) -> Choice:
        numbers = scene.settings[0] if scene.settings else (0.5, 0.5, 8.0, 0.0)
        assert isinstance(numbers, tuple)
        long_ago = [(-1e9, query.items) for query in scene.queue]
        times, items = zip(*long_ago, *scene.arrived, strict=True)
        server = plain_fang.PlainServer(
            scene.system.model(scene.service.predicted),
            [each.type for each in scene.workers],
            times,
            items,
            [query.deadline for query in scene.queue],
            scene.now,
            list(range(len(scene.queue))),
        )
        variant, most = make(*numbers[:3], own=numbers[3] == 1)(server, scene.workers.index(worker))
        return variant, most, math.inf

    return choose


def as_predicted(scene: JoiningScene) -> Times:
    return scene.times


REFERENCES: Final[dict[str, Rule]] = {
    "max-batch": max_batch,
    "max-accuracy": max_accuracy,
    "slackfit": slackfit,
    "clipper": fixed,
    "infaas": fixed,
    "coarse": coarse,
    "rate-fit": rate_fit,
    "fang-fixed": of_fang(lambda *_, **__: plain_fang.fixed),
    "fang": of_fang(plain_fang.heuristic),
    "fang-rl": of_fang(plain_fang.heuristic),
}
USABLE: Final[dict[str, Callable[[JoiningScene], Times]]] = {
    "max-batch": pareto,
    "max-accuracy": pareto,
    "slackfit": pareto,
    "clipper": only_allowed,
    "infaas": only_allowed,
    "coarse": pareto,
    "rate-fit": pareto,
    "fang-fixed": as_predicted,
    "fang": as_predicted,
    "fang-rl": as_predicted,
}
"""Times of the variants that each may use. `fang-rl` without weights for a scene's fleet is `fang`."""
