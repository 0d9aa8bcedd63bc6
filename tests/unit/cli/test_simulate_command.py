from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from hetserve.cli.app import app
from hetserve.registry.dispatch_policies import DISPATCH_POLICIES
from testing.data import REPOSITORY

RM2 = str(REPOSITORY / "manifests" / "samples" / "rm2.yaml")
PAPER = ("--counts", "g4dn.xlarge=1,r5n.large=13")


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["simulate", *arguments], catch_exceptions=False)


def answer(*arguments: str, code: int = 0) -> Any:
    result = run(RM2, *arguments, "-o", "json")
    assert result.exit_code == code, result.stderr
    return json.loads(result.stdout)


def test_a_load_that_holds() -> None:
    document = answer(*PAPER, "--rate", "100", "--queries", "5000")
    assert document["holds"] is True
    assert (document["offeredQPS"], document["percentile"], document["queries"], document["seed"]) == (
        100,
        99,
        5000,
        11,
    )
    assert 0 <= document["violationRatio"] <= 0.01
    assert document["counts"] == {"c5n.2xlarge": 0, "g4dn.xlarge": 1, "r5n.large": 13, "t3.xlarge": 0}
    assert document["cost"] == "2.463"
    assert 0.5 < document["utilisation"]["r5n.large"] < 1
    assert document["utilisation"]["t3.xlarge"] == 0
    assert sum(tenth["queries"] for tenth in document["violationsByBatch"]) == 5000
    assert document["worstDelaySeconds"] > 0.35
    assert "allowableQPS" not in document


def test_a_service_is_simulated_under_its_own_policy_unless_another_is_named(tmp_path: Path) -> None:
    text = Path(RM2).read_text(encoding="utf-8")
    own = tmp_path / "own.yaml"
    own.write_text(text.replace("  template:", "  dispatch: {policy: fcfs, ports: {http: 8000}}\n  template:", 1))
    asked = (str(own), *PAPER, "--rate", "50", "--queries", "2000", "-o", "json")
    named = run(*asked, "--policy", "kairos")
    assert [json.loads(each.stdout)["policy"] for each in (run(*asked), named)] == ["fcfs", "kairos"]
    assert "rm2: --policy kairos counts, not spec.dispatch.policy fcfs" in named.stderr


def test_a_load_that_does_not_hold_is_exit_3_and_shows_who_is_late() -> None:
    document = answer(*PAPER, "--rate", "250", "--queries", "3000", code=3)
    assert document["holds"] is False
    assert document["violationRatio"] > 0.01


def test_the_highest_load_that_holds() -> None:
    document = answer(*PAPER, "--find-allowable", "--queries", "5000")
    assert 120 < document["allowableQPS"] < document["fluidBoundQPS"] == pytest.approx(143.3, abs=0.1)
    assert document["violationRatio"] <= 0.01
    assert document["seeds"] == [11, 12, 13]
    assert document["criterion"] == "confident"
    assert len(document["runs"]) == 3


def test_one_seed_is_judged_alone() -> None:
    document = answer(*PAPER, "--find-allowable", "--queries", "3000", "--seeds", "1", "--seed", "5")
    assert (document["seeds"], document["criterion"]) == ([5], "per-seed")
    assert document["allowableQPS"] > 120


def test_the_same_seeds_give_the_same_answer_on_any_number_of_threads() -> None:
    first = answer(*PAPER, "--find-allowable", "--queries", "500", "--jobs", "1")
    assert answer(*PAPER, "--find-allowable", "--queries", "500", "--jobs", "4") == first
    assert answer(*PAPER, "--find-allowable", "--queries", "500", "--seed", "20") != first


def test_the_plans_counts_are_the_default() -> None:
    assert answer("--budget", "0.7", "--rate", "5", "--queries", "500")["counts"]["r5n.large"] == 1


@pytest.mark.parametrize("policy", DISPATCH_POLICIES.names)
def test_every_policy_can_be_simulated(policy: str) -> None:
    document = answer(*PAPER, "--rate", "5", "--queries", "300", "--policy", policy, "--slo", "2s")
    assert document["policy"] == policy


def test_flags_override_the_file() -> None:
    small = ("--rate", "60", "--queries", "2000")
    assert answer(*PAPER, *small, "--slo", "5s")["sloSeconds"] == 5
    assert answer(*PAPER, *small, "--percentile", "95")["percentile"] == 95
    mixed = answer(*PAPER, *small, "--batches", "normal:165,16")
    assert mixed["violationsByBatch"][-1]["largestBatch"] < 300


def test_batches_from_a_file(tmp_path: Path) -> None:
    mix = tmp_path / "mix.csv"
    mix.write_text("batch,weight\n10,3\n50,1\n", encoding="utf-8")
    document = answer(*PAPER, "--rate", "60", "--queries", "500", "--batches", str(mix))
    assert document["violationsByBatch"][-1]["largestBatch"] == 50


