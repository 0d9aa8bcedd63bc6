"""Pods that filter refused: a state machine without requests.

    REFUSED -> ASKED -> (tried: placed, or REFUSED anew)
       |         | not tried in time
       +---> BACKING_OFF ---> due again

Forgets pods that are placed, ended or gone (decision 0037).
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from types import MappingProxyType
from typing import Final, Literal

import numpy as np

from hetserve.objects.fields import InvalidObjectError
from hetserve.placement.decision.decide import fits
from hetserve.placement.ledger.bookings import State
from hetserve.placement.ledger.index import GpuIndex, Mask, Numbers
from hetserve.placement.placer import Placer
from hetserve.placement.pods.requests import GpuRequest
from hetserve.placement.values import value

NONE: Final = b""
_SPARE: Final = 1024


@value(frozen=True, slots=True)
class ExcludedNodes:
    """Nodes not offered: a bit per number of `generation`; `NONE`: all were offered.

    Not the offered ones: a node unknown to the ledger may be the one that the pod needs.
    """

    generation: int
    bits: bytes


class NodeNumbers:
    """Numbers every node with GPUs; starts a new generation when numbers exceed about twice the nodes."""

    def __init__(self) -> None:
        self._index: GpuIndex | None = None
        self._numbers: dict[str, int] = {}
        self._of_row: Numbers = np.zeros(0, dtype=np.int64)
        self._generation = 0

    @property
    def names(self) -> Collection[str]:
        return self._numbers.keys()

    def excluded(self, index: GpuIndex, offered: Sequence[str]) -> ExcludedNodes:
        """Nodes of the index that were not offered."""
        self._follow(index)
        without = np.ones(len(index.nodes) + 1, dtype=np.bool_)  # last: names without a row
        without[index.rows_of(offered)] = False
        without = without[:-1]
        if not without.any():
            return ExcludedNodes(self._generation, NONE)
        bits = np.zeros(len(self._numbers), dtype=np.bool_)
        bits[self._of_row[without]] = True
        return ExcludedNodes(self._generation, np.packbits(bits).tobytes())

    def not_excluded(self, index: GpuIndex, excluded: ExcludedNodes) -> Mask | None:
        """Mask over the index's current nodes; None: all, or the generation is over."""
        self._follow(index)
        if excluded.bits == NONE or excluded.generation != self._generation:
            return None
        packed = np.frombuffer(excluded.bits, dtype=np.uint8)
        bits = np.zeros(max(len(self._numbers), 8 * len(packed)), dtype=np.bool_)
        bits[: 8 * len(packed)] = np.unpackbits(packed).astype(np.bool_)
        offered: Mask = ~bits[self._of_row]
        return offered

    def _follow(self, index: GpuIndex) -> None:
        if index is self._index:
            return
        self._index = index
        if len(self._numbers) > 2 * len(index.nodes) + _SPARE:
            self._numbers, self._generation = {}, self._generation + 1
        number = self._numbers
        found = [number.setdefault(node.name, len(number)) for node in index.nodes]
        self._of_row = np.array(found, dtype=np.int64)


RequeueOutcome = Literal["written", "gone", "refused", "lost"]
"""Outcome of a patch."""

REMEMBERED: Final = 512
LONGEST_UID: Final = 128
"""Characters of a UID; Kubernetes uses 36."""
SEEN_WITHIN: Final = 10.0
"""Seconds in which the watch must show a refused pod."""
ANSWERED_WITHIN: Final = 2.0
"""Seconds for the scheduler to try an asked pod (measured: 0.2)."""
RETRY_AFTER: Final = 1.0
RETRY_AFTER_AT_MOST: Final = 60.0
NEVER: Final = math.inf


class RefusedState(Enum):
    """State of a refused pod."""

    REFUSED = "refused"
    ASKED = "asked"
    """The scheduler has until `until` to try it."""
    BACKING_OFF = "backing off"
    """The patch failed, or the pod was not tried; due again after `until`, which doubles."""


@value(frozen=True, slots=True)
class RefusedPod:
    """A pod as last refused, at time `at`.

    judged: state of the GPUs (`GpuChanges`) in which it fitted nowhere.
    """

    uid: str
    excluded: ExcludedNodes
    judged: int
    at: float
    state: RefusedState = RefusedState.REFUSED
    until: float = NEVER
    failures: int = 0

    def judge(self, state: int) -> RefusedPod:
        return RefusedPod(self.uid, self.excluded, state, self.at, self.state, self.until, self.failures)

    def ask(self, now: float) -> RefusedPod:
        return self._until(RefusedState.ASKED, now + ANSWERED_WITHIN, self.failures)

    def back_off(self, now: float) -> RefusedPod:
        pause = min(RETRY_AFTER * 2.0 ** min(self.failures, 16), RETRY_AFTER_AT_MOST)
        return self._until(RefusedState.BACKING_OFF, now + pause, self.failures + 1)

    def may_be_asked(self, now: float) -> bool:
        return self.state is RefusedState.REFUSED or self.until <= now

    def _until(self, state: RefusedState, until: float, failures: int) -> RefusedPod:
        return RefusedPod(self.uid, self.excluded, self.judged, self.at, state, until, failures)


