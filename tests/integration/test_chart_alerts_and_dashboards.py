"""Each alert fires as `promtool test rules` says; alerts and dashboards are installed as they are."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from harness.chart import chart_objects
from harness.components import CHART, ROOT
from harness.tools import Toolset

pytestmark = pytest.mark.cluster  # helm and promtool are two of the tools that are built

ALERTS: Final = CHART / "files" / "alerts.yaml"
CASES: Final = ROOT / "tests" / "alerts" / "hetserve.yaml"
DASHBOARDS: Final = sorted((CHART / "files" / "dashboards").glob("*.json"))


def promtool(toolset: Toolset, *arguments: str | Path) -> str:
    """Its output. Raises RuntimeError where it finds something wrong."""
    done = subprocess.run([toolset["promtool"], *map(str, arguments)], capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stdout + done.stderr)
    return done.stdout


def rules() -> list[dict[str, Any]]:
    return [rule for group in yaml.safe_load(ALERTS.read_text())["groups"] for rule in group["rules"]]


def test_alerts_fire_as_the_cases_say(toolset: Toolset) -> None:
    assert "SUCCESS" in promtool(toolset, "check", "rules", ALERTS)
    assert "SUCCESS" in promtool(toolset, "test", "rules", CASES)


def test_each_alert_is_silent_once_and_fires_once() -> None:
    cases = [case for test in yaml.safe_load(CASES.read_text())["tests"] for case in test["alert_rule_test"]]
    names = {rule["alert"] for rule in rules()}
    assert {case["alertname"] for case in cases if case.get("exp_alerts")} == names
    assert {case["alertname"] for case in cases if not case.get("exp_alerts")} == names


@pytest.mark.parametrize("name", [rule["alert"] for rule in rules()])
def test_an_alert_that_never_fires_fails_its_case(name: str, toolset: Toolset, tmp_path: Path) -> None:
    broken = yaml.safe_load(ALERTS.read_text())
    for group in broken["groups"]:
        for rule in group["rules"]:
            if rule["alert"] == name:
                rule["expr"] = "vector(0) > 1"
    (tmp_path / "alerts.yaml").write_text(yaml.safe_dump(broken))
    cases = yaml.safe_load(CASES.read_text()) | {"rule_files": ["alerts.yaml"]}
    (tmp_path / "cases.yaml").write_text(yaml.safe_dump(cases))
    with pytest.raises(RuntimeError, match=rf"alertname: {name}\b"):
        promtool(toolset, "test", "rules", tmp_path / "cases.yaml")


def test_the_chart_installs_the_alerts_and_the_dashboards_as_they_are() -> None:
    more = "monitoring.prometheusRule.enabled=true,monitoring.dashboards.enabled=true"
    chart = chart_objects("--set", f"crds.install=false,{more},monitoring.prometheusRule.labels.release=stack")
    (rule,) = [d for d in chart if d["kind"] == "PrometheusRule"]
    assert rule["spec"] == yaml.safe_load(ALERTS.read_text())
    assert rule["metadata"]["labels"]["release"] == "stack"
    boards = [d for d in chart if d["metadata"]["labels"].get("grafana_dashboard") == "1"]
    shown = {name: json.loads(text) for board in boards for name, text in board["data"].items()}
    assert shown == {f"hetserve-{path.name}": json.loads(path.read_text()) for path in DASHBOARDS}
    assert len({board["uid"] for board in shown.values()}) == len(DASHBOARDS)
