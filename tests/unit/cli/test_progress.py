"""Progress on a terminal during simulation."""

from __future__ import annotations

import io
import re
from contextlib import redirect_stderr

import numba
import pytest

from hetserve.cli.app import app
from hetserve.cli.output.progress import COMPILING, steps
from hetserve.compiled import compilations
from testing.data import REPOSITORY

SAMPLE = str(REPOSITORY / "manifests" / "samples" / "rm2.yaml")
QUICK = ("--queries", "500", "--seeds", "3", "--seed", "1")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """A terminal of 200 columns, for stderr."""
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "200")
    return Terminal()


def shown(terminal: Terminal) -> str:
    return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", terminal.getvalue())


def test_compiling_is_reported_once_when_it_begins_and_ends() -> None:
    told: list[bool] = []
    function = numba.njit(lambda n: n * 2 + 1)
    with compilations(told.append):
        assert function(1) == 3
        assert told == [True, False]
        function(2)
    function(1.5)
    assert told == [True, False]


def test_a_step_that_compiles_says_so(terminal: Terminal) -> None:
    function = numba.njit(lambda n: n * 3 + 1)
    with redirect_stderr(terminal), steps("rm2", 7) as progress:
        function(1)
        progress.done("1xa holds 5 q/s")
    assert f"rm2: {COMPILING}" in shown(terminal)
    assert re.search(r"rm2: 1xa holds 5 q/s .*1 of at most 7", shown(terminal))


def test_a_plan_says_on_a_terminal_that_it_tries(terminal: Terminal) -> None:
    with redirect_stderr(terminal), pytest.raises(SystemExit):
        app(["plan", SAMPLE, "--budget", "0.6", "-o", "json"], standalone_mode=False)
    assert "rm2: trying" in shown(terminal)


def test_names_in_progress_are_shown_as_written(terminal: Terminal) -> None:
    with redirect_stderr(terminal), steps("a\x1b[2Jb") as progress:
        progress.done("c\x9b2Jd")
    assert r"a\x1b[2Jb" in shown(terminal)
    assert "\x9b" not in terminal.getvalue()


@pytest.mark.parametrize(
    ("command", "most"),
    [
        (("search", SAMPLE, "--evaluations", "2", *QUICK), "of at most 2"),
        (("compare", SAMPLE, "--planners", "kairos", "--policies", "fcfs", *QUICK), "of at most 1"),
        (
            ("simulate", SAMPLE, "--find-allowable", "--policy", "fcfs", "--counts", "g4dn.xlarge=1", *QUICK),
            "of at most 200",
        ),
        (("simulate", SAMPLE, "--rate", "5", "--policy", "fcfs", "--counts", "g4dn.xlarge=1", *QUICK), "of at most 3"),
    ],
    ids=lambda value: " ".join(value)[:20] if isinstance(value, tuple) else value,
)
def test_every_command_that_simulates_says_of_how_many(
    command: tuple[str, ...], most: str, terminal: Terminal, capsys: pytest.CaptureFixture[str]
) -> None:
    with redirect_stderr(terminal), pytest.raises(SystemExit):
        app.main(command, standalone_mode=False)
    assert capsys.readouterr().out
    assert most in shown(terminal)
    assert re.search(r"rm2.*: [^\n]*(holds|late|seed [123]|under fcfs)", shown(terminal))
