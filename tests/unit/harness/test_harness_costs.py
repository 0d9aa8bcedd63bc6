"""A run says where its time went, and fails where its budget is exceeded by half on the measured machine."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from harness import limits
from harness.components import ROOT
from harness.costs import busy_seconds, crowding, known, over
from harness.flakes import near
from harness.waiting import WAITS_VARIABLE, wait_until


@pytest.mark.parametrize(
    ("elapsed", "slowness", "fails"), [(100, 1.0, False), (149, 1.0, False), (151, 1.0, True), (151, 1.1, False)]
)
def test_a_run_may_exceed_its_budget_by_half_of_what_this_machine_needs(
    elapsed: float, slowness: float, fails: bool
) -> None:
    assert bool(over(elapsed, 100, slowness)) is fails


def test_a_run_may_take_longer_by_what_others_took_of_the_processors() -> None:
    assert crowding(300, others=300, cores=2) == 2.0
    assert crowding(300, others=0, cores=2) == 1.0
    assert crowding(300, others=590, cores=2) == 2.0, "a core is left to every run"


def test_the_machine_has_been_busy() -> None:
    assert busy_seconds() > 0 or not Path("/proc/stat").exists()


def test_what_is_known_to_be_slow_is_still_there() -> None:
    files = {nodeid.partition("::")[0] for nodeid in known()}
    assert [path for path in sorted(files) if not (ROOT / path).exists()] == []


def run(folder: Path, text: str, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """pytest with the project's plugins over one file of tests."""
    test = folder / "test_some.py"
    test.write_text(text)
    plugins = ["-p", "harness.costs", "-p", "harness.tiers"]
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *plugins, *arguments, str(test)]
    folders = (ROOT / "e2e", ROOT / "tests" / "support")
    own = os.environ | {"PYTHONPATH": os.pathsep.join(map(str, folders)), **variables}
    return subprocess.run(
        command, cwd=folder, env=own, capture_output=True, text=True, timeout=limits.COMMAND, check=False
    )


BURNS = """
import os
def test_burns():
    before = os.times
    os.times = lambda: (before()[0] + 2.2, *before()[1:])
"""
"""As the processor's clock says."""


def test_a_run_over_its_budget_fails_and_names_the_dear_file_and_the_new_slow_test(tmp_path: Path) -> None:
    done = run(tmp_path, BURNS, "--budget", "0.001", **{limits.SLOWNESS_VARIABLE: "1.00"})
    assert done.returncode == 1
    assert "1.5 times their budget of 0 s" in done.stdout
    assert "test_some.py\n" in done.stdout
    assert "new, over 2 s: 2." in done.stdout
    assert run(tmp_path, BURNS, "--budget", "90").returncode == 0


def test_a_wait_near_its_limit_is_noted_with_its_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(WAITS_VARIABLE, str(tmp_path))
    instant = 1e-9
    wait_until(lambda: True, instant, "nothing at all")
    wait_until(lambda: True, limits.ANSWER, "what comes at once")
    (note,) = near(tmp_path)
    assert note["what"] == "nothing at all"
    assert note["line"].startswith(__file__)
