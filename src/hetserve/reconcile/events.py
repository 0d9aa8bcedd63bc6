"""Derives Events from a status change; the name hashes the state, so each is posted once."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from hetserve.api.conditions import ConditionType, Reason
from hetserve.planning.plan import read_counts, summary
from hetserve.sanitize import sanitize
from hetserve.scaling import Action

_MAX_NOTE = 1024
_WATCHED = (
    ConditionType.PLANNED,
    ConditionType.FEASIBLE,
    ConditionType.PROGRESSING,
    ConditionType.PODS_OWNED,
    ConditionType.SHARING_KEPT,
    ConditionType.SERVING,
    ConditionType.METRICS_AVAILABLE,
    ConditionType.SCALING_ACTIVE,
)
_QUIET_FALSE = (
    Reason.ROLLED_OUT,
    Reason.NOT_PLANNED,
    Reason.PAUSED,
    Reason.ADVISING,
    Reason.WAITING_FOR_METRICS,
    Reason.NO_INSTANCE_READY,
)
DECIDED: Final = {
    Action.SCALE_UP.value: "ScaledUp",
    Action.SCALE_DOWN.value: "ScaledDown",
    Action.REPLACE.value: "Replaced",
    Action.SHRINK.value: "ShrunkToBudget",
}
"""Reason of the Event of a decision, by its action; of a first plan it is PlanChanged."""
LIMITED: Final = "ScalingLimited"
_BY_CHOICE: Final = (
    Reason.STEP_POLICY_LIMITS,
    Reason.MIN_INSTANCES_REACHED,
    Reason.MAX_INSTANCES_REACHED,
    Reason.PAUSED,
)
"""Limits of scaling that the user chose: no warning."""


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


def announcements(
    before: Mapping[str, Any], after: Mapping[str, Any], service: Mapping[str, Any] | None = None
) -> tuple[Announcement, ...]:
    """Events for the change from one status to the next. service: raw; one that advises has none."""
    if service is not None and (service.get("spec") or {}).get("mode") == "Advise":
        return ()
    news: list[Announcement] = []
    old_plan, new_plan = before.get("plan") or {}, after.get("plan") or {}
    decided = _decided(before, after)
    if decided is not None:
        news.append(decided)
    elif new_plan and new_plan.get("summary") != old_plan.get("summary"):
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
    news += _limited(old.get(ConditionType.SCALING_LIMITED, {}), new.get(ConditionType.SCALING_LIMITED, {}))
    ready = new.get(ConditionType.READY, {})
    if ready.get("status") == "True" and old.get(ConditionType.READY, {}).get("status") != "True":
        news.append(_said(False, "RolledOut", f"{new_plan.get('summary')}: {ready.get('message', '')}"))
    return tuple(news)


def _decided(before: Mapping[str, Any], after: Mapping[str, Any]) -> Announcement | None:
    """Of a decision that the status has and did not have; None: of none, or of a first plan."""
    newest = next(iter(after.get("lastDecisions") or ()), None)
    if newest is None or newest in (before.get("lastDecisions") or ()) or newest.get("action") not in DECIDED:
        return None
    old, new = (summary(read_counts(newest.get(key))) for key in ("from", "to"))
    note = f"{newest.get('reason')}: {old} -> {new} at {newest.get('hourlyCost')} $/h: {newest.get('message')}"
    return _said(False, DECIDED[newest["action"]], note, str(newest["action"]))


def _limited(then: Mapping[str, Any], now: Mapping[str, Any]) -> list[Announcement]:
    """Of a limit that scaling did not have before."""
    if now.get("status") != "True" or (then.get("status"), then.get("reason")) == ("True", now.get("reason")):
        return []
    return [_said(now.get("reason") not in _BY_CHOICE, LIMITED, f"{now.get('reason')}: {now.get('message')}")]


def _said(warning: bool, reason: str, note: str, action: str = "Reconcile") -> Announcement:
    note = sanitize(note)
    return Announcement(warning, reason, note if len(note) <= _MAX_NOTE else note[: _MAX_NOTE - 3] + "...", action)


def _conditions(status: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    return {str(c.get("type")): c for c in status.get("conditions") or () if isinstance(c, Mapping)}
