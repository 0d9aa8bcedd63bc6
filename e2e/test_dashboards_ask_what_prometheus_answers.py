"""Promise: Prometheus answers every query of the dashboards and alerts; a healthy cluster alerts nobody."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pytest
import yaml

from harness import limits
from harness.beside import ROUTER
from harness.cluster import Cluster
from harness.components import CHART
from harness.dashboards import dashboard_queries
from harness.prometheus import Prometheus, QueryError
from harness.serving import serving
from harness.waiting import Unmet, wait_until

LEADERS: Final = "sum by (router) (hetserve_router_leader)"
RULES: Final = [
    rule for group in yaml.safe_load((CHART / "files" / "alerts.yaml").read_text())["groups"] for rule in group["rules"]
]


@pytest.fixture
def routed(cluster: Cluster, prometheus: Prometheus) -> Iterator[None]:
    """A router leads, and everything is scraped."""
    with serving(cluster):
        prometheus.wait_until_scraped("hetserve-extender", "hetserve-operator", ROUTER)

        def leads() -> bool | Unmet:
            number = prometheus.value(LEADERS)
            return number == 1 or Unmet(number)

        wait_until(leads, limits.REACTION, "a router to lead")
        yield


@pytest.mark.usefixtures("routed")
def test_every_query_is_answered(prometheus: Prometheus) -> None:
    asked = dashboard_queries()
    assert len(asked) > 25
    answered = {query for query in asked if prometheus.query(query)}  # a wrong one raises QueryError
    assert {"sum(hetserve_leader)", LEADERS} <= answered
    with pytest.raises(QueryError):
        prometheus.query(f"{asked[0]})")


@pytest.mark.usefixtures("routed")
def test_a_healthy_cluster_alerts_nobody(prometheus: Prometheus) -> None:
    assert [rule["alert"] for rule in RULES if prometheus.query(rule["expr"])] == []
