from __future__ import annotations

import json
import math
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from hetserve.cli.app import app
from testing.data import REPOSITORY

HETSEV = str(REPOSITORY / "manifests" / "samples" / "hetsev.yaml")
RM2 = str(REPOSITORY / "manifests" / "samples" / "rm2.yaml")
SERVICE = ("--service", "resnet50")


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["autoscale", *arguments], catch_exceptions=False)


def planned_by_papers(**spec: Any) -> str:
    """One service of the sample, with more in its spec and a planner that tries nothing, which is quick.

    The default's plans are followed in tests/packaging/test_documented_commands_run.py.
    """
    items = [one for one in hetsev() if one["kind"] == "InstanceType" or one["metadata"]["name"].startswith("resnet50")]
    at = next(at for at, one in enumerate(items) if one["kind"] == "InferenceService")
    items[at] = items[at] | {"spec": items[at]["spec"] | {"planner": "greedy", **spec}}
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": items})


@cache
def hetsev() -> list[Any]:
    return [one for one in yaml.safe_load_all(Path(HETSEV).read_text()) if one]


@pytest.fixture(scope="module")
def services(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("services") / "services.json"
    path.write_text(planned_by_papers())
    return str(path)


@pytest.fixture(scope="module")
def day(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Forty minutes that rise and fall, with five minutes without samples."""
    path = tmp_path_factory.mktemp("trace") / "day.csv"
    rates = [40 + 30 * math.sin(2 * math.pi * i / 40) for i in range(40)]
    cells = ["" if 20 <= i < 25 else f"{rate:.3f}" for i, rate in enumerate(rates)]
    path.write_text("time_s,qps\n" + "".join(f"{60 * i},{cell}\n" for i, cell in enumerate(cells)))
    return str(path)


@pytest.fixture(scope="module")
def answer(services: str, day: str) -> Any:
    result = run(services, *SERVICE, "--load", day, "-o", "json")
    assert result.exit_code in (0, 3), result.stderr
    return json.loads(result.stdout)


def test_a_trace_is_followed_and_every_decision_explained(answer: Any) -> None:
    assert (answer["service"], answer["seconds"], answer["percentile"]) == ("resnet50", 2400, 98)
    assert answer["decisions"][0]["action"] == "FirstPlan"
    assert {one["action"] for one in answer["decisions"]} >= {"ScaleDown", "Hold"}
    assert all(one["message"] and one["to"] for one in answer["decisions"])
    assert answer["dollars"] > 0
    assert 0 <= answer["lateShare"] < 0.1
    assert answer["holds"] is (answer["lateShare"] <= 0.02)


def test_holding_on_missing_samples_is_among_the_decisions(answer: Any) -> None:
    assert "MetricsNotFresh" in {one["reason"] for one in answer["decisions"] if one["time"] > 1200}


def test_the_table_and_the_plot_say_the_same(services: str, day: str, answer: Any, tmp_path: Path) -> None:
    figure = tmp_path / "day.svg"
    result = run(services, *SERVICE, "--load", day, "--plot", str(figure))

    assert f"changed {answer['changes']} times" in " ".join(result.stdout.split())
    assert "FirstPlan" in result.stdout
    assert figure.read_text().startswith("<?xml")


def followed(tmp_path: Path, rates: list[float], **spec: Any) -> Any:
    """What became of resnet50 with more in its spec, of rates that last ten minutes each."""
    (tmp_path / "services.json").write_text(planned_by_papers(**spec))
    (tmp_path / "load.csv").write_text("time_s,qps\n" + "".join(f"{600 * i},{q}\n" for i, q in enumerate(rates)))
    result = run(str(tmp_path / "services.json"), *SERVICE, "--load", str(tmp_path / "load.csv"), "-o", "json")
    assert result.exit_code in (0, 3), result.stderr
    return json.loads(result.stdout)


FALLS = [120.0, 10.0, 10.0, 10.0, 10.0]
RISES = [20.0, 120.0]


def test_a_window_of_half_an_hour_is_known_when_it_is_over(tmp_path: Path) -> None:
    scaling = {"scaleDown": {"stabilizationWindow": "30m"}}
    found = followed(tmp_path, FALLS, scaling=scaling, metrics={"source": "Hetserve"})
    falls = [one["time"] for one in found["decisions"] if one["action"] == "ScaleDown"]
    assert falls, "it never shrinks"
    assert min(falls) >= 1800


@pytest.mark.deep
def test_a_pause_holds_in_virtual_time_too(tmp_path: Path) -> None:
    for pause, adds in (("None", True), ("ScaleUp", False)):
        decisions = followed(tmp_path, RISES, pause=pause)["decisions"]
        assert any(one["action"] == "ScaleUp" for one in decisions) is adds


@pytest.mark.deep
@pytest.mark.parametrize(("window", "seen"), [("1m", 60), ("10m", 600)])
def test_rates_are_over_the_window_of_the_service(window: str, seen: int, tmp_path: Path) -> None:
    """A load that has risen at 600 s is seen in full one window later, at a sample of which a step is a minute."""
    metrics, scaling = {"source": "Hetserve", "window": window}, {"scaleUp": {"lookAhead": "None"}}
    found = followed(tmp_path, RISES, metrics=metrics, scaling=scaling)
    last = max(one["time"] for one in found["decisions"] if one["action"] == "ScaleUp")
    assert 600 + seen - 60 <= last <= 600 + seen + 120


@pytest.mark.parametrize(
    ("rows", "field"),
    [
        ("0,5\n60,5\n60,5\n", "time_s"),
        ("0,5\n60,five\n", "qps"),
        ("nan,5\n", "time_s"),
    ],
)
def test_a_bad_trace_is_exit_2_with_line_field_and_value(rows: str, field: str, tmp_path: Path) -> None:
    path = tmp_path / "bad.csv"
    path.write_text("time_s,qps\n" + rows)

    result = run(HETSEV, *SERVICE, "--load", str(path))

    assert result.exit_code == 2
    assert field in result.stderr
    assert "line" in result.stderr
    assert "Traceback" not in result.stderr


def test_a_trace_without_any_good_sample_is_exit_2(tmp_path: Path) -> None:
    path = tmp_path / "empty.csv"
    path.write_text("time_s,qps\n0,\n60,nan\n")

    result = run(HETSEV, *SERVICE, "--load", str(path))

    assert result.exit_code == 2
    assert "no rate" in result.stderr


@pytest.mark.parametrize(("rows", "field"), [("0,1\n1e15,2\n", "time_s"), ("0,1\n600,1e9\n1200,1e9\n", "qps")])
def test_a_trace_too_long_to_be_played_is_exit_2(rows: str, field: str, tmp_path: Path) -> None:
    path = tmp_path / "long.csv"
    path.write_text("time_s,qps\n" + rows)

    result = run(HETSEV, *SERVICE, "--load", str(path))

    assert result.exit_code == 2
    assert f"--load: {field}" in result.stderr
    assert "at most" in result.stderr


def test_a_file_that_is_not_there_is_exit_2() -> None:
    result = run(HETSEV, *SERVICE, "--load", "/nowhere.csv")

    assert result.exit_code == 2
    assert result.stderr == "Error: --load /nowhere.csv: cannot be read: No such file or directory\n"


def test_most_throughput_follows_no_load(day: str) -> None:
    result = run(RM2, "--load", day)

    assert result.exit_code == 2
    assert "MinCost" in result.stderr


def test_smaller_queries_on_the_way_cost_less(services: str, day: str, answer: Any) -> None:
    result = run(services, *SERVICE, "--load", day, "-o", "json", "--mix-change", "600=normal:4,1")
    changed = json.loads(result.stdout)
    assert changed["dollars"] < answer["dollars"], "all have 8 items as declared"
    words = "under the mix of batch sizes as measured"
    assert [any(words in one["message"] for one in made["decisions"]) for made in (changed, answer)] == [True, False]


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("noon=normal:4,1", "SECOND=MIX"),
        ("0=normal:4,1", "SECOND=MIX"),
        ("600", "batch"),
        ("600=normal:x", "normal"),
    ],
)
def test_a_change_of_sizes_that_is_none_is_refused(services: str, day: str, value: str, words: str) -> None:
    result = run(services, *SERVICE, "--load", day, "--mix-change", value)
    assert (result.exit_code, words in result.stderr) == (2, True), result.stderr


def test_two_changes_of_sizes_at_once_are_refused(services: str, day: str) -> None:
    twice = ("--mix-change", "600=normal:4,1", "--mix-change", "600.0=normal:8,1")
    result = run(services, *SERVICE, "--load", day, *twice)
    assert (result.exit_code, "second 600 is there twice" in result.stderr) == (2, True), result.stderr


def test_queries_that_take_longer_than_declared_bring_instances(services: str, day: str, answer: Any) -> None:
    result = run(services, *SERVICE, "--load", day, "-o", "json", "--latency-factor", "1.4")
    slow = json.loads(result.stdout)
    reasons = [{one["reason"] for one in made["decisions"]} for made in (slow, answer)]
    assert ["SLOMissed" in one for one in reasons] == [True, False]
    assert slow["dollars"] > answer["dollars"]


def test_the_same_seed_gives_the_same_answer_also_with_a_factor_of_a_type_on_which_the_service_cannot_run(
    services: str, day: str, answer: Any
) -> None:
    result = run(services, RM2, *SERVICE, "--load", day, "-o", "json", "--latency-factor", "g4dn.xlarge=2")
    assert "resnet50: --latency-factor of g4dn.xlarge has no effect" in result.stderr
    assert json.loads(result.stdout) == answer


@pytest.mark.parametrize(
    ("values", "words"),
    [
        (("soon",), "not a decimal number"),
        (("0",), "must be above 0"),
        (("1.2", "1.3"), "there are two factors"),
        (("g9.huge=1.2",), "no instance type g9.huge; there are: "),
    ],
)
def test_a_factor_that_is_none_or_of_nothing_is_refused(
    services: str, day: str, values: tuple[str, ...], words: str
) -> None:
    result = run(services, *SERVICE, "--load", day, *(f"--latency-factor={value}" for value in values))
    assert (result.exit_code, words in result.stderr) == (2, True), result.stderr