def test_the_table_has_units() -> None:
    result = run(RM2, *PAPER, "--rate", "60", "--queries", "500")
    for part in ("under hetserve", "holds at 60.0 q/s", "350 ms", "BUSY %", "LATE %", "$/H", "BATCH (ITEMS)"):
        assert part in result.stdout
    assert "\x1b" not in result.stdout, "escape codes outside a terminal"


def test_yaml_says_the_same_as_json() -> None:
    arguments = (*PAPER, "--rate", "60", "--queries", "500")
    assert yaml.safe_load(run(RM2, *arguments, "-o", "yaml").stdout) == answer(*arguments)


@pytest.mark.parametrize("ending", ["png", "svg"])
def test_a_picture(tmp_path: Path, ending: str) -> None:
    picture = tmp_path / f"out.{ending}"
    run(RM2, *PAPER, "--rate", "60", "--queries", "500", "--plot", str(picture))
    assert picture.read_bytes().startswith(b"\x89PNG" if ending == "png" else b"<?xml")


BAD = {
    "neither a rate nor a search for one": ((), "give either --rate"),
    "both": (("--rate", "5", "--find-allowable"), "give either --rate"),
    "a rate of zero": (("--rate", "0"), "'0' must be a number above 0"),
    "a rate that is no number": (("--rate", "nan"), "must be a number above 0"),
    "an unknown type": (("--rate", "5", "--counts", "p5=1"), "--counts p5: no such instance type for rm2"),
    "counts without a number": (("--rate", "5", "--counts", "r5n.large"), "'r5n.large' is not TYPE=NUMBER"),
    "negative counts": (("--rate", "5", "--counts", "r5n.large=-1"), "is not TYPE=NUMBER"),
    "a type twice": (("--rate", "5", "--counts", "t3.xlarge=1,t3.xlarge=2"), "t3.xlarge is there twice"),
    "no instance": (("--rate", "5", "--counts", "r5n.large=0"), "holds no instance"),
    "an unknown mix": (("--rate", "5", "--batches", "zipf"), "batches 'zipf': no such file"),
    "a mix without width": (("--rate", "5", "--batches", "normal:5,0"), "the deviation a positive number"),
    "an unknown policy": (("--rate", "5", "--policy", "best"), "'best' is not one of"),
    "too few queries": (("--rate", "5", "--queries", "1"), "1 is not in the range"),
    "a percentile of 100": (("--rate", "5", "--percentile", "100"), "'100' must be above 50 and below 100"),
    "an unknown base": (("--rate", "5", "--base", "p5"), "--base p5: no such type for rm2"),
    "a picture of another kind": (("--rate", "5", "--plot", "x.gif"), "must end in .png or .svg"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_exit_2_and_named(case: str) -> None:
    arguments, message = BAD[case]
    result = run(RM2, *arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert message in result.stderr


def test_a_weight_in_a_file_of_batches_that_is_no_number_is_named(tmp_path: Path) -> None:
    mix = tmp_path / "mix.csv"
    mix.write_text("batch,weight\n10,3\n50,nan\n", encoding="utf-8")
    result = run(RM2, "--rate", "5", "--batches", str(mix))
    assert (result.exit_code, result.stdout) == (2, "")
    assert f"{mix}, line 3, column weight: 'nan'" in result.stderr


def test_a_file_of_batches_without_any_is_named(tmp_path: Path) -> None:
    mix = tmp_path / "mix.csv"
    mix.write_text("batch,weight\n10,0\n", encoding="utf-8")
    result = run(RM2, "--rate", "5", "--batches", str(mix))
    assert (result.exit_code, result.stdout) == (2, "")
    assert f"{mix}: the mix of batch sizes is empty" in result.stderr


def test_a_service_that_cannot_be_planned_is_exit_3_without_a_picture(tmp_path: Path) -> None:
    result = run(RM2, "--rate", "5", "--budget", "0.1", "--plot", str(tmp_path / "x.png"))
    assert (result.exit_code, result.stdout) == (3, "")
    assert "Error: rm2: BudgetTooLow: " in result.stderr
    assert not list(tmp_path.iterdir())


def test_a_configuration_that_can_hold_nothing_is_exit_3() -> None:
    document = answer("--find-allowable", "--counts", "t3.xlarge=2", "--queries", "300", code=3)
    assert (document["allowableQPS"], document["violationRatio"], document["runs"]) == (0, None, [])


def test_a_picture_that_cannot_be_written_is_exit_2(tmp_path: Path) -> None:
    result = run(RM2, *PAPER, "--rate", "60", "--queries", "500", "--plot", str(tmp_path / "no" / "x.png"))
    assert (result.exit_code, result.stdout) == (2, "")
    assert "cannot be written" in result.stderr
