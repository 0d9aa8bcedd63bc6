"""Changes of the plan that were decided by what is measured: as status.lastDecisions has them, and read back."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, Final

from hetserve import scaling
from hetserve.base.units import QPS, format_money
from hetserve.planning.plan import Counts
from hetserve.reconcile.plans.plan_decision import read_status
from hetserve.reconcile.plans.plan_record import MOST_LOAD, Json, PlanRecord, summary
from hetserve.scaling import Action, Decision, ScalingReason

_AT: Final = "%Y-%m-%dT%H:%M:%SZ"
_PART: Final = re.compile(r"([0-9]{1,6})x(.+)")
_MOST_WORDS: Final = 1024
_TOLD: Final = 2048


def entry_of(decided: Decision, before: PlanRecord | None, record: PlanRecord, now: datetime) -> Json:
    """Of status.lastDecisions. before, record: the plans in force before and from now on. now: aware time."""
    load = {} if decided.load is None else {"load": f"{decided.load:.6g}"}
    scarce = {} if decided.scarce is None else {"instanceType": decided.scarce}
    return {
        "time": now.astimezone(UTC).strftime(_AT),
        "action": str(decided.action),
        "reason": str(decided.reason),
        "from": "none" if before is None else summary(before.counts)[:_TOLD],
        "to": str(record.raw["summary"]),
        **load,
        "hourlyCost": format_money(record.cost),
        "message": decided.words[:_MOST_WORDS],
        **scarce,
    }


def recorded_changes(raw: Mapping[str, Any]) -> Iterator[scaling.Change]:
    """The decisions in a service's status, as far as they can be read."""
    for entry in read_status(raw).get("lastDecisions") or ():
        change = _change(entry) if isinstance(entry, Mapping) else None
        if change is not None:
            yield change


def _change(entry: Mapping[str, Any]) -> scaling.Change | None:
    try:
        at = datetime.strptime(str(entry["time"]), _AT).replace(tzinfo=UTC).timestamp()
        action, reason = Action(str(entry["action"])), ScalingReason(str(entry["reason"]))
        before, after = (counts_of(str(entry.get(key) or "none")) for key in ("from", "to"))
        load = load_of(entry.get("load"))
    except (KeyError, ValueError):
        return None
    scarce = entry.get("instanceType")
    return scaling.Change(at, action, reason, before, after, load, None if scarce is None else str(scarce))


def counts_of(text: str) -> Counts:
    """Counts from their summary. Raises ValueError for another text."""
    if text == "none":
        return ()
    parts = [_PART.fullmatch(part) for part in text.split("+")]
    if not all(parts):
        raise ValueError(f"{text!r} are no counts")
    return tuple((part[2], int(part[1])) for part in parts if part is not None)


def load_of(told: object) -> QPS | None:
    """Queries/s as a status has them; None: none. Raises ValueError for what is no load."""
    if told is None:
        return None
    load = float(str(told))
    if not 0 <= load <= MOST_LOAD:
        raise ValueError(f"{told!r} is no load")
    return QPS(load)
