"""What CI runs on an older Kubernetes: one file of scenarios, where that is built; a broken harness is no excuse."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Final

import pytest

from harness import limits
from stub_machine import program, tools

SCRIPT: Final = Path(__file__).parents[2] / ".ci" / "kubernetes"


def run(folder: Path, python: str, make: str = "exit 0") -> tuple[int, str]:
    """Exit code and output of `.ci/kubernetes 1.35`, in a checkout whose interpreter and make do what is said."""
    script = folder / "checkout" / ".ci" / "kubernetes"
    script.parent.mkdir(parents=True)
    shutil.copy(SCRIPT, script)
    tools(folder / "bin", "bash", "dirname", "env")
    program(folder / "checkout/venv/bin/python", python)
    program(folder / "bin" / "make", make)
    environment = {"PATH": str(folder / "bin"), "VENV": "venv"}
    done = subprocess.run(
        [script, "1.35"], env=environment, check=False, capture_output=True, text=True, timeout=limits.COMMAND
    )
    return done.returncode, done.stdout


@pytest.mark.parametrize("code", [0, 2])
def test_the_scenarios_run_where_it_is_built_and_what_they_end_with_counts(tmp_path: Path, code: int) -> None:
    done = run(tmp_path, "echo True", f'echo "$KUBERNETES: $*"; exit {code}')
    assert done == (code, "1.35: e2e TESTS=e2e/test_a_service_becomes_ready.py\n")


def test_what_is_not_built_is_named_and_fails_nothing(tmp_path: Path) -> None:
    said = "e2e on Kubernetes 1.35: NOT RUN (it is not built: make tools KUBERNETES=1.35)\n"
    assert run(tmp_path, '[ "$KUBERNETES" = 1.35 ] && echo False', "exit 1") == (0, said)


def test_a_harness_that_breaks_is_no_excuse(tmp_path: Path) -> None:
    assert run(tmp_path, "exit 1") == (1, "")
