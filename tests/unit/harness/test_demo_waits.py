"""What the demo waits for before it shows its services."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import pytest

from harness import demo, limits
from harness.cluster import Cluster
from harness.components import ROOT
from harness.demo import DemoError, DemoProgress

NAME = "rm2"


class Seen:
    """A cluster whose only service has one status after the other; the last stays."""

    def __init__(self, *plans: dict[str, Any]) -> None:
        self.kube = self
        self.plans = list(plans)

    def list(self, _resource: str) -> Sequence[dict[str, Any]]:
        plan = self.plans.pop(0) if len(self.plans) > 1 else self.plans[0]
        status = {"observedGeneration": 1, "conditions": [{"type": "Ready", "status": "True"}], "plan": plan}
        return [{"metadata": {"name": NAME, "namespace": "default", "generation": 1}, "status": status}]

    def pods(self, **_: object) -> Sequence[dict[str, Any]]:
        return []

    def conditions(self, *_: str) -> dict[str, str]:
        return {"Planned": "Planned=True PlanComputed: 1xa; provisional, not tried in simulation yet"}

    def components(self) -> tuple[()]:
        return ()

    @property
    def folder(self) -> Seen:
        return self

    path = ROOT


def waited(seen: Seen) -> None:
    demo._wait_for_services(cast("Cluster", seen), DemoProgress(clock=lambda: 0.0))


def test_the_demo_waits_for_tried_plans_and_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    waited(Seen({"tried": False, "provisional": True}, {"tried": True}))
    said = capsys.readouterr().out.splitlines()
    assert "1 of 1 services are Ready" in said[0]
    assert said[0].endswith("1 plan is provisional: trials go on")
    assert "provisional" not in said[-1]


def test_a_plan_that_cannot_be_tried_is_not_waited_for() -> None:
    waited(Seen({"tried": False}))


def test_a_plan_that_stays_provisional_ends_the_demo_with_its_conditions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "PLANNED", 0.0)
    with pytest.raises(DemoError, match=r"(?s)Ready with a tried plan within 0 s.*default/rm2.*provisional"):
        waited(Seen({"tried": False, "provisional": True}))
