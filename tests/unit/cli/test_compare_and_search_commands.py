from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from hetserve.cli.app import app
from testing.data import REPOSITORY

RM2 = str(REPOSITORY / "manifests" / "samples" / "rm2.yaml")
SMALL = ("--queries", "2000", "--seeds", "1")


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, [*arguments], catch_exceptions=False)


def answer(*arguments: str) -> Any:
    result = run(*arguments, "-o", "json")
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout)


def test_planners_and_policies_side_by_side(tmp_path: Path) -> None:
    picture = tmp_path / "out.svg"
    grid = ("--planners", "kairos,homogeneous", "--policies", "hetserve,kairos")
    document = answer("compare", RM2, *SMALL, *grid, "--plot", str(picture))
    rows = {(row["planner"], row["policy"]): row for row in document["results"]}
    assert set(rows) == {(p, d) for p in ("kairos", "homogeneous") for d in ("hetserve", "kairos")}
    assert rows["kairos", "hetserve"]["allowableQPS"] > rows["homogeneous", "hetserve"]["allowableQPS"]
    assert document["best"] == {"planner": "kairos", "policy": "hetserve"}
    assert all(0 <= row["violationRatio"] <= 0.01 for row in rows.values())
    assert rows["kairos", "kairos"]["cost"] == "2.463"
    assert (document["seeds"], document["queries"], document["infeasible"]) == ([11], 2000, [])
    text = picture.read_text(encoding="utf-8")
    assert text.startswith("<?xml")


def test_compare_as_a_table() -> None:
    text = run("compare", RM2, *SMALL, "--planners", "kairos", "--policies", "hetserve").stdout
    for part in ("planners x dispatch policies", "ALLOWABLE Q/S", "WORST DELAY", "best", "1xg4dn.xlarge+13xr5n.large"):
        assert part in text


def test_compare_says_what_is_infeasible_and_ends_with_3() -> None:
    result = run("compare", RM2, *SMALL, "--budget", "0.1", "--planners", "kairos")
    assert result.exit_code == 3
    assert result.stdout == ""
    assert result.stderr.startswith("Error: rm2: kairos: BudgetTooLow")
    document = json.loads(run("compare", RM2, *SMALL, "--budget", "0.1", "-o", "json").stdout)
    assert {entry["planner"] for entry in document["infeasible"]} == {"flow", "kairos", "homogeneous"}


def test_compare_notes_a_planner_that_has_no_plan_beside_those_that_have() -> None:
    given = ("--planners", "kairos,exhaustive", "--policies", "hetserve", "--budget", "11.5")
    result = run("compare", RM2, *SMALL, *given)
    assert result.exit_code == 0
    assert result.stderr.startswith("note: rm2: exhaustive: SpecInvalid: about 1.34e+05 configurations")
    assert "exhaustive" in result.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("compare", RM2, "--planners", "magic"), "'--planners': 'magic' is none of flow, "),
        (("compare", RM2, "--policies", "magic"), "'magic' is none of "),
        (("search", RM2, "--method", "magic"), "'magic' is none of "),
        (("search", RM2, "--evaluations", "0"), "0 is not in the range"),
        (("search", str(REPOSITORY / "manifests" / "samples" / "hetsev.yaml")), "a search needs a budget"),
    ],
)
def test_bad_input_is_exit_2_and_named(arguments: tuple[str, ...], message: str) -> None:
    result = run(*arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert message in result.stderr


@pytest.mark.deep
def test_kairos_plus_needs_few_evaluations(tmp_path: Path) -> None:
    picture = tmp_path / "out.png"
    search = ("search", RM2, *SMALL, "--method", "kairos-plus,random", "--evaluations", "6", "--plot", str(picture))
    document = answer(*search)
    ours, random = document["results"]
    assert ours["best"]["counts"] == {"c5n.2xlarge": 0, "g4dn.xlarge": 1, "r5n.large": 13, "t3.xlarge": 0}
    assert ours["evaluationsUntilBest"] == 1
    assert ours["evaluations"] == len(ours["trace"]) <= 6
    assert random["evaluations"] == 6
    assert random["best"]["allowableQPS"] <= ours["best"]["allowableQPS"]
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_a_search_is_repeatable_and_its_seed_matters() -> None:
    search = ("search", RM2, *SMALL, "--queries", "1000", "--method", "random", "--evaluations", "3")
    found = answer(*search)
    assert answer(*search) == found
    assert answer(*search, "--search-seed", "9")["results"] != found["results"]


def test_search_as_a_table() -> None:
    text = run("search", RM2, *SMALL, "--method", "random", "--evaluations", "3").stdout
    for part in ("rm2: search", "evaluation", "ALLOWABLE Q/S", "BEST SO FAR Q/S", "331 configurations"):
        assert part in text
