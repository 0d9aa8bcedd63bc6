"""What the twin is told, and what it says to bad input."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result

from hetserve.demand import kairos_mixture
from hetserve_shell.settings import SettingsError, load_settings
from hetserve_twin.main import main, read_loads
from hetserve_twin.settings import TwinSettings


def given(**values: object) -> TwinSettings:
    return load_settings(TwinSettings, None, {"loads": ["team/s=a.csv"], **values})


def written(folder: Path, text: str) -> Path:
    path = folder / "day.csv"
    path.write_text(text)
    return path


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, list(arguments))


def test_a_load_is_a_service_and_a_trace() -> None:
    first, second = given(loads=["team/s=day=1.csv", "t=b.csv"]).loads
    assert (first.namespace, first.service, first.trace) == ("team", "s", Path("day=1.csv"))
    assert (second.namespace, second.service, second.trace) == ("default", "t", Path("b.csv"))


@pytest.mark.parametrize(
    ("factor", "expected"),
    [
        ("1.2", {"*": 1.2}),
        (1.2, {"*": 1.2}),
        (["1.2", "g4dn.xlarge=1.5"], {"*": 1.2, "g4dn.xlarge": 1.5}),
        ({"t4": "2"}, {"t4": 2.0}),
    ],
)
def test_factors_are_for_all_types_or_for_one(factor: object, expected: dict[str, float]) -> None:
    assert given(latency_factor=factor).latency_factor == expected


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"loads": []}, "loads: "),
        ({"loads": ["s"]}, "a load is NAMESPACE/SERVICE=TRACE.csv"),
        ({"loads": ["t/s=a.csv", "t/s=b.csv"]}, "t/s is there twice; give each service one trace"),
        ({"latency_factor": "0"}, "latencyFactor: .*'0' must be above 0"),
        ({"latency_factor": ["t4=2", "t4=3"]}, "t4: there are two factors, 2 and 3; give one"),
        ({"latency_factor": "t4=-1"}, "t4|decimal"),
        ({"latency_factor": ["t4=fast"]}, "t4: "),
        ({"speed": 0}, "speed: 0"),
        ({"slice": "0s"}, "slice"),
        ({"policy": "best"}, "must be one of hetserve, "),
        ({"policy": "threshold"}, "must be one of hetserve, "),
        ({"max_slowdown": "0.9"}, "maxSlowdown"),
        ({"seed": -1}, "seed: -1"),
        ({"tracez": "x"}, "unknown setting"),
    ],
)
def test_bad_settings_are_named_with_what_would_be_right(values: dict[str, object], message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        given(**values)


def test_factors_of_a_load_come_on_top_of_the_general_ones(tmp_path: Path) -> None:
    trace = str(written(tmp_path, "time_s,qps\n0,1\n"))
    load = {"service": "s", "trace": trace, "batches": "mixture", "latencyFactor": {"a": "2", "*": "3"}}
    loads = read_loads(given(loads=[load], latency_factor=["1.5", "b=4"]))
    found = loads["default", "s"]
    assert found.factors == {"a": 3.0, "b": 12.0, "*": 4.5}
    assert found.mix == kairos_mixture()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("time_s,qps\n0,1\n0,2\n", "line 3: time_s '0': must be above the time before, 0: sort the lines"),
        ("time_s,qps\n0,nan\n", "line 2: qps 'nan': must be a number of queries/s"),
        ("time_s,qps\n0,\n", "line 2: qps is empty: must be a number of queries/s"),
        ("time_s,qps\n0,-1\n", "line 2: qps '-1': must be a number of queries/s"),
        ("qps\n1\n", "no column time_s"),
    ],
)
def test_a_bad_trace_ends_the_process_with_2_and_names_line_value_and_remedy(
    tmp_path: Path, text: str, message: str
) -> None:
    done = run("--load", f"team/s={written(tmp_path, text)}")
    assert (done.exit_code, message in done.output) == (2, True), done.output


def test_a_trace_or_a_mix_that_is_not_there_ends_the_process_with_2(tmp_path: Path) -> None:
    done = run("--load", f"s={tmp_path / 'none.csv'}")
    assert (done.exit_code, "none.csv: cannot be read" in done.output) == (2, True), done.output
    load = {"service": "s", "trace": str(written(tmp_path, "time_s,qps\n0,1\n")), "batches": "some"}
    config = tmp_path / "twin.yaml"
    config.write_text(yaml.safe_dump({"loads": [load]}))
    done = run("--config", str(config))
    assert (done.exit_code, "batches 'some': no such file" in done.output) == (2, True), done.output


def test_bad_settings_name_the_file_and_the_key(tmp_path: Path) -> None:
    config = tmp_path / "twin.yaml"
    config.write_text("loads: [s=a.csv]\nspeed: fast\n")
    done = run("--config", str(config))
    assert done.exit_code == 1
    assert f"{config}: speed: 'fast'" in done.output
