"""A placement log fed to the state machine again: the same decisions, or the first that differs.

The log may begin with an empty state machine or with a checkpoint. Every record with a result or a refusal is
compared as a whole; the others only change the state that later decisions are made from.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from inspect import signature
from typing import Any, get_type_hints

from pydantic import TypeAdapter, ValidationError

from hetserve.placement.ledger.bookings import Booking, LedgerError
from hetserve.placement.ledger.inventory import NodeInventory
from hetserve.placement.ledger.ledger import Ledger
from hetserve.placement.log.journal import CHECKPOINT, HEADER, VERSION, JournaledLedger, JournaledPlacer, Record
from hetserve.placement.log.values import offered_names
from hetserve.placement.placer import Mode, Placer
from hetserve.placement.pods.requests import PolicyName, policy_name
from hetserve.units import Seconds


class ReplayError(ValueError):
    """A log that cannot be replayed; the text names the record and what is wrong with it."""


@dataclass(frozen=True, slots=True)
class Difference:
    """A record that came out otherwise: its number in the log (from 1), as it was and as it is now."""

    number: int
    logged: Record
    now: Record


@dataclass(frozen=True, slots=True)
class Replayed:
    """How many records were fed, how many of them were decisions, and the first that differs (None: none)."""

    records: int
    decisions: int
    difference: Difference | None


def replay(records: Iterable[Record], **settings: Any) -> Replayed:
    """Feed a log's records to a fresh state machine with the settings of its header, `settings` on top.

    Raises ReplayError for a record that is none, or of a version that is not known.
    """
    player: Player | None = None
    number = decisions = 0
    for number, record in enumerate(records, start=1):
        if record.get("call") == HEADER:
            player = Player.of_header(record, settings)
            continue
        if player is None:
            raise ReplayError("the log does not begin with a header")
        now = player.feed(number, record)
        if "result" not in record and "error" not in record:
            continue
        decisions += 1
        if now is None or any(now.get(key) != record.get(key) for key in ("result", "error")):
            return Replayed(number, decisions, Difference(number, record, now or {}))
    return Replayed(number, decisions, None)


def logged_policy(records: Iterable[Record]) -> PolicyName:
    """The policy that a log's header names. Raises ReplayError where there is none."""
    header = next(iter(records), {})
    try:
        return policy_name(header["settings"]["policy"])
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
        """Raises ReplayError for a version that this code does not know."""
        if header.get("version") != VERSION:
            raise ReplayError(f"the log is of version {header.get('version')}; this hetserve reads {VERSION}")
        try:
            hold, logged = Seconds(float(header["hold"])), header["settings"]
            given = {"mode": Mode(logged["mode"]), "policy": policy_name(logged["policy"])}
        except (KeyError, TypeError, ValueError) as error:
            raise ReplayError(f"the header cannot be read: {type(error).__name__}: {error}") from None
        return cls(hold, given | settings)

    def feed(self, number: int, record: Record) -> Record | None:
        """Make the call of a record; the record that it leaves now, None where it leaves none."""
        self._written.clear()
        try:
            self._now = Seconds(float(record["t"]))
            call = self._call(record)
        except (KeyError, TypeError, ValueError, ValidationError) as error:
            words = " ".join(str(error).split())
            raise ReplayError(f"record {number} is no call of placement: {type(error).__name__}: {words}") from None
        with suppress(LedgerError, ValueError):  # it is in the record that was written
            call()
        return self._written[0] if self._written else None

    def _call(self, record: Record) -> Callable[[], object]:
        name = record["call"]
        if name == CHECKPOINT:
            return lambda: _restore(self.placer.journaled, record["args"])
        owner: Any = next((one for one in (JournaledPlacer, JournaledLedger) if name in _calls(one)), None)
        if owner is None:
            raise KeyError(f"nothing is called {name!r}")
        target = self.placer if owner is JournaledPlacer else self.placer.journaled
        given = record["args"]
        arguments = {key: self._argument(owner, name, key, given) for key in given}
        return lambda: getattr(target, name)(**arguments)

    def _argument(self, owner: type, call: str, key: str, given: Record) -> Any:
        value = given[key]
        if key in {"raw", "objects"}:
            return value
        if key == "offered":
            return offered_names(value, self.placer.known(given))
        return _adapter(owner, call, key).validate_python(value)


@cache
def _calls(owner: type) -> frozenset[str]:
    """The recorded calls of a journaled class; a name that both have is the placer's."""
    base: type = Placer if owner is JournaledPlacer else Ledger
    return frozenset(name for name in vars(owner) if not name.startswith("_") and hasattr(base, name))


@cache
def _adapter(owner: type, call: str, key: str) -> TypeAdapter[Any]:
    method = getattr(owner, call)
    if key not in signature(method).parameters:
        raise KeyError(f"{call} takes no {key}")
    return TypeAdapter(get_type_hints(method)[key])


def _restore(ledger: JournaledLedger, state: Record) -> None:
    nodes = TypeAdapter(list[NodeInventory]).validate_python(state["nodes"])
    bookings = TypeAdapter(list[Booking]).validate_python(state["bookings"])
    ledger.restore(nodes, bookings, state["unplaced"])
