"""`hetserve train`: weights are written, and `hetserve simulate --weights` serves by them or says why not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from hetserve.cli.app import app
from hetserve.dispatch.joining.weights import load_weights
from testing.data import REPOSITORY

ONE = ("--counts", "p2.xlarge=1")


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, arguments, catch_exceptions=False)


@pytest.fixture(scope="module")
def yolo(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("yolo") / "fang.yaml"
    assert run("reference", "fang", "-o", str(path)).exit_code == 0
    return str(path)


@pytest.fixture(scope="module")
def weights(yolo: str, tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("weights") / "weights.json"
    result = run("train", yolo, *ONE, "--updates", "1", "--seed", "3", "-o", str(path))
    assert (result.exit_code, result.stdout) == (0, ""), result.stderr
    return str(path)


def simulated(yolo: str, *arguments: str) -> tuple[Any, str]:
    result = run("simulate", yolo, "--rate", "20", "--queries", "500", *arguments, "-o", "json")
    assert result.exit_code in (0, 3), result.stderr
    return json.loads(result.stdout), result.stderr


def test_weights_name_what_they_were_trained_for(weights: str) -> None:
    found = load_weights(weights)
    assert (dict(found.fleet), found.variants, found.seed) == ({"p2.xlarge": 1}, ("full", "tiny"), 3)
    assert found.sizes == (1, 2, 4, 8, 16, 32, 64)
    assert (found.slo, found.hard) == (1.0, 2.0)


def test_without_a_file_they_go_to_standard_output(yolo: str, weights: str) -> None:
    result = run("train", yolo, *ONE, "--updates", "1", "--seed", "3")
    assert json.loads(result.stdout) == json.loads(Path(weights).read_text(encoding="utf-8"))


def test_rates_change_what_is_learned(yolo: str, weights: str) -> None:
    result = run("train", yolo, *ONE, "--updates", "1", "--seed", "3", "--rates", "10,12")
    assert json.loads(result.stdout)["network"] != load_weights(weights).as_json()["network"]


def test_a_service_is_served_by_the_weights(yolo: str, weights: str) -> None:
    by_weights, told = simulated(yolo, *ONE, "--policy", "fang-rl", "--weights", weights)
    assert "decides" not in told
    assert by_weights["policy"] == "fang-rl"
    by_fang, _ = simulated(yolo, *ONE, "--policy", "fang")
    assert by_weights["meanJoined"] != by_fang["meanJoined"]


def test_of_another_fleet_they_are_said_to_be_and_the_heuristic_decides(yolo: str, weights: str) -> None:
    two = ("--counts", "p2.xlarge=2")
    found, told = simulated(yolo, *two, "--policy", "fang-rl", "--weights", weights)
    assert "fang-rl is trained for 1 p2.xlarge, not 2 p2.xlarge; fang decides" in told
    by_fang, _ = simulated(yolo, *two, "--policy", "fang")
    assert (found["meanJoined"], found["meanUtility"]) == (by_fang["meanJoined"], by_fang["meanUtility"])


def test_of_other_deadlines_they_are_said_to_be_and_the_heuristic_decides(yolo: str, weights: str) -> None:
    by_weights = (*ONE, "--policy", "fang-rl", "--weights", weights)
    for option, named in (("--slo", "an SLO of 1 s, not 1.5 s"), ("--deadline", "a hard deadline of 2 s, not 1.5 s")):
        found, told = simulated(yolo, *by_weights, option, "1.5s")
        assert f"fang-rl is trained for {named}; fang decides" in told
        by_fang, _ = simulated(yolo, *ONE, "--policy", "fang", option, "1.5s")
        assert (found["meanJoined"], found["meanUtility"]) == (by_fang["meanJoined"], by_fang["meanUtility"])


def test_a_hard_deadline_is_trained_for(yolo: str, weights: str) -> None:
    result = run("train", yolo, *ONE, "--updates", "1", "--seed", "3", "--deadline", "1.5s")
    found = json.loads(result.stdout)
    assert (found["sloSeconds"], found["deadlineSeconds"]) == (1.0, 1.5)
    assert found["network"] != load_weights(weights).as_json()["network"]


def test_a_picture_of_each_variant_alone_does_not_say_that_weights_misfit(yolo: str, tmp_path: Path) -> None:
    _, told = simulated(yolo, *ONE, "--policy", "fang-rl", "--plot", str(tmp_path / "plot.png"))
    assert "decides" not in told


def test_one_variant_is_said_to_be_fewer_than_were_trained_for(yolo: str) -> None:
    _, told = simulated(yolo, *ONE, "--policy", "fang-rl", "--variant", "full")
    assert "fang-rl is trained for the variants full, tiny, not full; fang decides" in told
    assert "trained for the types" not in told


def test_a_file_that_is_there_stays_until_there_are_weights(yolo: str, tmp_path: Path) -> None:
    file = tmp_path / "weights.json"
    for before in (None, "old"):
        if before is not None:
            file.write_text(before, encoding="utf-8")
        assert run("train", yolo, *ONE, "--rates", "0.001,0.001", "-o", str(file)).exit_code == 2
        assert (file.read_text(encoding="utf-8") if file.exists() else None) == before


def test_a_declared_mix_is_not_ignored(yolo: str, tmp_path: Path) -> None:
    file = tmp_path / "four.yaml"
    text = Path(yolo).read_text(encoding="utf-8")
    head, tail = text.split("batchSizes:")
    file.write_text(head + "batchSizes:" + tail.replace("{batch: 1,", "{batch: 4,"), encoding="utf-8")
    result = run("train", str(file), *ONE, "--updates", "1")
    assert (result.exit_code, "spec.load.batchSizes: queries of 4 items" in result.stderr) == (2, True)


def test_the_packages_weights_serve_the_papers_fleets(yolo: str) -> None:
    for counts in (ONE, ("--counts", "g2.2xlarge=5,p2.xlarge=5")):
        assert "decides" not in simulated(yolo, *counts, "--policy", "fang-rl")[1]


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (("--rates", "12,10"), "'12,10' is not LOW,HIGH"),
        (("--rates", "ten"), "'ten' is not LOW,HIGH"),
        (("--counts", "a100=1"), "--counts a100: no such instance type for yolo"),
        (("--policy", "fang"), "'fang' is not 'fang-rl'"),
        (("--seed", "-1"), "-1 is not in the range"),
        (("-o", "/nowhere/weights.json", *ONE, "--updates", "100000"), "-o /nowhere/weights.json: cannot be written"),
        (("--batches", "mixture", *ONE), "yolo: --batches: queries of 10, 20, 30, 40, ... items: training knows"),
        (("--rates", "0.001,0.001", *ONE), "--rates 0.001,0.001: 0.001 queries/s are "),
        (("--rates", "1,1e9", *ONE), "--rates 1,1e+09: 1e+09 queries/s are more than 10 times"),
        (("--deadline", "0.5s", *ONE), "--deadline 500 ms: is shorter than the SLO of yolo"),
    ],
)
def test_bad_input_is_named(yolo: str, arguments: tuple[str, ...], named: str) -> None:
    result = run("train", yolo, *arguments)
    assert result.exit_code == 2
    assert named in result.stderr


def test_a_service_without_variants_has_nothing_to_learn() -> None:
    result = run("train", str(REPOSITORY / "manifests" / "samples" / "rm2.yaml"))
    assert result.exit_code == 2
    assert "rm2: spec.model.variants names no variants to choose among" in result.stderr


def test_weights_are_for_a_policy_that_has_them(yolo: str, weights: str, tmp_path: Path) -> None:
    result = run("simulate", yolo, *ONE, "--rate", "20", "--policy", "fang", "--weights", weights)
    assert result.exit_code == 2
    assert "--policy fang has none" in result.stderr
    broken = tmp_path / "broken.json"
    broken.write_text('{"policy": "fang-rl"}', encoding="utf-8")
    result = run("simulate", yolo, *ONE, "--rate", "20", "--policy", "fang-rl", "--weights", str(broken))
    assert result.exit_code == 2
    assert f"--weights {broken}: lacks seed, fleet" in result.stderr
