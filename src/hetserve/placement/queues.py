"""Which waiting pods are released next: HetSev's k-means queues with weighted fairness (section 4.2).

Line 1 of Algorithm 1 puts pending instances into k queues by GPU memory and model (`clustering`); line 3
picks up to beta of them by weight = length x (1 s + median wait). Shares are paid out by credits, kept per
shape so that they survive the next clustering. The last of every p = max(beta, 2) releases of a priority goes
to whoever waits longest: a pod with n older ones is released within p x (n + 1) releases of its priority.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from statistics import median
from types import MappingProxyType

from hetserve.placement.clustering import Shape, cluster
from hetserve.units import MiB, Seconds


@dataclass(frozen=True, slots=True)
class Waiting:
    """A pod at the gate; `since` is its creation time [s]."""

    uid: str
    namespace: str
    name: str
    memory_mib: MiB
    model: str | None
    since: Seconds
    priority: int = 0

    @property
    def shape(self) -> Shape:
        return Shape(self.memory_mib, self.model or "")


@dataclass(frozen=True, slots=True)
class QueueSettings:
    """k queues, beta released and unbound pods at most, seed of the clustering."""

    queues: int = 4
    beta: int = 8
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Queue:
    """One queue of a round; `members` in the order of release, `weight` in seconds."""

    id: int
    priority: int
    shapes: tuple[Shape, ...]
    members: tuple[str, ...]
    median_wait: Seconds
    weight: float
    released: int


@dataclass(frozen=True, slots=True)
class Release:
    """A pod to release, and why it is its turn."""

    pod: Waiting
    queue: int
    reason: str


@dataclass(frozen=True, slots=True)
class Fairness:
    """What a round leaves to the next: credits per shape; per priority, releases since the oldest pod's turn."""

    credits: Mapping[Shape, float] = field(default_factory=lambda: MappingProxyType({}))
    since_oldest: Mapping[int, int] = field(default_factory=lambda: MappingProxyType({}))


@dataclass(frozen=True, slots=True)
class Round:
    """Releases in their order, the queues they came from, and the state for the next round."""

    releases: tuple[Release, ...]
    queues: tuple[Queue, ...]
    fairness: Fairness
    reason: str
    period: int

    def wait_bounds(self) -> Mapping[int, int]:
        """Per priority: within how many releases of it the youngest pod still waiting is out."""
        waiting: dict[int, int] = {}
        for queue in self.queues:
            left = len(queue.members) - queue.released
            waiting[queue.priority] = waiting.get(queue.priority, 0) + left
        return MappingProxyType({priority: self.period * left for priority, left in waiting.items()})


def next_round(
    waiting: Iterable[Waiting],
    *,
    outstanding: int,
    now: Seconds,
    largest_gpu: MiB,
    settings: QueueSettings,
    fairness: Fairness | None = None,
) -> Round:
    """Pods to release now, so that at most beta are released and not yet bound.

    `outstanding` counts the released and unbound pods (those that stay unschedulable excluded); `now` is on
    the clock of `Waiting.since`; `largest_gpu` scales the memory feature. Higher priorities go first.
    """
    fairness = fairness or Fairness()
    pods = sorted(waiting, key=_order)
    slots = max(settings.beta - outstanding, 0)
    credit, since_oldest = dict(fairness.credits), {}
    releases: list[Release] = []
    queues: list[Queue] = []
    for priority, group in groupby(pods, key=lambda pod: pod.priority):
        members = list(group)
        lanes = _lanes(members, now, largest_gpu, settings, first_id=len(queues))
        turns = _Turns(oldest_turn(settings.beta), fairness.since_oldest.get(priority, 0))
        releases += _pick(members, lanes, min(slots - len(releases), len(members)), credit, turns)
        queues += [lane.queue(priority) for lane in lanes]
        since_oldest[priority] = turns.since
    for queue in queues:
        if queue.released < len(queue.members):
            continue
        for shape in queue.shapes:  # an empty queue keeps neither credit nor debt
            credit.pop(shape, None)
    alive = {pod.shape for pod in pods}
    kept = {shape: value for shape, value in credit.items() if shape in alive}
    reason = f"{outstanding} of {settings.beta} released pods are unbound, {len(pods)} wait"
    state = Fairness(MappingProxyType(kept), MappingProxyType(since_oldest))
    return Round(tuple(releases), tuple(queues), state, reason, oldest_turn(settings.beta))


