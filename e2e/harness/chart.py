"""Renders the chart with helm."""

from __future__ import annotations

import functools
import subprocess
from typing import Any

from harness.components import CHART
from harness.kube import documents_of
from harness.pins import HELM
from harness.tools import provide
from hetserve.api.names import SYSTEM_NAMESPACE


@functools.cache
def render_chart(*arguments: str) -> str:
    """Output of `helm template`, asked once for the same arguments. Raises RuntimeError with helm's message."""
    command = [
        provide((HELM,))["helm"],
        "template",
        "hetserve",
        str(CHART),
        "--namespace",
        SYSTEM_NAMESPACE,
        *arguments,
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr.strip())
    return done.stdout


def chart_objects(*arguments: str) -> list[dict[str, Any]]:
    """The objects of `helm template`, hooks included. Raises RuntimeError with helm's message."""
    return documents_of(render_chart(*arguments))