class GpuChanges:
    """Numbers the states of the GPUs and their pods, by a hash of the content.

    Sums of memory would miss a pod that another of its size replaces.
    """

    def __init__(self) -> None:
        self.state = 0
        self._index: GpuIndex | None = None
        self._content = 0

    def look(self, index: GpuIndex) -> int:
        """The number of the current state; equal content keeps the number."""
        if index is not self._index or index.content != self._content:
            self.state += 1
        self._index, self._content = index, index.content
        return self.state


@dataclass(slots=True)
class RefusedPods:
    """The refused pods, the longest refused first, those that back off last."""

    placer: Placer
    clock: Callable[[], float]
    nodes: NodeNumbers = field(default_factory=NodeNumbers)
    changes: GpuChanges = field(default_factory=GpuChanges)
    _pods: dict[str, RefusedPod] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self._pods)

    @property
    def pods(self) -> Mapping[str, RefusedPod]:
        return MappingProxyType(self._pods)

    def refused(self, uid: str, offered: Sequence[str]) -> None:
        """Filter refused a pod on the offered nodes."""
        self._pods.pop(uid, None)
        if len(uid) > LONGEST_UID:
            return
        index = self.placer.ledger.index
        state = self.changes.look(index)
        self._pods[uid] = RefusedPod(uid, self.nodes.excluded(index, offered), state, self.clock())
        if len(self._pods) > REMEMBERED:
            del self._pods[next(iter(self._pods))]

    def placed(self, uid: str) -> bool:
        """Filter placed a pod; returns whether it was asked for."""
        pod = self._pods.pop(uid, None)
        return pod is not None and pod.state is RefusedState.ASKED

    def answered(self, pod: RefusedPod, outcome: RequeueOutcome) -> None:
        if self._pods.get(pod.uid) is not pod:
            return
        if outcome == "written":
            self._pods[pod.uid] = pod.ask(self.clock())
        elif outcome == "gone":
            del self._pods[pod.uid]
        else:
            self._back_off(pod)

    def due(self) -> Iterator[tuple[RefusedPod, GpuRequest] | None]:
        """Yields, pod by pod, what to ask for, or None: one pod of each kind that fits, none of a kind being tried.

        Pods may change between two steps.
        """
        state = self.changes.look(self.placer.ledger.index)
        fitting = dict.fromkeys(self._kinds_asked(), True)
        for pod in list(self._pods.values()):
            request = self._request(pod)
            is_due = request is not None and self._is_due(pod, request, fitting, state)
            yield (pod, request) if request is not None and is_due else None

    def next_end(self) -> float | None:
        """End of the next state that ends by time."""
        now = self.clock()
        return min((pod.until for pod in self._pods.values() if now < pod.until < NEVER), default=None)

    def _kinds_asked(self) -> list[Hashable]:
        """Kinds being tried."""
        kinds, now = [], self.clock()
        for pod in [pod for pod in self._pods.values() if pod.state is RefusedState.ASKED]:
            if pod.until <= now:
                self._back_off(pod)
            elif (request := self._request(pod)) is not None:
                kinds.append(_kind(request, pod))
        return kinds

    def _is_due(self, pod: RefusedPod, request: GpuRequest, fitting: dict[Hashable, bool], state: int) -> bool:
        """Whether to ask for a pod. fitting: whether each kind fits, if decided."""
        if not pod.may_be_asked(self.clock()):
            return False
        if self.placer.ledger.booking(pod.uid) is not None:  # its place is kept
            return True
        if pod.judged == self.changes.state:
            return False
        kind = _kind(request, pod)
        if kind not in fitting:
            index = self.placer.ledger.index
            fitting[kind] = fits(index, request, self.nodes.not_excluded(index, pod.excluded))
            if fitting[kind]:
                return True
        if not fitting[kind]:
            self._pods[pod.uid] = pod.judge(state)
        return False

    def _request(self, pod: RefusedPod) -> GpuRequest | None:
        """The pod's current request; None, and forgotten, if it is placed, ended or gone."""
        if self._pods.get(pod.uid) is not pod:  # refused again
            return None
        shown = self.placer.pods.get(pod.uid)
        if shown is not None and not shown.terminating and not self._is_placed(pod):
            with contextlib.suppress(InvalidObjectError):
                return shown.placeable()
        if shown is not None or self.clock() - pod.at > SEEN_WITHIN:
            del self._pods[pod.uid]
        return None

    def _is_placed(self, pod: RefusedPod) -> bool:
        """Whether it has GPUs, but for a place kept for it since it was refused."""
        held = self.placer.ledger.booking(pod.uid)
        return held is not None and held.state is not State.RESERVED

    def _back_off(self, pod: RefusedPod) -> None:
        del self._pods[pod.uid]
        self._pods[pod.uid] = pod.back_off(self.clock())


def _kind(request: GpuRequest, pod: RefusedPod) -> Hashable:
    """Everything that decides whether a pod fits."""
    return request.namespace, request.claim, pod.excluded
