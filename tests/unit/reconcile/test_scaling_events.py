"""Events of scaling: one for each decision and limit, with reasons that stay."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hetserve.api.conditions import ConditionType, Reason
from hetserve.planning.plan import counts_status
from hetserve.reconcile.events import DECIDED, LIMITED, announcements
from hetserve.scaling import Action

Json = dict[str, Any]
PLANS = [{"summary": text, "hourlyCost": cost, "qps": "100.0"} for text, cost in (("2xt4", "0.144"), ("4xt4", "0.288"))]


def entry(action: str = "ScaleUp", **fields: Any) -> Json:
    said: Json = {"time": "2026-11-23T13:00:00Z", "reason": "LoadAboveCapacity"}
    said |= {"from": counts_status((("t4", 2),)), "to": counts_status((("t4", 4),))}
    return {**said, "action": action, "hourlyCost": "0.288", "message": "at least 60 q/s", **fields}


def status(plan: int, *decisions: Json, **conditions: tuple[str, str]) -> Json:
    found = [{"type": kind, "status": s, "reason": r, "message": f"of {r}"} for kind, (s, r) in conditions.items()]
    return {"plan": PLANS[plan], "lastDecisions": list(decisions), "conditions": found}


@pytest.mark.parametrize(
    ("action", "reason"),
    [
        (Action.SCALE_UP, "ScaledUp"),
        (Action.SCALE_DOWN, "ScaledDown"),
        (Action.REPLACE, "Replaced"),
        (Action.SHRINK, "ShrunkToBudget"),
        (Action.FIRST_PLAN, "PlanChanged"),
    ],
)
def test_each_decision_is_one_event_with_a_reason_of_its_own(action: Action, reason: str) -> None:
    (news,) = announcements(status(0), status(1, entry(action.value)), {"spec": {}})

    assert (news.reason, news.warning) == (reason, False)


def test_an_event_of_a_decision_says_why_from_what_to_what_and_the_price() -> None:
    (news,) = announcements(status(0), status(1, entry()))

    assert news.note == "LoadAboveCapacity: 2xt4 -> 4xt4 at 0.288 $/h: at least 60 q/s"
    assert news.action == "ScaleUp"


def test_a_decision_that_the_status_had_is_no_news() -> None:
    older = entry("ScaleDown", time="2026-11-23T12:00:00Z")

    assert announcements(status(1, entry(), older), status(1, entry(), older)) == ()
    assert [one.reason for one in announcements(status(1, older), status(1, entry(), older))] == ["ScaledUp"]


def test_nothing_is_announced_of_who_advises() -> None:
    assert announcements(status(0), status(1, entry()), {"spec": {"mode": "Advise"}}) == ()


def test_a_plan_that_no_load_decided_is_announced_as_before() -> None:
    assert [one.reason for one in announcements(status(0), status(1))] == ["PlanChanged"]


@pytest.mark.parametrize(
    ("reason", "warning"),
    [(Reason.LOAD_BEYOND_REACH, True), (Reason.TYPE_SCARCE, True), (Reason.STEP_POLICY_LIMITS, False)],
)
def test_a_new_limit_is_an_event_and_a_warning_unless_the_user_chose_it(reason: Reason, warning: bool) -> None:
    kind = ConditionType.SCALING_LIMITED
    free, limited = status(1, **{kind: ("False", Reason.NOT_LIMITED)}), status(1, **{kind: ("True", reason)})

    (news,) = announcements(free, limited)

    assert (news.reason, news.warning, news.note) == ("ScalingLimited", warning, f"{reason}: of {reason}")
    assert announcements(limited, limited) == ()
    assert announcements(limited, free) == ()


@pytest.mark.parametrize(
    ("kind", "reason", "told"),
    [
        (ConditionType.METRICS_AVAILABLE, Reason.METRICS_STALE, True),
        (ConditionType.SCALING_ACTIVE, Reason.FOREIGN_SCALER, True),
        (ConditionType.SCALING_ACTIVE, Reason.PAUSED, False),
        (ConditionType.SCALING_ACTIVE, Reason.ADVISING, False),
        (ConditionType.SCALING_ACTIVE, Reason.WAITING_FOR_METRICS, False),
    ],
)
def test_missing_metrics_and_foreign_scalers_are_warnings_and_what_the_user_chose_is_none(
    kind: ConditionType, reason: Reason, told: bool
) -> None:
    news = announcements(status(1), status(1, **{kind: ("False", reason)}))

    assert [(one.reason, one.warning) for one in news] == ([(str(reason), True)] if told else [])


def test_every_reason_of_an_event_of_scaling_is_documented() -> None:
    page = (Path(__file__).resolve().parents[3] / "docs" / "how-to-explain-a-decision.md").read_text()

    assert all(f"| `{reason}` |" in page for reason in (*DECIDED.values(), LIMITED))
