"""Which Pythons the tests of planning run on beside ours, and what is said of those that are not here."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from harness import limits
from stub_machine import program, tools

SCRIPT: Final = Path(__file__).parents[2] / ".ci" / "pythons"
OURS: Final = f"{sys.version_info[0]}.{sys.version_info[1]}"


class Machine:
    """A checkout with the script, and a machine that has only the Pythons given to it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.script = folder / "checkout" / ".ci" / "pythons"
        self.script.parent.mkdir(parents=True)
        shutil.copy(SCRIPT, self.script)
        tools(folder / "bin", "bash", "dirname", "rm", "cat", "env")
        self.make("exit 0")

    def make(self, text: str) -> None:
        program(self.folder / "bin" / "make", f'echo "make $*"; {text}')

    def on_path(self, version: str, text: str = "exit 0") -> Path:
        return program(self.folder / "bin" / f"python{version}", text)

    def of_pyenv(self, version: str, text: str = "exit 0") -> Path:
        return program(self.folder / "pyenv" / "versions" / f"{version}.7" / "bin" / f"python{version}", text)

    def run(self, *versions: str) -> tuple[int, list[str]]:
        """Exit code and lines of the script."""
        environment = {"PATH": str(self.folder / "bin"), "PYENV_ROOT": str(self.folder / "pyenv"), "HOME": os.devnull}
        done = subprocess.run(
            [self.script, *versions],
            env=environment,
            check=False,
            capture_output=True,
            text=True,
            timeout=limits.COMMAND,
        )
        assert done.stderr == ""
        return done.returncode, done.stdout.splitlines()


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_a_machine_without_other_pythons_says_so_and_passes(machine: Machine) -> None:
    assert machine.run("3.98", "3.99") == (0, ["Python 3.98: not found", "Python 3.99: not found"])


def test_each_python_that_is_here_gets_an_environment_of_its_own(machine: Machine) -> None:
    first, second = machine.on_path("3.98"), machine.of_pyenv("3.99")
    code, lines = machine.run("3.97", "3.98", "3.99")
    assert code == 0
    assert f"make --no-print-directory test-planning VENV=.venv-3.98 PYTHON={first} WORKERS=0" in lines
    assert f"make --no-print-directory test-planning VENV=.venv-3.99 PYTHON={second} WORKERS=0" in lines
    assert lines[-3:] == [
        "Python 3.97: not found",
        f"Python 3.98: passed ({first})",
        f"Python 3.99: passed ({second})",
    ]


def test_a_python_that_fails_is_named_and_does_not_hide_the_others(machine: Machine) -> None:
    first, second = machine.on_path("3.98"), machine.on_path("3.99")
    machine.make('case "$*" in *3.98*) echo it breaks; exit 2;; esac')
    code, lines = machine.run("3.98", "3.99")
    assert code == 1
    assert "it breaks" in lines
    assert lines[-2:] == [f"Python 3.98: FAILED ({first})", f"Python 3.99: passed ({second})"]


def test_a_shim_that_does_not_start_is_passed_over(machine: Machine) -> None:
    machine.on_path("3.98", "echo 'pyenv: python3.98: command not found' >&2; exit 127")
    assert machine.run("3.98") == (0, ["Python 3.98: not found"])
    real = machine.of_pyenv("3.98")
    assert machine.run("3.98")[1][-1] == f"Python 3.98: passed ({real})"


def test_a_program_is_taken_for_the_version_that_it_is(machine: Machine) -> None:
    ours = machine.on_path(OURS, f'exec {sys.executable} "$@"')
    machine.on_path("3.98", f'exec {sys.executable} "$@"')
    code, lines = machine.run(OURS, "3.98")
    assert code == 0
    assert lines[-2:] == [f"Python {OURS}: passed ({ours})", "Python 3.98: not found"]
