"""docs/getting-started.md: its commands, run as they stand there, plan, place, ask and explain a model."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness import limits
from harness.components import ROOT
from harness.reaper import dismiss, watch
from harness.state import StateFolder
from harness.tools import Toolset

PAGE = ROOT / "docs" / "getting-started.md"
MARK = "=== block "
pytestmark = [pytest.mark.cluster, pytest.mark.timeout(limits.LONG_TEST)]


@pytest.fixture
def checkout(state_root: Path, toolset: Toolset, tmp_path: Path) -> Iterator[Path]:
    """The repository as a user has it after `make setup`, with a .demo of its own."""
    state = state_root / f"first-{os.getpid()}"
    reaper = watch(state)
    for path in ROOT.iterdir():
        if path.name not in {".venv", ".demo", ".git"}:
            (tmp_path / path.name).symlink_to(path)
    (tmp_path / ".venv").symlink_to(sys.prefix)
    (tmp_path / ".demo").symlink_to(state)
    yield tmp_path
    if state.exists():
        StateFolder(state).destroy()
    dismiss(reaper)


def blocks() -> list[str]:
    return re.findall(r"^```sh\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)


def run_all(checkout: Path) -> list[str]:
    """Runs the blocks in one shell, which ends at the first command that fails. Returns what each has printed."""
    script = "".join(f"echo '{MARK}'\n{block}" for block in blocks())
    # The environment is made already, and what has made it may not be asked again under a running test.
    head = 'set -eu\nmake() { command make --no-print-directory -o setup "$@"; }\n'
    env = {**os.environ, "HETSERVE_DEMO_DIR": str((checkout / ".demo").resolve())}
    done = subprocess.run(
        ["bash", "-c", head + script],
        cwd=checkout,
        env=env,
        capture_output=True,
        text=True,
        timeout=limits.SESSION,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    return done.stdout.split(f"{MARK}\n")[1:]


def test_the_commands_of_the_first_hour_plan_place_ask_and_explain_a_model(checkout: Path) -> None:
    cluster, plan, more, applied, answered, placed, why, explained, grown, gone = run_all(checkout)
    assert "hetsev-v100" in cluster
    assert "hello: 2xfirst-v100" in plan
    assert "hello: 4xfirst-v100" in more
    assert re.search(r"^hello +hello +200ms +2/2 +2xfirst-v100 ", applied, re.MULTILINE), applied
    assert re.search(r"^hetserve-instance: hello-first-v100-", answered, re.MULTILINE), answered
    assert '"data":[1,2,3]' in answered
    assert len(re.findall(r"^hello-\S+ .* Running .* hetsev-v100-\d", placed, re.MULTILINE)) == 2, placed
    assert "hetsev-v100" in why
    assert "2xfirst-v100" in explained
    assert re.search(r"^hello +hello +200ms +4/4 +4xfirst-v100 ", grown, re.MULTILINE), grown
    assert "the demo is stopped" in gone
    assert not (checkout / ".demo").exists()
