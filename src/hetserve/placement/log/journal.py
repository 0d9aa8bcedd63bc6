"""The placement log: every call that changes the state machine or asks it for a decision, as a record.

A record holds the call, its arguments reduced to what is read, and what came out. Whoever feeds the calls to a
`JournaledPlacer` again gets the same records: that is the replay. Calls made inside another are not written,
and all of one call see one time, so that the clock's readings are part of the record.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from functools import wraps
from typing import Any, Concatenate, Final, ParamSpec, TypeVar

from hetserve.objects.metadata import RawObject, object_key, uid_of
from hetserve.placement.ledger.bookings import Booking, LedgerError
from hetserve.placement.ledger.index import GpuIndex
from hetserve.placement.ledger.inventory import NodeInventory
from hetserve.placement.ledger.ledger import Ledger
from hetserve.placement.log.values import argument, booking_value, outcome_value, scores_value
from hetserve.placement.placer import Placer
from hetserve.placement.pods.read_ahead import read_ahead
from hetserve.placement.pods.view import PodView
from hetserve.units import Seconds

Record = dict[str, Any]
VERSION: Final = 1
HEADER: Final = "header"
CHECKPOINT: Final = "checkpoint"
P = ParamSpec("P")
T = TypeVar("T")


class Recorder:
    """Runs calls and hands the records of the outermost ones to `write`."""

    def __init__(self, clock: Callable[[], Seconds], write: Callable[[Record], None]) -> None:
        self._real = clock
        self._write = write
        self._now: Seconds | None = None

    @property
    def inside(self) -> bool:
        """Whether a call is under way."""
        return self._now is not None

    def clock(self) -> Seconds:
        """The time; within a call it stands still."""
        return self._real() if self._now is None else self._now

    def leave_out(self, call: Callable[[], T]) -> T:
        """Run a call that changes nothing without a record, also of what it calls."""
        if self.inside:
            return call()
        self._now = self._real()
        try:
            return call()
        finally:
            self._now = None

    def run(self, call: Callable[[], T], describe: Callable[[T | Exception], Record | None]) -> T:
        """Run a call and write what `describe` makes of its result or refusal (None: not worth a record)."""
        at = self._now = self._real()
        result: T | Exception
        try:
            result = call()
        except (LedgerError, ValueError) as error:
            result = error
        finally:
            self._now = None
        record = describe(result)
        if record is not None:
            self._write({"t": at, **record})
        if isinstance(result, LedgerError | ValueError):
            raise result
        return result


def _recorded(
    method: Callable[Concatenate[Any, P], T],
    result: Callable[[Any, frozenset[str]], Any] | None = None,
    *,
    worth: Callable[[Any], bool] = lambda _result: True,
) -> Callable[Concatenate[Any, P], T]:
    """The method with a record of each outermost call; `result` makes what a replay compares, given the known nodes."""
    name, parameters = method.__name__, list(inspect.signature(method).parameters)[1:]

    @wraps(method)
    def call(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> T:
        recorder: Recorder = self.recorder
        if recorder.inside:
            return method(self, *args, **kwargs)

        def describe(made: T | Exception) -> Record | None:
            refused = isinstance(made, Exception)
            if not refused and not worth(made):
                return None
            given = dict(zip(parameters, args, strict=False)) | kwargs
            known = self.known(given)
            written = {key: argument(key, value, known) for key, value in given.items()}
            record: Record = {"call": name, "args": written}
            if refused:
                return record | {"error": str(made)}
            return record if result is None else record | {"result": result(made, known)}

        return recorder.run(lambda: method(self, *args, **kwargs), describe)

    return call


def _uid(made: Booking | None, _known: frozenset[str]) -> str | None:
    return None if made is None else made.request.uid


def _booking(made: Booking, _known: frozenset[str]) -> Record:
    return booking_value(made)


def _scores(made: Mapping[str, int], _known: frozenset[str]) -> Record:
    return scores_value(made)


def _uids(made: Iterable[Booking], _known: frozenset[str]) -> list[str]:
    return [booking.request.uid for booking in made]


def _deadlines(made: tuple[tuple[Booking, ...], ...], _known: frozenset[str]) -> list[list[str]]:
    return [[booking.request.uid for booking in bookings] for bookings in made]


class JournaledLedger(Ledger):
    """A ledger whose changes are written, and whose whole state can be."""

    def __init__(self, recorder: Recorder) -> None:
        super().__init__()
        self.recorder = recorder
        self._named: tuple[GpuIndex, frozenset[str]] | None = None

    def known(self, _given: Mapping[str, Any] | None = None) -> frozenset[str]:
        """Names of the nodes that a decision tells apart: those with GPUs, and those that cannot be read."""
        if self._named is None or self._named[0] is not self.index:
            self._named = (self.index, self.index.unreadable.union(self.index.node_row))
        return self._named[1]

    def holds(self, uid: str) -> bool:
        """Whether anything is known of a pod."""
        return uid in self._bookings or uid in self._unplaced

    put_node = _recorded(Ledger.put_node, worth=bool)
    drop_node = _recorded(Ledger.drop_node, worth=bool)
    relist_nodes = _recorded(Ledger.relist_nodes)
    observe = _recorded(Ledger.observe)
    relist_pods = _recorded(Ledger.relist_pods)
    release = _recorded(Ledger.release, _uid)
    reserve = _recorded(Ledger.reserve, _booking)
    begin_bind = _recorded(Ledger.begin_bind, _booking)
    confirm_bind = _recorded(Ledger.confirm_bind)
    verify = _recorded(Ledger.verify)
    expire = _recorded(Ledger.expire, _deadlines)

    def checkpoint(self) -> Record:
        """All that decisions depend on: nodes, bookings with their deadlines, bound pods without a GPU.

        The values are as they are, not yet JSON: to make them so takes `plain` a second for 10,000 pods, and a
        fast encoder, which knows dataclasses, a twentieth of that.
        """
        state = {
            "nodes": list(self.inventories().values()),
            "bookings": list(self._bookings.values()),
            "unplaced": dict(self._unplaced),
        }
        return {"t": self.recorder.clock(), "call": CHECKPOINT, "args": state}

    def restore(self, nodes: Iterable[NodeInventory], bookings: Iterable[Booking], unplaced: Mapping[str, str]) -> None:
        """Become what a checkpoint says; for a ledger that holds nothing yet."""
        for node in nodes:
            self._shelves.set_node(node)
        for booking in bookings:
            self._add(booking)
        self._unplaced.update(unplaced)


class JournaledPlacer(Placer):
    """The state machine with a log. `write` gets each record, `clock` is monotonic, `hold` as for `Placer`."""

    def __init__(
        self, clock: Callable[[], Seconds], hold: Seconds, write: Callable[[Record], None], **settings: Any
    ) -> None:
        self.recorder = Recorder(clock, write)
        self.journaled = JournaledLedger(self.recorder)
        super().__init__(clock=self.recorder.clock, hold=hold, ledger=self.journaled, **settings)

    def known(self, given: Mapping[str, Any]) -> frozenset[str]:
        """Names against which offered nodes are written: the known ones, and that on which the pod itself is."""
        nodes = self.journaled.known()
        held = self.ledger.booking(uid_of(given.get("raw") or {}))
        return nodes if held is None or held.node in nodes else nodes | {held.node}

    filter = _recorded(Placer.filter, outcome_value)
    prioritize = _recorded(Placer.prioritize, _scores)
    fix_gpus = _recorded(Placer.fix_gpus, _booking)
    overdue = _recorded(Placer.overdue, _uids)
    believe = _recorded(Placer.believe)
    observe_all = _recorded(Placer.observe_all)
    _forget = _recorded(Placer.forget)
    _observe = _recorded(Placer.observe)

    def observe(self, raw: RawObject) -> PodView | None:
        """Pods that never concerned us leave no record: in a large cluster they are most of the events."""
        pod = read_ahead(raw)
        if pod.relevant or self._knows(uid_of(pod), object_key(pod)):
            return self._observe(pod)
        return self.recorder.leave_out(lambda: Placer.observe(self, pod))

    def forget(self, uid: str) -> None:
        """A pod is gone for good; one that was never known leaves no record."""
        if self._knows(uid):
            self._forget(uid)

    def _knows(self, uid: str, key: str = "") -> bool:
        return uid in self.pods or key in self.unreadable or self.journaled.holds(uid)

    def header(self, wall: float) -> Record:
        """First record of a log: what the replay must be told; `wall` is the time of day [s since 1970] now."""
        settings = {"mode": self.mode.value, "policy": self.policy.value}
        now = self.recorder.clock()
        return {"t": now, "call": HEADER, "version": VERSION, "wall": wall, "hold": self.hold, "settings": settings}
