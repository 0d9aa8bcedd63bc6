"""Promise: Prometheus answers every query of the dashboards and alerts; a healthy cluster alerts nobody."""

from __future__ import annotations

from typing import Final

import pytest
import yaml

from harness.cluster import Cluster
from harness.components import CHART
from harness.dashboards import dashboard_queries
from harness.prometheus import Prometheus, QueryError

RULES: Final = [
    rule for group in yaml.safe_load((CHART / "files" / "alerts.yaml").read_text())["groups"] for rule in group["rules"]
]


def test_every_query_is_answered(cluster: Cluster, prometheus: Prometheus) -> None:
    prometheus.wait_until_scraped("hetserve-extender", "hetserve-operator")
    asked = dashboard_queries()
    assert len(asked) > 25
    answered = {query for query in asked if prometheus.query(query)}  # a wrong one raises QueryError
    assert "sum(hetserve_leader)" in answered
    with pytest.raises(QueryError):
        prometheus.query(f"{asked[0]})")


def test_a_healthy_cluster_alerts_nobody(cluster: Cluster, prometheus: Prometheus) -> None:
    prometheus.wait_until_scraped("hetserve-extender", "hetserve-operator")
    assert [rule["alert"] for rule in RULES if prometheus.query(rule["expr"])] == []
