"""`make demo-load`: what it may be asked for, and what is said of what it may not."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness import demo


@pytest.fixture(autouse=True)
def nothing_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HETSERVE_DEMO_DIR", str(tmp_path / "nothing"))
    monkeypatch.chdir(tmp_path)


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """What is said on stderr; the exit code is 2 and nothing was started."""
    with pytest.raises(SystemExit) as ended:
        demo.main(["load", *arguments])
    assert ended.value.code == 2
    assert not Path("nothing").exists()
    return capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("time_s,qps\n0,1\n60,-2\n", "line 3: qps '-2': must be a number of queries/s from 0 to 1e+09"),
        ("time_s,qps\n0,1\n60,\n", "line 3: qps is empty"),
        ("time_s,qps\n0,1\n60,nan\n", "line 3: qps 'nan'"),
        ("time_s,qps\n60,1\n60,2\n", "must be above the time before, 60"),
        ("time_s,load\n0,1\n", "qps"),
        ("time_s,qps\n0,1\n", "give two times at least"),
        ("time_s,qps\n0,1\n60,5001\n", "qps 5001: the twin keeps up with 5000 queries/s"),
    ],
)
def test_a_trace_that_cannot_be_played_is_refused(text: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("trace.csv").write_text(text)
    error = refused(capsys, "--load", "trace.csv")
    assert said in error
    assert "trace.csv" in error


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--seconds", "0"], "the play would take 0 s; choose one of 10 to 86400 s (--speed 1 to 8640)"),
        (["--seconds", "nan"], "the play would take nan s"),
        (["--speed", "0"], "the play would take nan s"),
        (["--speed", "1e5"], "the play would take 0.864 s"),
        (["--speed", "fast"], "--speed: invalid float value: 'fast'"),
        (["--seconds", "60", "--speed", "2"], "not allowed with argument"),
        (["--out", "day.pdf"], "day.pdf: must end in .svg or .png"),
        (["--out", "no/day.svg"], "no/day.svg: the folder no is not there, or cannot be written"),
        (["--load", "none.csv"], "--load: none.csv: cannot be read"),
    ],
)
def test_other_bad_input_is_refused_too(arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert said in refused(capsys, *arguments)
