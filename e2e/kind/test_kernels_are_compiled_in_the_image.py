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


def planned(kind: KindCluster, kernels: str, asked: str) -> list[str]:
    """Lines of a plan of the sample. kernels: `env` words that say where they are."""
    sample = (ROOT / "manifests" / "samples" / "rm2.yaml").read_text()
    words = ("env", *kernels.split(), "python", "-c", PLAN, *asked.split())
    return in_the_operator(kind, *words, stdin=sample).splitlines()


KAIROS: Final = "--planner kairos --budget 40"


@pytest.mark.parametrize("asked", ["--planner flow", KAIROS])
def test_planning_finds_every_kernel(kind: KindCluster, asked: str) -> None:
    found = planned(kind, "", asked)
    assert found[0].startswith("rm2: ")
    assert found[-1] == "compiled 0"


def test_what_is_not_found_is_compiled_and_counted(kind: KindCluster) -> None:
    assert planned(kind, "NUMBA_CACHE_DIR=/tmp/kernels", KAIROS)[-1] == "compiled 1"


def test_the_image_cannot_be_written_to(kind: KindCluster) -> None:
    with pytest.raises(RuntimeError, match="Read-only file system"):
        in_the_operator(kind, "touch", "/opt/hetserve/kernels/new")
