"""Promise: where nothing can be written, planning compiles nothing: the image holds what was compiled ahead."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import partial
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


FLOW: Final = "--planner flow"
KAIROS: Final = "--planner kairos --budget 40"
NOWHERE: Final = "NUMBA_CACHE_DIR=/tmp/kernels"


def test_planning_finds_every_kernel_and_counts_what_it_has_to_compile(kind: KindCluster) -> None:
    with ThreadPoolExecutor() as beside:
        flow, kairos, compiled = beside.map(partial(planned, kind), ("", "", NOWHERE), (FLOW, KAIROS, KAIROS))
    for found in (flow, kairos):
        assert found[0].startswith("rm2: ")
        assert found[-1] == "compiled 0"
    assert compiled[-1] == "compiled 1"


def test_the_image_cannot_be_written_to(kind: KindCluster) -> None:
    with pytest.raises(RuntimeError, match="Read-only file system"):
        in_the_operator(kind, "touch", "/opt/hetserve/kernels/new")
