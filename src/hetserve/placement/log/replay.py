"""Replay of a placement log from its beginning or a checkpoint: the same decisions, or the first that differs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from inspect import signature
from typing import Any, cast, get_type_hints

from pydantic import TypeAdapter, ValidationError

from hetserve.api import names
from hetserve.base.units import Seconds
from hetserve.placement.ledger.bookings import Booking, LedgerError
from hetserve.placement.ledger.inventory import NodeInventory
from hetserve.placement.ledger.problems import LedgerProblem
from hetserve.placement.log.journal import (
    CHECKPOINT,
    COMPARED,
    HEADER,
    LEDGER_CALLS,
    PLACER_CALLS,
    VERSION,
    VERSIONS,
    JournaledLedger,
    JournaledPlacer,
    Record,
    offered_names,
)
from hetserve.placement.placer import Mode
from hetserve.placement.pods.requests import PolicyName, policy_name


class ReplayError(ValueError):
    """A log that cannot be replayed; the text names the record."""


@dataclass(frozen=True, slots=True)
class ReplayDifference:
    """A record with another result: number in the log (from 1), before and now."""

    number: int
    logged: Record
    now: Record


@dataclass(frozen=True, slots=True)
class LogReplay:
    records: int
    decisions: int
    difference: ReplayDifference | None


def replay(records: Iterable[Record], **settings: Any) -> LogReplay:
    """Feeds records to a fresh state machine with the settings of the log's header, overridden by `settings`.

    Raises ReplayError for a wrong record or another version.
    """
    player: Player | None = None
    number = decisions = 0
    for number, record in enumerate(as_then(records), start=1):
        if record.get("call") == HEADER:
            player = Player.of_header(record, settings)
            continue
        if player is None:
            raise ReplayError("the log does not begin with a header")
        now = player.feed(number, record)
        if record.keys().isdisjoint(COMPARED):
            continue
        decisions += 1
        if now is None or any(now.get(key) != record.get(key) for key in COMPARED):
            return LogReplay(number, decisions, ReplayDifference(number, record, now or {}))
    return LogReplay(number, decisions, None)


def as_then(records: Iterable[Record]) -> Iterator[Record]:
    """Records without what the version of their header did not read: before 6, the terms of pods."""
    version = VERSION
    for record in records:
        version = record.get("version", version)
        given = record.get("args")
        if version == VERSION or not isinstance(given, Mapping):
            yield record
            continue
        of_pods = {key: _without_terms(given[key]) for key in ("raw", "objects") if key in given}
        yield {**record, "args": {**given, **of_pods}}


def _without_terms(value: Any) -> Any:
    """A pod, or pods, as written, without the annotation."""
    if isinstance(value, list):
        return list(map(_without_terms, value))
    metadata = value.get("metadata") if isinstance(value, Mapping) else None
    annotations = metadata.get("annotations") if isinstance(metadata, Mapping) else None
    if metadata is None or not isinstance(annotations, Mapping):
        return value
    kept = {key: text for key, text in annotations.items() if key != names.ANNOTATION_GPU_SHARING}
    return {**value, "metadata": {**metadata, "annotations": kept}}


def check_version(record: Record) -> None:
    if record.get("call") == HEADER and record.get("version") not in VERSIONS:
        read = " and ".join(map(str, VERSIONS))
        raise ReplayError(
            f"the log is of version {record.get('version')}; this hetserve reads {read}: use the one that wrote it"
        )


def logged_policy(records: Iterable[Record]) -> PolicyName:
    return _logged_settings(next(iter(records), {}))[2]


def _logged_settings(header: Record) -> tuple[Seconds, Mode, PolicyName]:
    """Life of a reservation [s], mode and policy. Raises ReplayError."""
    check_version(header)
    try:
        logged = header["settings"]
        return Seconds(float(header["hold"])), Mode(logged["mode"]), policy_name(logged["policy"])
    except (KeyError, TypeError, ValueError) as error:
        raise ReplayError(f"the header cannot be read: {type(error).__name__}: {error}") from None


class Player:
    """A journaled state machine whose clock is the log's."""

    def __init__(self, hold: Seconds, settings: dict[str, Any]) -> None:
        self._written: list[Record] = []
        self._now = Seconds(0.0)
        self.placer = JournaledPlacer(lambda: self._now, hold, self._written.append, **settings)

    @classmethod
    def of_header(cls, header: Record, settings: dict[str, Any]) -> Player:
        hold, mode, policy = _logged_settings(header)
        return cls(hold, {"mode": mode, "policy": policy} | settings)

    def feed(self, number: int, record: Record) -> Record | None:
        """Makes the call of a record; returns the new record, if any."""
        self._written.clear()
        try:
            self._now = Seconds(float(record["t"]))
            call = self._call(record)
        except (KeyError, TypeError, ValueError, ValidationError) as error:
            message = " ".join(str(error).split())
            raise ReplayError(f"record {number} is no call of placement: {type(error).__name__}: {message}") from None
        with suppress(LedgerError, ValueError):
            call()
        return self._written[0] if self._written else None

    def _call(self, record: Record) -> Callable[[], object]:
        name = record["call"]
        if name == CHECKPOINT:
            return lambda: _restore(self.placer.journaled, record["args"])
        if name in PLACER_CALLS:
            method, target = PLACER_CALLS[name], cast("Any", self.placer)
        elif name in LEDGER_CALLS:
            method, target = LEDGER_CALLS[name], self.placer.journaled
        else:
            raise KeyError(f"nothing is called {name!r}")
        given = record["args"]
        arguments = {key: self._argument(method, key, given) for key in given}
        return lambda: method(target, **arguments)

    def _argument(self, method: Callable[..., Any], key: str, given: Record) -> Any:
        value = given[key]
        if key in {"raw", "objects"}:
            return value
        if key == "offered":
            return offered_names(value, self.placer.known(given))
        return _adapter(method, key).validate_python(value)


@cache
def _adapter(method: Callable[..., Any], key: str) -> TypeAdapter[Any]:
    if key not in signature(method).parameters:
        raise KeyError(f"{method.__name__} takes no {key}")
    return TypeAdapter(get_type_hints(method)[key])


def _restore(ledger: JournaledLedger, state: Record) -> None:
    nodes = TypeAdapter(list[NodeInventory]).validate_python(state["nodes"])
    bookings = TypeAdapter(list[Booking]).validate_python(state["bookings"])
    problems = TypeAdapter(dict[str, LedgerProblem]).validate_python(state["annotation_problems"])
    ledger.restore(nodes, bookings, problems)
