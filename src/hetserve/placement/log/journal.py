"""The placement log: every call that changes the state machine or asks it for a decision, as a record.

A replay feeds the calls to a `JournaledPlacer` and compares (decision 0036). Inner calls are not written; one call sees
one time. `VERSION` grows when a record changes its form, a call its name, or a rule its decisions; logs of `VERSIONS`
are read, the older ones without terms of sharing.
"""

from __future__ import annotations

import dataclasses
import inspect
import zlib
from collections.abc import Callable, Collection, Iterable, Mapping
from enum import Enum
from functools import cache, wraps
from typing import Any, Concatenate, Final, ParamSpec, TypeVar

from hetserve.base.units import MiB, Seconds
from hetserve.objects.metadata import RawObject, object_key, uid_of
from hetserve.placement.decision.decide import GpuOffer, OfferedGpu
from hetserve.placement.decision.refusals import NodeRefusal, RefusalKind
from hetserve.placement.ledger.bookings import Booking, Cause, LedgerError
from hetserve.placement.ledger.index import GpuIndex
from hetserve.placement.ledger.inventory import NodeInventory
from hetserve.placement.ledger.ledger import Ledger
from hetserve.placement.ledger.problems import LedgerProblem
from hetserve.placement.placer import FilterOutcome, Placer
from hetserve.placement.pods.read_ahead import ReducedPod, read_ahead
from hetserve.placement.pods.requests import GpuRequest
from hetserve.placement.pods.view import PodView

Record = dict[str, Any]
VERSION: Final = 6
VERSIONS: Final = (5, VERSION)
HEADER: Final = "header"
CHECKPOINT: Final = "checkpoint"
COMPARED: Final = ("result", "error", "refusal")
UNREADABLE: Final = "unreadable-pod"
P = ParamSpec("P")
T = TypeVar("T")
_FEW: Final = 8
"""Node names written in full; of more, number and checksum."""


def argument(name: str, value: Any, known: frozenset[str]) -> Any:
    """An argument as the log has it; `known`: nodes by which offered ones are written."""
    if name == "raw":
        return ReducedPod.of(value)
    if name == "objects":
        return [pod for pod in map(read_ahead, value) if pod.relevant]
    if name == "nodes":  # left as values: plain ones take 50 ms for 8,000 GPUs
        return list(value)
    if name == "request":  # likewise: 0.1 ms with terms that name twenty models
        return value
    if name == "offered":
        return offered_value(value, known)
    return plain(value)


def offered_value(offered: Iterable[str], known: frozenset[str]) -> dict[str, Any]:
    """The known nodes that are offered, or the others if these are fewer, and the number of unknown ones."""
    given = set(offered)
    if given == known:
        return {"without": []}
    without = known - given
    inside = len(known) - len(without)
    beside = {"beside": len(given) - inside} if len(given) > inside else {}
    if 2 * inside > len(known):
        return {"without": sorted(without), **beside}
    return {"only": sorted(known & given), **beside}


def offered_names(value: Mapping[str, Any], known: frozenset[str]) -> list[str]:
    """Nodes that `offered_value` wrote; unknown ones get made-up names."""
    inside = known - frozenset(value["without"]) if "without" in value else frozenset(value["only"])
    return sorted(inside) + [f"?{number}" for number in range(value.get("beside", 0))]


def outcome_value(outcome: FilterOutcome, known: frozenset[str]) -> dict[str, Any]:
    """Nodes that pass, the choice, the next best, and the number of nodes per refusal.

    Unknown nodes that pass are only counted.
    """
    passed = frozenset(outcome.passed)
    made: dict[str, Any] = {"passed": names_value(passed & known)}
    if beside := len(passed - known):
        made["beside"] = beside
    if outcome.decision is not None:
        made["chosen"] = _offer_value(outcome.decision.chosen)
        made["runnerUp"] = _offer_value(outcome.decision.runner_up)
    refused = sorted(map(_refusal_value, outcome.refusals), key=_refusal_order)
    return made | ({"refused": refused} if refused else {})


def _offer_value(offer: GpuOffer | None) -> dict[str, Any] | None:
    if offer is None:
        return None
    return {"node": offer.node, "gpus": [_free_gpu_value(gpu) for gpu in offer.gpus]}


def _free_gpu_value(gpu: OfferedGpu) -> dict[str, Any]:
    compute = gpu.free_compute
    return {"id": gpu.id, "idle": gpu.idle, "freeMiB": gpu.free_mib, "freeComputePercent": compute}


def _refusal_value(refusal: NodeRefusal) -> dict[str, Any]:
    fields = ("kind", "most", "cause", "names", "more", "message")
    return {"nodes": len(refusal.nodes)} | {name: plain(getattr(refusal, name)) for name in fields}


def _refusal_order(written: Record) -> tuple[str, str, str]:
    return written["kind"], written["cause"] or "", written["message"]


