"""The demo's commands for one component: what each does in which condition."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from harness import demo
from harness.faults import HELP, NAMES, Action, Condition, refusal

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


@pytest.mark.parametrize(
    "arguments", [["sideways"], [], ["freeze"], ["freeze", "printer"], ["up", "--launch-times", "x"]]
)
def test_arguments_that_do_not_fit_end_with_2_and_say_what_fits(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        demo.main(arguments)
    assert ended.value.code == 2
    assert "usage: python -m harness.demo" in capsys.readouterr().err


@pytest.mark.parametrize("scale", ["-1", "nan", "inf", "much"])
def test_a_scale_of_launch_times_is_a_number_of_0_or_more(scale: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        demo.main(["up", f"--launch-times={scale}"])
    assert f"argument --launch-times: {scale}: must be a number of 0 or more" in capsys.readouterr().err


def test_every_command_has_help_that_names_the_components(capsys: pytest.CaptureFixture[str]) -> None:
    for action in Action:
        with pytest.raises(SystemExit) as ended:
            demo.main([action, "--help"])
        said = capsys.readouterr().out
        assert ended.value.code == 0
        assert all(name in said for name in NAMES)
        assert HELP[action].split()[0] in said


@pytest.mark.parametrize("arguments", [["status"], ["freeze", "operator"], ["start", "prometheus"]])
def test_without_a_demo_every_command_says_how_to_start_one(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert demo.main(arguments) == 1
    assert capsys.readouterr().err == "demo: no demo runs here; `make demo` starts one\n"
