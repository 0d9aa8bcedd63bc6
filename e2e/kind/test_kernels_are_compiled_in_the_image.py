"""Promise: where nothing can be written, planning compiles nothing: the image holds what was compiled ahead."""

from __future__ import annotations

from typing import Final

import pytest

from harness.components import ROOT
from harness.kind import KindCluster
from hetserve.api.names import SYSTEM_NAMESPACE

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


@pytest.mark.parametrize("planner", ["flow", "kairos-plus"])
def test_planning_finds_every_kernel(kind: KindCluster, planner: str) -> None:
    sample = (ROOT / "manifests" / "samples" / "rm2.yaml").read_text()
    printed = in_the_operator(kind, "python", "-c", PLAN, "--planner", planner, stdin=sample)
    assert "1xg4dn.xlarge" in printed
    assert printed.splitlines()[-1] == "compiled 0"


def test_without_what_the_image_holds_it_would_compile(kind: KindCluster) -> None:
    sample = (ROOT / "manifests" / "samples" / "rm2.yaml").read_text()
    elsewhere = ("env", "NUMBA_CACHE_DIR=/tmp/kernels", "python", "-c", PLAN, "--planner", "kairos-plus")
    printed = in_the_operator(kind, *elsewhere, stdin=sample)
    assert printed.splitlines()[-1] != "compiled 0"


def test_the_image_cannot_be_written_to(kind: KindCluster) -> None:
    with pytest.raises(RuntimeError, match="Read-only file system"):
        in_the_operator(kind, "touch", "/opt/hetserve/kernels/new")
