"""Promise: where nothing can be written, planning compiles nothing: the image holds what was compiled ahead."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Final

import pytest

from harness.components import ROOT
from harness.kind import KindCluster
from hetserve.api.names import SYSTEM_NAMESPACE

pytestmark = pytest.mark.beside

SAMPLE: Final = (ROOT / "manifests" / "samples" / "rm2.yaml").read_text()
FLOW: Final = ("--planner", "flow")
KAIROS: Final = ("--planner", "kairos", "--budget", "40")
OPERATOR: Final = "deployment/hetserve-operator"
PLAN: Final = """
import sys
from hetserve.cli.app import app
from hetserve.compiled import compilations
found = []
with compilations(found.append):
    try:
        app(args=["plan", "-", *sys.argv[1:]])
    finally:
        print("compiled", found.count(True))
"""


def in_the_operator(kind: KindCluster, *command: str, stdin: str = "") -> str:
    return kind.kubectl("--namespace", SYSTEM_NAMESPACE, "exec", "--stdin", OPERATOR, "--", *command, stdin=stdin)


def test_planning_finds_every_kernel(kind: KindCluster) -> None:
    def planned(asked: tuple[str, ...]) -> list[str]:
        return in_the_operator(kind, "python", "-c", PLAN, *asked, stdin=SAMPLE).splitlines()

    with ThreadPoolExecutor() as beside:
        for said in beside.map(planned, (FLOW, KAIROS)):
            assert said[0].startswith("rm2: ")
            assert said[-1] == "compiled 0"


def test_the_image_cannot_be_written_to(kind: KindCluster) -> None:
    with pytest.raises(RuntimeError, match="Read-only file system"):
        in_the_operator(kind, "touch", "/opt/hetserve/kernels/new")
