"""What of the cluster may still change a decision."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from hetserve.api.conditions import Reason
from hetserve.base.units import QPS, MicroDollarsPerHour, Seconds
from hetserve.planning.offers import Offer
from hetserve.planning.problem import ResourceAmounts
from hetserve.reconcile.cluster.observed import PodFact
from hetserve.reconcile.plans.plan_decision import NOT_PLANNED, Finding, Following, PlanDecision, PlanState
from hetserve.reconcile.plans.plan_record import PlanRecord
from hetserve.reconcile.snapshot import Interest, ServiceSnapshot
from hetserve.reconcile.step import interest_of
from hetserve.scaling.dead_band import DeadBand

PLANNED = Finding("True", Reason.PLAN_COMPUTED, "")
RECORD = PlanRecord({}, (("gpu", 2),), "digest", "1", "", MicroDollarsPerHour(1))
OFFERS: dict[str, Any] = {name: Offer(None, None, MicroDollarsPerHour(1), ResourceAmounts()) for name in ("gpu", "cpu")}  # type: ignore[arg-type]
DECISION = PlanDecision(PLANNED, PLANNED, PLANNED, RECORD, PlanState.FOLLOWED, ideal=True, offers=OFFERS)
BOTH = frozenset(("gpu", "cpu"))


def pods(bound: int, waiting: int = 0, kind: str = "gpu") -> tuple[PodFact, ...]:
    places = ["n"] * bound + [None] * waiting
    return tuple(PodFact(f"u{n}", "d", f"p{n}", instance_type=kind, node=node) for n, node in enumerate(places))


def interest(decision: PlanDecision = DECISION, of: tuple[PodFact, ...] = pods(2), **snapshot: Any) -> Interest:
    return interest_of(decision, ServiceSnapshot({}, datetime(2026, 1, 1, tzinfo=UTC), pods=of, **snapshot))


def test_no_room_counts_while_the_ideal_plan_is_on_nodes() -> None:
    assert interest().room == frozenset()
    assert interest(of=pods(3)).room == frozenset(), "one that is being removed still has its place"


@pytest.mark.parametrize("of", [pods(1, 1), pods(0), pods(2, kind="cpu")])
def test_room_counts_while_an_instance_of_the_plan_is_on_no_node(of: tuple[PodFact, ...]) -> None:
    assert interest(of=of).room == BOTH


QUIET = DeadBand(QPS(10), QPS(50), Seconds(30), Seconds(300), Seconds(60), 0.99)
FOLLOWS = replace(DECISION, ideal=False, following=Following(PLANNED, None, dead_band=QUIET))


def test_no_room_counts_while_what_follows_a_load_carries_it() -> None:
    assert interest(FOLLOWS).room == frozenset(), "each pod that comes or goes wakes all services that scale"
    assert interest(FOLLOWS).dead_band == QUIET
    assert interest(FOLLOWS, pods(1, 1)).room == BOTH


def test_no_room_counts_while_samples_are_missing() -> None:
    """Else half a minute without Prometheus has each pod wake all services that scale, for minutes."""
    waits = replace(FOLLOWS, following=Following(PLANNED, None, stays=True))
    assert interest(waits).room == frozenset()
    assert interest(waits, pods(1, 1)).room == BOTH


def test_a_service_that_cannot_be_planned_waits_for_types_and_for_no_room() -> None:
    assert interest(PlanDecision(Finding("False", Reason.SPEC_INVALID, ""), NOT_PLANNED, NOT_PLANNED)) == Interest(
        frozenset(), None
    )
