"""Which waiting pods are released next: HetSev's k-means queues with weighted fairness (section 4.2, Algorithm 1).

Pods go into k queues by GPU memory and model (with its namespace); up to beta of them are picked by weight, as credits.
Every `oldest_every`-th release of a priority goes to its longest waiting pod; docs/queues.md has the bound on waiting
and its proof.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Final, NamedTuple

from hetserve.api import names
from hetserve.base.units import MiB, Percent, Seconds
from hetserve.objects.metadata import RawObject
from hetserve.objects.pod import PodOutline
from hetserve.placement.pods.view import PodView
from hetserve.placement.queues.clustering import Clustering, Partition, Queues, Shape, carried, renewed


class Weights(StrEnum):
    """Weights of queues (HetSev section 4.2, step 2), and rules without length or wait. The bound holds with each."""

    HETSEV = "hetsev"
    """length x (1 s + median wait): the paper's, but new pods have a weight too."""
    WAIT = "wait"
    EQUAL = "equal"


def weight(rule: Weights, length: int, median_wait: Seconds) -> float:
    """Weight of a queue, above 0; `length` at least 1, `median_wait` in seconds."""
    if rule is Weights.EQUAL:
        return 1.0
    return (length if rule is Weights.HETSEV else 1) * (1.0 + median_wait)


