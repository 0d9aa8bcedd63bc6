"""The short form of the scenarios on kind: what a machine lacks fails nothing, what is broken in hetserve fails CI."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from harness import limits
from stub_machine import program, tools

SCRIPT: Final = Path(__file__).parents[2] / ".ci" / "kind"
USED: Final = ("bash", "dirname", "env", "grep", "mktemp", "rm", "sleep", "tail", "timeout")
PASSED: Final = "e2e-kind: the short form passed: extender and second scheduler, no operator"


@dataclass(frozen=True)
class Outcome:
    """What the script printed and did. calls: the stubs that it ran, in this order."""

    code: int
    lines: list[str]
    calls: list[str]

    @property
    def last(self) -> tuple[int, str]:
        return self.code, self.lines[-1]


class Machine:
    """A checkout with the script, and a machine where all is well: root, an engine that runs, a cached node image."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.variables: dict[str, str] = {}
        self.script = folder / "checkout" / ".ci" / "kind"
        self.script.parent.mkdir(parents=True)
        shutil.copy(SCRIPT, self.script)
        tools(folder / "bin", *USED)
        self.user(0)
        self.engine("exit 0")
        self.stages: dict[str, str] = {}
        self.steps: dict[str, str] = {}

    def user(self, number: int) -> None:
        program(self.folder / "bin" / "id", f"echo {number}")

    def engine(self, text: str) -> None:
        """What `docker info` does."""
        program(self.folder / "bin" / "docker", text)

    def dockerd(self) -> None:
        program(self.folder / "bin" / "dockerd", "exit 0")

    def run(self) -> Outcome:
        """Runs the script; `stages` of the lab and `steps` of the interpreter do what was set, or end well."""
        calls = self.folder / "calls"
        calls.write_text("")
        program(self.folder / "checkout/e2e/kind/lab/kindlab.sh", _stub(calls, "lab $1", self.stages))
        program(self.folder / "checkout/venv/bin/python", _stub(calls, "$2 $3", self.steps))
        environment = {"PATH": str(self.folder / "bin"), "VENV": "venv", "TMPDIR": str(self.folder), **self.variables}
        done = subprocess.run(
            [self.script], env=environment, check=False, capture_output=True, text=True, timeout=limits.COMMAND
        )
        assert done.stderr == ""
        assert list(self.folder.glob("tmp.*")) == [], "the log is removed"
        return Outcome(done.returncode, done.stdout.splitlines(), calls.read_text().splitlines())


def _stub(calls: Path, name: str, does: dict[str, str]) -> str:
    cases = "".join(f'"{key}") {text};; ' for key, text in does.items())
    return f'echo "{name}" >>{calls}\ncase "{name}" in {cases}*) exit 0;; esac'


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_all_is_made_asked_and_deleted_in_this_order(machine: Machine) -> None:
    done = machine.run()
    assert done.last == (0, PASSED)
    assert done.calls == [
        "lab cached",
        "harness.kind cluster",
        "harness.kind short",
        "pytest -p",
        "lab down",
    ]


def test_without_root_nothing_is_run(machine: Machine) -> None:
    machine.user(1000)
    done = machine.run()
    assert done.last == (0, "e2e-kind: NOT RUN (the lab needs root)")
    assert done.calls == []


def test_a_cluster_that_does_not_come_up_is_the_machines(machine: Machine) -> None:
    machine.steps["harness.kind cluster"] = "echo; echo 'Error: no kind cluster came up'; echo; exit 3"
    done = machine.run()
    assert done.last == (0, "e2e-kind: NOT RUN (no kind cluster: Error: no kind cluster came up)")
    assert done.calls[-2:] == ["harness.kind cluster", "lab down"]


@pytest.mark.parametrize("code", [1, 2, 127])
def test_a_harness_that_breaks_before_the_cluster_is_no_excuse(machine: Machine, code: int) -> None:
    machine.steps["harness.kind cluster"] = f"echo ImportError: hetserve; exit {code}"
    done = machine.run()
    assert done.last == (1, "e2e-kind: FAILED (python -m harness.kind cluster failed)")
    assert "ImportError: hetserve" in done.lines


@pytest.mark.parametrize("code", [1, 3])
def test_an_image_that_is_not_built_fails(machine: Machine, code: int) -> None:
    machine.steps["harness.kind short"] = f"echo 'Error: this failed: docker build'; exit {code}"
    done = machine.run()
    assert done.last == (1, "e2e-kind: FAILED (building or loading the extender's image failed)")
    assert "Error: this failed: docker build" in done.lines
    assert done.calls[-2:] == ["harness.kind short", "lab down"], "no scenario is run, and the cluster goes"


@pytest.mark.parametrize("code", [1, 3, 5])
def test_a_scenario_that_fails_or_is_not_found_fails(machine: Machine, code: int) -> None:
    machine.steps["pytest -p"] = f"echo '1 failed'; exit {code}"
    done = machine.run()
    assert done.last == (1, "e2e-kind: FAILED (a scenario failed)")
    assert "1 failed" in done.lines
    assert done.calls[-1] == "lab down"


@pytest.mark.parametrize("does", ["exec sleep 30", "exit 137"], ids=["ended", "killed"])
def test_a_scenario_that_overruns_fails_and_says_so(machine: Machine, does: str) -> None:
    machine.variables["KIND_END_BY"] = "1"
    machine.steps["pytest -p"] = does
    done = machine.run()
    assert done.last == (1, "e2e-kind: FAILED (a scenario took too long and was cut, 1 s after the start)")
    assert done.calls[-1] == "lab down"
