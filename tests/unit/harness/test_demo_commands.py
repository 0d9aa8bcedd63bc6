"""The demo's commands for one component: what each does in which condition."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from harness import demo
from harness.faults import Action, Condition, refusal

ALLOWED = {
    (Action.START, Condition.ENDED),
    (Action.STOP, Condition.RUNS),
    (Action.KILL, Condition.RUNS),
    (Action.KILL, Condition.FROZEN),
    (Action.FREEZE, Condition.RUNS),
    (Action.THAW, Condition.FROZEN),
}


@pytest.fixture(autouse=True)
def no_demo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HETSERVE_DEMO_DIR", str(tmp_path / "nothing"))


@pytest.mark.parametrize(("action", "condition"), list(itertools.product(Action, Condition)))
def test_a_command_is_refused_where_it_would_do_nothing(action: Action, condition: Condition) -> None:
    why = refusal(action, condition)
    assert (why is None) == ((action, condition) in ALLOWED)
    if why is not None:
        assert why.startswith(("runs", "is frozen", "does not run"))


@pytest.mark.parametrize("arguments", [["status"], ["freeze", "operator"], ["start", "prometheus"]])
def test_without_a_demo_every_command_says_how_to_start_one(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert demo.main(arguments) == 1
    assert capsys.readouterr().err == "demo: no demo runs here; `make demo` starts one\n"