OLDEST_EVERY: Final = 2
"""The p of the bound in docs/queues.md."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """A gated pod: MiB on each of its GPUs (0: whole ones), creation time [s], percent of compute (0: undeclared)."""

    uid: str
    namespace: str
    name: str
    memory_mib: MiB
    model: str | None
    since: Seconds
    priority: int = 0
    gpus: int = 1
    compute: Percent = Percent(0)

    @property
    def shape(self) -> Shape:
        namespace = self.namespace if self.model else ""
        return Shape(self.memory_mib, self.model or "", self.gpus, self.compute, namespace)


Entry = tuple[float, str, str, str, Waiting]


@dataclass(frozen=True, slots=True)
class QueueSettings:
    """k queues ("auto": by silhouette), beta, seed of the clustering.

    `oldest_every`: every so many releases of a priority, one goes to the longest waiting pod (1: order of age). Raises
    ValueError for less than 1.
    """

    queues: Queues = 4
    beta: int = 8
    seed: int = 0
    weights: Weights = Weights.HETSEV
    oldest_every: int = OLDEST_EVERY

    def __post_init__(self) -> None:
        if self.oldest_every < 1:
            raise ValueError(f"oldest_every: {self.oldest_every} gives the oldest pod no turn; at least 1 is needed")


@dataclass(frozen=True, slots=True)
class Queue:
    """One queue of a round: `length` before it, `released` by it, `weight` in seconds."""

    id: int
    priority: int
    shapes: tuple[Shape, ...]
    length: int
    median_wait: Seconds
    weight: float
    released: int


class ReleaseReason(NamedTuple):
    """Why a pod is released now. out_of_turn: beside the queues. failed_open: our gate has held it for too long."""

    text: str
    out_of_turn: bool = False
    failed_open: bool = False


LONGEST_WAIT: Final = ReleaseReason("has waited longest")
PLACE_KEPT: Final = ReleaseReason("the place of a pod of its Deployment is reserved for it", out_of_turn=True)


def overdue(limit: float) -> ReleaseReason:
    """Of a pod that has been at the gate for longer than `limit` [s]."""
    text = f"at the gate for longer than {limit:g} s, released out of turn (queue.failOpenAfter)"
    return ReleaseReason(text, out_of_turn=True, failed_open=True)


@dataclass(frozen=True, slots=True)
class Release:
    """A pod to release.

    A `WaitingLine` sets `number`, which release of its priority this is, and `due`, the last number that the bound
    allows.
    """

    pod: Waiting
    reason: ReleaseReason
    number: int = field(default=0, compare=False)
    due: int = field(default=0, compare=False)

    @property
    def out_of_turn(self) -> bool:
        return self.reason.out_of_turn


@dataclass(frozen=True, slots=True)
class Fairness:
    """State for the next round, by priority, and credit per queue id."""

    partitions: Mapping[int, Partition] = field(default_factory=lambda: MappingProxyType({}))
    credit: Mapping[int, float] = field(default_factory=lambda: MappingProxyType({}))
    since_oldest: Mapping[int, int] = field(default_factory=lambda: MappingProxyType({}))


@dataclass(frozen=True, slots=True)
class Round:
    """Releases in order, their queues, and the state for the next round."""

    releases: tuple[Release, ...]
    queues: tuple[Queue, ...]
    fairness: Fairness
    period: int

    def wait_bounds(self) -> Mapping[int, int]:
        """Per priority, releases until every pod that still waits is released."""
        waiting: dict[int, int] = {}
        for queue in self.queues:
            left = queue.length - queue.released
            waiting[queue.priority] = waiting.get(queue.priority, 0) + left
        return MappingProxyType({priority: self.period * left for priority, left in waiting.items()})


def entry(pod: Waiting) -> Entry:
    return pod.since, pod.namespace, pod.name, pod.uid, pod


@dataclass(slots=True)
class RoundInProgress:
    """A round in the making: per priority, highest first, `partition` and then `release`."""

    now: Seconds
    settings: QueueSettings
    slots: int
    before: Fairness
    credit: dict[int, float] = field(init=False)
    partitions: dict[int, Partition] = field(default_factory=dict)
    since_oldest: dict[int, int] = field(default_factory=dict)
    releases: list[Release] = field(default_factory=list)
    queues: list[Queue] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.credit = dict(self.before.credit)

    def partition(self, priority: int, counts: Mapping[Shape, int], largest_gpu: MiB) -> Partition:
        """Queues of a priority; `counts`: pods per shape. Credits follow the pods to new queues."""
        before = self.before.partitions.get(priority)
        others = {**self.before.partitions, **self.partitions}
        taken = {id_ for level, other in others.items() if level != priority for id_ in other.ids()}
        after = renewed(before, counts, Clustering(self.settings.queues, largest_gpu, self.settings.seed), taken)
        if before is not None and after is not before:
            moved = carried(self.credit, before, after, counts)
            for old in before.ids():
                self.credit.pop(old, None)
            self.credit.update(moved)
        self.partitions[priority] = after
        return after

    def release(self, priority: int, counts: Mapping[Shape, int], lines: Mapping[int, Sequence[Entry]]) -> None:
        """Releases from the queues of a priority; `lines`: pods by queue id, in order."""
        shapes: dict[int, list[Shape]] = {}
        for shape in sorted(counts):
            shapes.setdefault(self.partitions[priority].queue_of[shape], []).append(shape)
        rule = self.settings.weights
        lanes = [_Lane.of(id_, tuple(shapes[id_]), lines[id_], self.now, rule) for id_ in sorted(shapes)]
        take = min(self.slots - len(self.releases), sum(len(lane.pods) for lane in lanes))
        since = self.before.since_oldest.get(priority, 0)
        self.since_oldest[priority] = since if take <= 0 else self._pick(lanes, take, since)
        self.queues += [lane.queue(priority) for lane in lanes]

    def result(self) -> Round:
        held = {queue.id: queue.length - queue.released for queue in self.queues}
        credit = {id_: value for id_, value in self.credit.items() if held.get(id_)}  # an empty queue has no credit
        state = Fairness(
            MappingProxyType(self.partitions), MappingProxyType(credit), MappingProxyType(self.since_oldest)
        )
        return Round(tuple(self.releases), tuple(self.queues), state, self.settings.oldest_every)

    def _pick(self, lanes: Sequence[_Lane], take: int, since: int) -> int:
        """Picks `take` pods: each lane earns its share per release; the lane with the most credit pays one."""
        period, credit = self.settings.oldest_every, self.credit
        for _ in range(take):
            live = [lane for lane in lanes if lane.next < len(lane.pods)]
            total = sum(lane.weight for lane in live)
            for lane in live:
                credit[lane.id] = credit.get(lane.id, 0.0) + lane.weight / total
            since = (since + 1) % period
            if since == 0:
                lane, reason = min(live, key=_Lane.head), LONGEST_WAIT
            else:
                lane = max(live, key=lambda lane: (credit[lane.id], lane.weight, -lane.id))
                reason = ReleaseReason(f"queue {lane.id} holds {lane.weight / total:.0%} of the weight")
            credit[lane.id] -= 1.0
            self.releases.append(Release(lane.head()[-1], reason))
            lane.next += 1
        return since


@dataclass(slots=True)
class _Lane:
    id: int
    shapes: tuple[Shape, ...]
    pods: Sequence[Entry]
    median_wait: Seconds
    weight: float
    next: int = 0

    @classmethod
    def of(cls, id_: int, shapes: tuple[Shape, ...], pods: Sequence[Entry], now: Seconds, rule: Weights) -> _Lane:
        middle = pods[(len(pods) - 1) // 2 : len(pods) // 2 + 1]
        wait = Seconds(sum(max(now - since, 0.0) for since, *_ in middle) / len(middle))
        return cls(id_, shapes, pods, wait, weight(rule, len(pods), wait))

    def head(self) -> Entry:
        return self.pods[self.next]

    def queue(self, priority: int) -> Queue:
        return Queue(self.id, priority, self.shapes, len(self.pods), self.median_wait, self.weight, self.next)


@dataclass(frozen=True, slots=True)
class Stuck:
    """A pod at our gate that cannot be read and is in no queue. `why`: names the field."""

    uid: str
    namespace: str
    name: str
    why: str


def stuck(raw: RawObject, why: str) -> Stuck | None:
    pod = PodOutline(raw)
    return Stuck(pod.uid, pod.namespace, pod.name, why) if names.QUEUE_GATE in pod.gates else None


def ours_alone_holds(pod: PodView) -> bool:
    return pod.gates == (names.QUEUE_GATE,) and not pod.terminating


def in_hand(pod: PodView) -> bool:
    """Whether our scheduler has an unbound pod: no gate, not ending."""
    ours = pod.scheduler == names.SCHEDULER_NAME and pod.request.needs_gpu
    return ours and pod.node is None and not pod.gates and not pod.terminating


def may_be_placed(pod: PodView) -> bool:
    """Whether a place may be kept for an unbound pod: our scheduler has it, or will once our gate is lifted."""
    ours = pod.scheduler == names.SCHEDULER_NAME and pod.request.needs_gpu and pod.complaint is None
    return ours and pod.node is None and set(pod.gates) <= {names.QUEUE_GATE} and not pod.terminating


def waiting(pod: PodView) -> Waiting:
    request = pod.request
    return Waiting(
        uid=request.uid,
        namespace=request.namespace,
        name=request.name,
        memory_mib=request.memory_mib,
        model=request.model,
        since=pod.created_at,
        priority=request.priority,
        gpus=request.gpus if request.needs_gpu else 0,
        compute=Percent(0) if request.whole else request.least_compute,
    )
