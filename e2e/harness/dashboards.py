"""What the chart's dashboards ask Prometheus."""

from __future__ import annotations

import json
import re

from harness.components import CHART


def dashboard_queries() -> list[str]:
    """Of all panels of all dashboards, with variables as Grafana fills them in for All."""
    boards = [json.loads(path.read_text()) for path in sorted((CHART / "files" / "dashboards").glob("*.json"))]
    found = [target["expr"] for board in boards for panel in board["panels"] for target in panel["targets"]]
    return [re.sub(r"\$[a-z]+", ".*", query) for query in found]
