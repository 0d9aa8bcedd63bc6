"""The state machine of placement: watches update it, the scheduler's verbs ask it.

Synchronous, with an injected clock: on one event loop each call is atomic.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from hetserve.base.units import Seconds
from hetserve.objects.metadata import KubernetesObject, RawObject, object_key, uid_of
from hetserve.placement.decision.decide import MAX_SCORE, PlacementDecision, decide, feasible, scores
from hetserve.placement.decision.refusals import NodeRefusal
from hetserve.placement.decision.wording import too_late_text
from hetserve.placement.ledger.bookings import Booking, LedgerError, LedgerErrorKind, State
from hetserve.placement.ledger.ledger import Ledger
from hetserve.placement.ledger.problems import LedgerProblem, unreadable_pod
from hetserve.placement.pods.read_ahead import ReducedPod, changed_pods, view_of
from hetserve.placement.pods.requests import DEFAULT_POLICY, GpuRequest, PolicyName
from hetserve.placement.pods.view import PodView, parse_pod, unread_pod
from hetserve.placement.queues.rounds import Stuck, may_be_placed, stuck

log = logging.getLogger(__name__)

VERIFY_AFTER: Final = 75.0
"""Seconds after which an unconfirmed bind is looked up; the API server ends a request after 60 s."""
_IN_DOUBT: Final = "the pod has changed while an earlier bind of it to node {} may still land; that is looked up first"


class Mode(Enum):
    """Who picks the node: filter, with a reservation, or the scheduler, by our scores."""

    DECIDE = "decide"
    SCORE = "score"


@dataclass(frozen=True, slots=True)
class FilterOutcome:
    """Nodes that pass, and why the others do not; `decision`: in mode DECIDE."""

    passed: tuple[str, ...] = ()
    refusals: tuple[NodeRefusal, ...] = ()
    decision: PlacementDecision | None = None


@dataclass(slots=True)
class Placer:
    """The ledger of bound pods, the pods without a node, and the decisions about them.

    `clock`: monotonic. `hold`: life of a reservation [s]. `on_pod`: gets the UID of a changed pod. `on_change`: called
    after what can help a waiting pod. `on_expired`: gets the number of unused reservations. `on_kept`: gets the UID of
    a waiting pod for which the place of another of its Deployment was reserved.
    """

    clock: Callable[[], Seconds]
    hold: Seconds
    mode: Mode = Mode.DECIDE
    policy: PolicyName = DEFAULT_POLICY
    ledger: Ledger = field(default_factory=Ledger)
    pods: dict[str, PodView] = field(default_factory=dict)
    unreadable: dict[str, LedgerProblem] = field(default_factory=dict)
    _at_gate: dict[str, Stuck] = field(default_factory=dict)
    _logged: dict[str, LedgerProblem] = field(default_factory=dict)
    on_change: Callable[[], None] = lambda: None
    on_pod: Callable[[str], None] = lambda _uid: None
    on_expired: Callable[[int], None] = lambda _count: None
    on_kept: Callable[[str], None] = lambda _uid: None

    def filter(self, raw: RawObject, offered: Sequence[str]) -> FilterOutcome:
        """The one node for a pod, reserved, or (mode SCORE) every node that can take it.

        Ends an earlier reservation. Raises ValueError for an unreadable pod, LedgerError while the pod is being bound
        to a node that is not offered.
        """
        request = self._request(raw)
        if not request.needs_gpu:
            return FilterOutcome(passed=tuple(offered))
        now = self._expire()
        held = self.ledger.booking(request.uid)
        if held is not None and held.state is not State.RESERVED:
            return _stay(held, offered)
        if held is not None:
            self.ledger.release(request.uid)
        if self.mode is Mode.SCORE:
            return FilterOutcome(*feasible(self.ledger.index, request, offered))
        decision = decide(self.ledger.index, request, offered, policy=self.policy)
        if decision.chosen is None:
            return FilterOutcome((), decision.refusals, decision)
        self.ledger.reserve(request, decision.chosen.places, Seconds(now + self.hold))
        return FilterOutcome(passed=(decision.chosen.node,), decision=decision)

    def prioritize(self, raw: RawObject, offered: Sequence[str]) -> Mapping[str, int]:
        """Scores 0 to 10 of the offered nodes; the node that a pod holds has the highest.

        Raises ValueError as `filter`.
        """
        request = parse_pod(raw).placeable()
        if not request.needs_gpu:
            return dict.fromkeys(offered, 0)
        found = scores(self.ledger.index, request, offered, policy=self.policy)
        held = self.ledger.booking(request.uid)
        if held is not None and held.node in found:
            found[held.node] = MAX_SCORE
        return found

    def fix_gpus(self, request: GpuRequest, node: str) -> Booking:
        """Books GPUs of `node` for a bind that starts now: the reserved ones, else the best.

        `request`: the pod now; a changed one gets new GPUs. Raises LedgerError, with filter's reason, if the node
        cannot take the pod.
        """
        now = self._expire()
        held = self.ledger.booking(request.uid)
        if held is not None and held.node == node and held.request.claim == request.claim:
            if held.state is State.BINDING or self._good(held):
                return self.ledger.begin_bind(request.uid)
        elif held is not None and held.state is State.BINDING:
            raise LedgerError(LedgerErrorKind.IN_DOUBT, _IN_DOUBT.format(held.node))
        if held is not None and held.state is State.RESERVED:
            self.ledger.release(request.uid)
        decision = decide(self.ledger.index, request, [node], policy=self.policy)
        if decision.chosen is None:
            refusal = decision.refusals[0]
            text = f"node {node}: {too_late_text(refusal)}"
            raise LedgerError(LedgerErrorKind.NODE_REFUSED, text, refusal.kind.value)
        self.ledger.reserve(request, decision.chosen.places, Seconds(now + self.hold))
        return self.ledger.begin_bind(request.uid)

    def changed(self, raw: RawObject) -> str:
        """Why a pod, as just read, cannot have its booked GPUs; empty if it can."""
        try:
            request = parse_pod(raw).placeable()
        except Exception as error:
            return str(error)
        held = self.ledger.booking(request.uid)
        if (held.request.claim == request.claim) if held is not None else not request.needs_gpu:
            return ""
        return "the pod has changed since its GPUs were chosen; they are chosen again"

    def overdue(self) -> tuple[Booking, ...]:
        ended, overdue = self.ledger.expire(self.clock())
        if ended:
            self.on_expired(len(ended))
        return overdue

    def read(self, raw: RawObject) -> PodView | None:
        """View of a pod; None, with an entry in `problems`, if it cannot be read."""
        key = object_key(raw)
        try:
            pod = view_of(raw)
        except Exception as error:
            self._note_unreadable(key, raw, str(error))
            if (held := stuck(raw, str(error))) is not None:
                self._at_gate[key] = held
            return None
        self.unreadable.pop(key, None)
        self._logged.pop(key, None)
        return pod

    def observe(self, raw: RawObject) -> PodView | None:
        """Updates from a pod. A bound pod that cannot be read closes its node."""
        pod = self.read(raw)
        seen = pod or unread_pod(raw)
        if seen is None:
            self.on_change()
            return None
        self.ledger.observe(seen)
        known = self.pods.pop(seen.uid, None)
        if _keep(seen):
            self.pods[seen.uid] = seen
        if known is not None or _keep(seen):
            self.on_pod(seen.uid)
        if known is not None or _keep(seen) or seen.unread:
            self.on_change()
        return pod

    def believe(self, pod: PodView) -> None:
        """Updates from an answer that may be older than the watch; looks the pod up if the watch stays silent."""
        self.ledger.observe(pod, Seconds(self.clock() + VERIFY_AFTER))
        self.on_change()

    def observe_all(self, objects: Sequence[RawObject]) -> None:
        self.unreadable.clear()
        taken, same = changed_pods(objects, self.ledger.bookings())
        ahead = ((raw, raw.view if isinstance(raw, ReducedPod) else None) for raw in taken)
        seen = (view or self.read(raw) or unread_pod(raw) for raw, view in ahead)
        pods = [pod for pod in seen if pod is not None and pod.concerns_us]
        self.ledger.relist_pods(pods, self.clock(), same)
        self._logged = {key: logged for key, logged in self._logged.items() if key in self.unreadable}
        before, self.pods = self.pods, {pod.uid: pod for pod in pods if pod.node is None and not pod.finished}
        for uid in {**before, **self.pods}:
            known, now = before.get(uid), self.pods.get(uid)
            if known is not now and known != now:
                self.on_pod(uid)
        self.on_change()

    def forget(self, uid: str) -> None:
        known = self.pods.pop(uid, None)
        if known is not None:
            self.on_pod(uid)
        if self.ledger.release(uid) is not None or known is not None:
            self.on_change()

    def pass_on(self, before: Iterable[Booking]) -> None:
        """Reserves the places of bound pods that are gone for waiting pods of their Deployments, the oldest first.

        before: bookings before the event; those that are gone have ended by it.
        """
        booked = self.ledger.bookings()
        gone = [one for one in before if one.request.deployment and one.request.uid not in booked]
        left = [one for one in gone if one.state is State.BOUND]
        names = {one.request.deployment for one in left}
        found = self.pods.values() if left else ()
        waiting = [pod for pod in found if pod.request.deployment in names and may_be_placed(pod)]
        waiting.sort(key=lambda pod: (pod.created_at, pod.uid))
        for one in left:
            siblings = [pod.request for pod in waiting if _workload(pod.request) == _workload(one.request)]
            heir = next((request for request in siblings if self._takes_place(request, one)), None)
            if heir is not None:
                self.on_kept(heir.uid)

    def stuck(self) -> tuple[Stuck, ...]:
        self._at_gate = {key: pod for key, pod in self._at_gate.items() if key in self.unreadable}
        return tuple(pod for _, pod in sorted(self._at_gate.items()))

    def problems(self) -> tuple[LedgerProblem, ...]:
        return (*self.ledger.problems(), *self.unreadable.values())

    def _note_unreadable(self, key: str, raw: RawObject, why: str) -> None:
        bound = unread_pod(raw)
        closed = bound.node if bound is not None and bound.holds and not bound.finished else None
        self.unreadable[key] = problem = unreadable_pod(key, closed or "", why)
        if self._logged.get(key) != problem:
            self._logged[key] = problem
            log.warning("%s", problem.text)

    def _expire(self) -> Seconds:
        now = self.clock()
        for booking in self.overdue():
            self.ledger.verify(booking.request.uid, now)
        return now

    def _takes_place(self, request: GpuRequest, ended: Booking) -> bool:
        """Reserves the places of a booking that ended, if the pod has none and may have these."""
        if self.ledger.booking(request.uid) is not None:
            return False
        try:
            reserved = self.ledger.reserve(request, ended.places, Seconds(self.clock() + self.hold))
        except LedgerError:
            return False
        index = self.ledger.index
        if self._good(reserved) and all(index.usable[index.row[place]] for place in reserved.places):
            return True
        self.ledger.release(request.uid)
        return False

    def _good(self, held: Booking) -> bool:
        """Whether a reservation still holds: node open, GPUs not over-used, accepted, without the pod's model."""
        if held.state is not State.RESERVED:
            return False
        index, request = self.ledger.index, held.request
        for place in held.places:
            row = index.row[place]
            gpu = index.gpus[row]
            if (
                not index.open[row]
                or index.over_booked(row, request)
                or not request.selector.accepts(gpu.id, gpu.product)
            ):
                return False
            if request.model is not None and index.beside_its_model(place, request):
                return False
        return True

    def _request(self, raw: RawObject) -> GpuRequest:
        try:
            return self._view(raw).placeable()
        except Exception:
            held = self.ledger.booking(uid_of(raw))
            if held is not None and held.state is State.RESERVED:
                self.ledger.release(held.request.uid)
            raise

    def _view(self, raw: RawObject) -> PodView:
        """View of a pod that the scheduler sends: the watch's, if of the same version.

        Placement logs have no versions, so a replay always parses the call's pod. Raises ValueError.
        """
        known = self.pods.get(uid_of(raw))
        if known is None or known.revision is None or known.revision != KubernetesObject(raw).revision:
            return parse_pod(raw)
        return known


def _keep(pod: PodView) -> bool:
    return pod.concerns_us and pod.node is None and not pod.finished


def _workload(request: GpuRequest) -> tuple[str, str]:
    return request.namespace, request.deployment


def _stay(held: Booking, offered: Sequence[str]) -> FilterOutcome:
    """A pod keeps its node once its bind has begun: the first request may still land."""
    if held.node in offered:
        return FilterOutcome(passed=(held.node,))
    text = f"pod is bound or being bound to node {held.node}, which is not offered"
    raise LedgerError(LedgerErrorKind.NOT_OFFERED, text)