def offer_of(written: Record | None) -> GpuOffer | None:
    if written is None:
        return None
    return GpuOffer(written["node"], tuple(map(_free_gpu_of, written["gpus"])))


def _free_gpu_of(written: Record) -> OfferedGpu:
    free, compute = MiB(written["freeMiB"]), written["freeComputePercent"]
    return OfferedGpu(written["id"], "", free, written["idle"], compute)


def refusals_of(written: Iterable[Record], request: GpuRequest) -> list[tuple[int, NodeRefusal]]:
    """(number of nodes, refusal) of a record's refusals, without names of nodes."""
    found = []
    for one in written:
        cause = None if one["cause"] is None else Cause(one["cause"])
        kind, names = RefusalKind(one["kind"]), tuple(one["names"])
        refusal = NodeRefusal(kind, request, (), one["most"], cause, names, one["more"], one["message"])
        found.append((one["nodes"], refusal))
    return found


def error_value(error: LedgerError | ValueError) -> dict[str, Any]:
    if not isinstance(error, LedgerError):
        return {"error": UNREADABLE, "message": str(error)}
    refusal = {"refusal": error.refusal} if error.refusal else {}
    return {"error": error.kind.value, **refusal, "message": str(error)}


def scores_value(scores: Mapping[str, int]) -> dict[str, Any]:
    above = [item for item in scores.items() if item[1] > 0]
    ranked = sorted(above, key=lambda item: (-item[1], item[0]))
    return {"best": dict(ranked[:_FEW]), "all": _checksum(f"{node}={score}" for node, score in ranked)}


def names_value(names: Collection[str]) -> Any:
    return sorted(names) if len(names) <= _FEW else {"count": len(names), "checksum": _checksum(sorted(names))}


def booking_value(booking: Booking) -> dict[str, Any]:
    made = {"node": booking.node, "gpus": list(booking.gpus), "mib": list(booking.mib), "state": booking.state.value}
    return made | {"computePercent": booking.request.compute}


def plain(value: Any) -> Any:
    if isinstance(value, Enum):
        return value.value
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {name: plain(getattr(value, name)) for name in _fields(type(value))}
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return value


@cache
def _fields(kind: type) -> tuple[str, ...]:
    return tuple(field.name for field in dataclasses.fields(kind))


def _checksum(parts: Iterable[str]) -> int:
    return zlib.crc32("\n".join(parts).encode())


class Recorder:
    """Runs calls and hands the records of the outermost ones to `write`. now: time of the one that runs; None: none."""

    def __init__(self, clock: Callable[[], Seconds], write: Callable[[Record], None]) -> None:
        self._real = clock
        self._write = write
        self.now: Seconds | None = None

    def clock(self) -> Seconds:
        return self._real() if self.now is None else self.now

    def leave_out(self, call: Callable[[], T]) -> T:
        if self.now is not None:
            return call()
        self.now = self._real()
        try:
            return call()
        finally:
            self.now = None

    def run(self, call: Callable[[], T], describe: Callable[[T | Exception], Record | None]) -> T:
        """Runs a call and writes what `describe` makes of its result or error (None: nothing)."""
        at = self.now = self._real()
        result: T | Exception
        try:
            result = call()
        except (LedgerError, ValueError) as error:
            result = error
        finally:
            self.now = None
        record = describe(result)
        if record is not None:
            self._write({"t": at, **record})
        if isinstance(result, LedgerError | ValueError):
            raise result
        return result


