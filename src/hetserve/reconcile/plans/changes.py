"""Changes of the plan that were decided by what is measured: as status.lastDecisions has them, and read back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, TypeVar

from hetserve import scaling
from hetserve.base.timestamps import timestamp, unix_seconds
from hetserve.base.units import QPS, Seconds, format_money
from hetserve.planning.plan import counts_status, read_counts
from hetserve.reconcile.plans.plan_decision import read_status
from hetserve.reconcile.plans.plan_record import MOST_LOAD, Json, PlanRecord
from hetserve.sanitize import sanitize
from hetserve.scaling import Action, Decision, ScalingReason

_LONGEST: Final = 1024
_SHOWN: Final = 60
CLOCKS_DIFFER: Final = Seconds(300.0)
"""By which the clock of whoever wrote a decision may be ahead."""
Read = TypeVar("Read")


def entry_of(decided: Decision, before: PlanRecord | None, record: PlanRecord, now: datetime) -> Json:
    """Of status.lastDecisions. before, record: the plans in force before and from now on. now: aware time."""
    load = {} if decided.load is None else {"load": f"{decided.load:.6g}"}
    scarce = {} if decided.scarce is None else {"instanceType": decided.scarce}
    return {
        "time": timestamp(now),
        "action": str(decided.action),
        "reason": str(decided.reason),
        "from": counts_status(() if before is None else before.counts),
        "to": counts_status(record.counts),
        **load,
        "hourlyCost": format_money(record.cost),
        "message": decided.words[:_LONGEST],
        **scarce,
    }


@dataclass(frozen=True, slots=True)
class History:
    """Changes in a service's status, the newest first. ignored: what does not count, and why."""

    changes: tuple[scaling.Change, ...] = ()
    ignored: tuple[str, ...] = ()


def history_of(raw: Mapping[str, Any], now: float) -> History:
    """The decisions in the status of a raw service, as far as they can be true. now: Unix seconds.

    One that is ahead by no more than clocks differ is of now: it counts for as long as any other. One further ahead
    would hold scaling up until its time has come.
    """
    entries = read_status(raw).get("lastDecisions") or ()
    if not isinstance(entries, list | tuple):
        return History(ignored=("status.lastDecisions does not count: it is no list",))
    changes, ignored = [], []
    for index, entry in enumerate(entries):
        said = entry if isinstance(entry, Mapping) else {"time": entry}
        try:
            changes.append(_change(said, now))
        except ValueError as error:
            ignored.append(f"status.lastDecisions[{index}] does not count: {error}")
    return History(tuple(changes), tuple(ignored))


def _change(entry: Mapping[str, Any], now: float) -> scaling.Change:
    """Raises ValueError: field and value."""

    def told(key: str, read: Callable[[Any], Read]) -> Read:
        try:
            return read(entry.get(key))
        except (AttributeError, KeyError, TypeError, ValueError):
            raise ValueError(f"{key}: {sanitize(repr(entry.get(key)))[:_SHOWN]} cannot be read") from None

    at = told("time", lambda said: unix_seconds(str(said)))
    if at > now + CLOCKS_DIFFER:
        raise ValueError(f"time: {entry['time']} is to come; clocks that differ by more are to be corrected")
    scarce = entry.get("instanceType")
    return scaling.Change(
        min(at, now),
        told("action", Action),
        told("reason", ScalingReason),
        told("from", read_counts),
        told("to", read_counts),
        told("load", load_of),
        None if scarce is None else str(scarce),
    )


def load_of(told: object) -> QPS | None:
    """Queries/s as a status has them; None: none. Raises ValueError for what is no load."""
    if told is None:
        return None
    load = float(str(told))
    if not 0 <= load <= MOST_LOAD:
        raise ValueError(f"{told!r} is no load")
    return QPS(load)
