"""Derives Events from a status change; the name hashes the state, so each is posted once."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from hetserve.api.conditions import ConditionType, Reason
from hetserve.sanitize import sanitize

_MAX_NOTE = 1024
_WATCHED = (
    ConditionType.PLANNED,
    ConditionType.FEASIBLE,
    ConditionType.PROGRESSING,
    ConditionType.PODS_OWNED,
    ConditionType.SHARING_KEPT,
)
_QUIET_FALSE = (Reason.ROLLED_OUT, Reason.NOT_PLANNED)


@dataclass(frozen=True, slots=True)
class Announcement:
    """An Event about a service. warning: else Normal. note: at most 1024 characters."""

    warning: bool
    reason: str
    note: str
    action: str = "Reconcile"

    def name(self, service: str, uid: str, generation: int) -> str:
        """Event name, equal for equal content and generation, so that a repeated post changes nothing."""
        text = f"{uid}/{generation}/{self.reason}/{self.note}"
        return f"{service[:200]}.{hashlib.sha256(text.encode()).hexdigest()[:16]}"


def announcements(before: Mapping[str, Any], after: Mapping[str, Any]) -> tuple[Announcement, ...]:
    """Events for the change from one status to the next."""
    news: list[Announcement] = []
    old_plan, new_plan = before.get("plan") or {}, after.get("plan") or {}
    if new_plan and new_plan.get("summary") != old_plan.get("summary"):
        note = f"{new_plan['summary']} at {new_plan['hourlyCost']} $/h for {new_plan['qps']} q/s"
        if old_plan:
            note += f", before: {old_plan.get('summary')} at {old_plan.get('hourlyCost')} $/h"
        news.append(_said(False, "PlanChanged", note))
    old, new = _conditions(before), _conditions(after)
    for kind in _WATCHED:
        then, now = old.get(kind, {}), new.get(kind, {})
        bad = now.get("status") == "False" and now.get("reason") not in _QUIET_FALSE
        if bad and (then.get("status"), then.get("reason")) != ("False", now.get("reason")):
            news.append(_said(True, str(now["reason"]), str(now.get("message", ""))))
    ready = new.get(ConditionType.READY, {})
    if ready.get("status") == "True" and old.get(ConditionType.READY, {}).get("status") != "True":
        news.append(_said(False, "RolledOut", f"{new_plan.get('summary')}: {ready.get('message', '')}"))
    return tuple(news)


def _said(warning: bool, reason: str, note: str) -> Announcement:
    note = sanitize(note)
    return Announcement(warning, reason, note if len(note) <= _MAX_NOTE else note[: _MAX_NOTE - 3] + "...")


def _conditions(status: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    return {str(c.get("type")): c for c in status.get("conditions") or () if isinstance(c, Mapping)}