def oldest_turn(beta: int) -> int:
    """Every how many releases of a priority the longest waiting pod has its turn: the p of the waiting bound."""
    return max(beta, 2)


@dataclass(slots=True)
class _Turns:
    """Counts releases up to the turn of the longest waiting pod."""

    period: int
    since: int

    def oldest_is_next(self) -> bool:
        self.since = (self.since + 1) % self.period
        return self.since == 0


@dataclass(slots=True)
class _Lane:
    """A queue while a round is picked from it."""

    id: int
    shapes: tuple[Shape, ...]
    pods: list[Waiting]
    median_wait: Seconds
    weight: float
    next: int = 0
    taken: set[str] = field(default_factory=set)

    def head(self) -> Waiting | None:
        while self.next < len(self.pods) and self.pods[self.next].uid in self.taken:
            self.next += 1
        return self.pods[self.next] if self.next < len(self.pods) else None

    def queue(self, priority: int) -> Queue:
        members = tuple(pod.uid for pod in self.pods)
        return Queue(self.id, priority, self.shapes, members, self.median_wait, self.weight, len(self.taken))


def _lanes(
    pods: Sequence[Waiting], now: Seconds, largest_gpu: MiB, settings: QueueSettings, first_id: int
) -> list[_Lane]:
    counts: dict[Shape, int] = {}
    for pod in pods:
        counts[pod.shape] = counts.get(pod.shape, 0) + 1
    groups = cluster(counts, settings.queues, largest_gpu, settings.seed)
    lane_of = {shape: number for number, shapes in enumerate(groups) for shape in shapes}
    members: list[list[Waiting]] = [[] for _ in groups]
    for pod in pods:
        members[lane_of[pod.shape]].append(pod)
    lanes = []
    for number, shapes in enumerate(groups):
        wait = Seconds(median(max(now - pod.since, 0.0) for pod in members[number]))
        weight = len(members[number]) * (1.0 + wait)
        lanes.append(_Lane(first_id + number, shapes, members[number], wait, weight))
    return lanes


def _pick(
    pods: Sequence[Waiting], lanes: Sequence[_Lane], take: int, credit: dict[Shape, float], turns: _Turns
) -> list[Release]:
    """`take` pods: each lane earns its share per release, and the lane with the most credit pays one."""
    lane_of = {shape: lane for lane in lanes for shape in lane.shapes}
    oldest = iter(pods)
    releases: list[Release] = []
    for _ in range(take):
        heads = {lane.id: (lane, pod) for lane in lanes if (pod := lane.head()) is not None}
        total = sum(lane.weight for lane, _ in heads.values())
        for lane, _ in heads.values():
            _earn(credit, lane, lane.weight / total)
        if turns.oldest_is_next():
            pod = next(pod for pod in oldest if pod.uid not in lane_of[pod.shape].taken)
            lane, reason = lane_of[pod.shape], "has waited longest"
        else:
            rank = {id_: (_credit(credit, lane), lane.weight, -id_) for id_, (lane, _) in heads.items()}
            lane, pod = heads[max(rank, key=lambda id_: rank[id_])]
            reason = f"queue {lane.id} holds {lane.weight / total:.0%} of the weight"
        lane.taken.add(pod.uid)
        credit[pod.shape] = credit.get(pod.shape, 0.0) - 1.0
        releases.append(Release(pod, lane.id, reason))
    return releases


def _earn(credit: dict[Shape, float], lane: _Lane, share: float) -> None:
    for shape in lane.shapes:
        credit[shape] = credit.get(shape, 0.0) + share / len(lane.shapes)


def _credit(credit: Mapping[Shape, float], lane: _Lane) -> float:
    return sum(credit.get(shape, 0.0) for shape in lane.shapes)


def _order(pod: Waiting) -> tuple[int, float, str, str, str]:
    """Higher priority first, then who waits longest; names and UID make the order total."""
    return -pod.priority, pod.since, pod.namespace, pod.name, pod.uid