def _recorded(
    name: str,
    method: Callable[Concatenate[Any, P], T],
    result: Callable[[Any], Any] | None = None,
    *,
    worth: Callable[[Any], bool] = lambda _result: True,
) -> Callable[Concatenate[Any, P], T]:
    """The method with a record, named `name`, of each outermost call that is `worth` it.

    `result`: makes the compared part from the returned value; that of a filter is written as `outcome_value`.
    """
    parameters = list(inspect.signature(method).parameters)[1:]

    @wraps(method)
    def call(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> T:
        recorder: Recorder = self.recorder
        if recorder.now is not None:
            return method(self, *args, **kwargs)

        def describe(made: T | Exception) -> Record | None:
            refused = isinstance(made, Exception)
            if not refused and not worth(made):
                return None
            given = dict(zip(parameters, args, strict=False)) | kwargs
            known = self.known(given)
            written = {key: argument(key, value, known) for key, value in given.items()}
            record: Record = {"call": name, "args": written}
            if isinstance(made, LedgerError | ValueError):
                return record | error_value(made)
            if isinstance(made, FilterOutcome):
                return record | {"result": outcome_value(made, known)}
            return record if result is None else record | {"result": result(made)}

        return recorder.run(lambda: method(self, *args, **kwargs), describe)

    return call


def _uids(made: Iterable[Booking]) -> list[str]:
    return [booking.request.uid for booking in made]


class JournaledLedger(Ledger):
    """A ledger that records its changes, and writes and restores its state."""

    def __init__(self, recorder: Recorder) -> None:
        super().__init__()
        self.recorder = recorder
        self._named: tuple[GpuIndex, frozenset[str]] | None = None

    def known(self, _given: Mapping[str, Any] | None = None) -> frozenset[str]:
        """Nodes that a decision distinguishes: with GPUs, unreadable, or refused."""
        if self._named is None or self._named[0] is not self.index:
            self._named = (self.index, self.index.unreadable.union(self.index.node_row, self.index.refused))
        return self._named[1]

    def holds(self, uid: str) -> bool:
        return uid in self.bookings() or uid in self._annotation_problems

    put_node = _recorded("put_node", Ledger.put_node, worth=bool)
    drop_node = _recorded("drop_node", Ledger.drop_node, worth=bool)
    relist_nodes = _recorded("relist_nodes", Ledger.relist_nodes)
    observe = _recorded("observe", Ledger.observe)
    relist_pods = _recorded("relist_pods", Ledger.relist_pods)
    release = _recorded("release", Ledger.release, lambda made: made and made.request.uid)
    reserve = _recorded("reserve", Ledger.reserve, booking_value)
    begin_bind = _recorded("begin_bind", Ledger.begin_bind, booking_value)
    confirm_bind = _recorded("confirm_bind", Ledger.confirm_bind)
    verify = _recorded("verify", Ledger.verify)
    expire = _recorded("expire", Ledger.expire, lambda made: list(map(_uids, made)))

    def checkpoint(self) -> Record:
        """Nodes, bookings, problems of bound pods; as values, for a fast encoder."""
        state = {
            "nodes": list(self.inventories().values()),
            "bookings": list(self.bookings().values()),
            "annotation_problems": dict(self._annotation_problems),
        }
        return {"t": self.recorder.clock(), "call": CHECKPOINT, "args": state}

    def restore(
        self,
        nodes: Iterable[NodeInventory],
        bookings: Iterable[Booking],
        annotation_problems: Mapping[str, LedgerProblem],
    ) -> None:
        for node in nodes:
            self.set_node(node)
        for booking in bookings:
            self._add(booking)
        self._annotation_problems.update(annotation_problems)


class JournaledPlacer(Placer):
    """The state machine with a log; `write` gets each record."""

    def __init__(
        self, clock: Callable[[], Seconds], hold: Seconds, write: Callable[[Record], None], **settings: Any
    ) -> None:
        self.recorder = Recorder(clock, write)
        self.journaled = JournaledLedger(self.recorder)
        super().__init__(clock=self.recorder.clock, hold=hold, ledger=self.journaled, **settings)

    def known(self, given: Mapping[str, Any]) -> frozenset[str]:
        nodes = self.journaled.known()
        held = self.ledger.booking(uid_of(given.get("raw") or {}))
        return nodes if held is None or held.node in nodes else nodes | {held.node}

    filter = _recorded("filter", Placer.filter)
    prioritize = _recorded("prioritize", Placer.prioritize, scores_value)
    fix_gpus = _recorded("fix_gpus", Placer.fix_gpus, booking_value)
    overdue = _recorded("overdue", Placer.overdue, _uids)
    believe = _recorded("believe", Placer.believe)
    observe_all = _recorded("observe_all", Placer.observe_all)
    _forget = _recorded("forget", Placer.forget)
    _observe = _recorded("observe", Placer.observe)

    def observe(self, raw: RawObject) -> PodView | None:
        """As of `Placer`; pods without GPUs or our gate leave no record."""
        pod = read_ahead(raw)
        if pod.relevant or self._knows(uid_of(pod), object_key(pod)):
            return self._observe(pod)
        return self.recorder.leave_out(lambda: Placer.observe(self, pod))

    def forget(self, uid: str) -> None:
        if self._knows(uid):
            self._forget(uid)

    def _knows(self, uid: str, key: str = "") -> bool:
        return uid in self.pods or key in self.unreadable or self.journaled.holds(uid)

    def header(self, wall: float) -> Record:
        """First record of a log; `wall`: time of day [s since 1970]."""
        settings = {"mode": self.mode.value, "policy": self.policy}
        now = self.recorder.clock()
        return {"t": now, "call": HEADER, "version": VERSION, "wall": wall, "hold": self.hold, "settings": settings}


PLACER_CALLS: Final[Mapping[str, Callable[..., Any]]] = {
    name: getattr(JournaledPlacer, name)
    for name in ("filter", "prioritize", "fix_gpus", "overdue", "believe", "observe_all", "observe", "forget")
}
_OF_LISTS: Final = ("put_node", "drop_node", "relist_nodes", "relist_pods")
_OF_BOOKINGS: Final = ("release", "reserve", "begin_bind", "confirm_bind", "verify", "expire")
LEDGER_CALLS: Final[Mapping[str, Callable[..., Any]]] = {
    name: getattr(JournaledLedger, name) for name in (*_OF_LISTS, *_OF_BOOKINGS)
}
"""Calls by their names in records; a new name needs a new VERSION."""
