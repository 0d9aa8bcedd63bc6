"""Which HorizontalPodAutoscalers change Deployments, and how they are named."""

from __future__ import annotations

from typing import Any

import pytest

from hetserve.api.conditions import Reason
from hetserve.reconcile.cluster.observed import ScalerFact, scaler_fact
from hetserve.reconcile.status.scaling_status import foreign_scaler
from testing.scenes import autoscaler


def test_a_scaler_is_its_name_and_the_deployment_that_it_changes() -> None:
    assert scaler_fact(autoscaler("hpa", "rm2-t4", namespace="team")) == ScalerFact("team", "hpa", "rm2-t4")


@pytest.mark.parametrize(
    ("target", "scales"),
    [
        ({"apiVersion": "apps/v1beta2"}, True),
        ({"kind": "StatefulSet"}, False),
        ({"apiVersion": "example.com/v1"}, False),
        ({"apiVersion": "v1"}, False),
        ({"apiVersion": None}, False),
    ],
)
def test_only_deployments_of_apps_are_targets_whatever_their_version(target: dict[str, Any], scales: bool) -> None:
    raw = autoscaler("hpa", "rm2-t4")
    raw["spec"]["scaleTargetRef"] |= target
    assert (scaler_fact(raw) is not None) == scales


def test_a_scaler_that_is_being_deleted_scales_no_more() -> None:
    raw = autoscaler("hpa", "rm2-t4")
    raw["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert scaler_fact(raw) is None


def test_without_scalers_nothing_is_said() -> None:
    assert foreign_scaler(()) is None


def test_scalers_are_named_in_order_and_no_more_than_five() -> None:
    found = foreign_scaler(ScalerFact("default", f"hpa-{n}", "rm2-t4") for n in reversed(range(7)))
    assert found is not None
    assert (found.status, found.reason) == ("False", Reason.FOREIGN_SCALER)
    assert found.message.startswith("HorizontalPodAutoscaler hpa-0 changes the replicas of Deployment rm2-t4; ")
    assert "hpa-4" in found.message
    assert "hpa-5" not in found.message
    assert "and 2 more" in found.message
