"""Promise: Prometheus answers every query of the dashboards and alerts; a healthy cluster alerts nobody."""

from __future__ import annotations

import json
import re
from typing import Any, Final

import pytest
import yaml

from harness.cluster import Cluster
from harness.components import CHART
from harness.prometheus import Prometheus, QueryError

RULES: Final = [
    rule for group in yaml.safe_load((CHART / "files" / "alerts.yaml").read_text())["groups"] for rule in group["rules"]
]
BOARDS: Final[list[dict[str, Any]]] = [
    json.loads(path.read_text()) for path in sorted((CHART / "files" / "dashboards").glob("*.json"))
]


def queries(board: dict[str, Any]) -> list[str]:
    """Of all panels, with variables as Grafana fills them in for All."""
    found = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    return [re.sub(r"\$[a-z]+", ".*", query) for query in found]


def test_every_query_is_answered(cluster: Cluster, prometheus: Prometheus) -> None:
    prometheus.wait_until_scraped("hetserve-extender", "hetserve-operator")
    asked = [query for board in BOARDS for query in queries(board)]
    assert len(asked) > 25
    answered = {query for query in asked if prometheus.query(query)}  # a wrong one raises QueryError
    assert "sum(hetserve_leader)" in answered
    with pytest.raises(QueryError):
        prometheus.query(f"{asked[0]})")


def test_a_healthy_cluster_alerts_nobody(cluster: Cluster, prometheus: Prometheus) -> None:
    prometheus.wait_until_scraped("hetserve-extender", "hetserve-operator")
    assert [rule["alert"] for rule in RULES if prometheus.query(rule["expr"])] == []
