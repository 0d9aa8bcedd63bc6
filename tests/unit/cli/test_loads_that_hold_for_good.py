"""An allowable load also holds in longer runs, and no run is too short for overload to show."""

from __future__ import annotations

import json
from typing import Any

import pytest
from click.testing import CliRunner, Result

from hetserve.cli.app import app
from testing.data import REPOSITORY

RM2 = str(REPOSITORY / "manifests" / "samples" / "rm2.yaml")
STARVED = ("--budget", "10", "--counts", "c5n.2xlarge=1,g4dn.xlarge=2,r5n.large=57")


def run(command: str, *arguments: str) -> Result:
    return CliRunner().invoke(app, [command, RM2, *arguments], catch_exceptions=False)


def answer(command: str, *arguments: str, code: int = 0) -> Any:
    result = run(command, *arguments, "-o", "json")
    assert result.exit_code == code, result.stderr
    return json.loads(result.stdout)


@pytest.mark.parametrize("queries", ["40000", pytest.param("160000", marks=pytest.mark.deep)])
def test_a_load_that_starves_a_few_is_unstable_however_long_the_run(queries: str) -> None:
    document = answer("simulate", *STARVED, "--rate", "614", "--queries", queries, code=3)
    assert document["violationRatio"] < 0.01, "the case proves nothing where too many are late"
    assert (document["holds"], document["unstable"]) == (False, True)
    assert document["offeredQPS"] > document["ceilingQPS"]


def test_the_table_gives_the_numbers_of_a_backlog_that_grows() -> None:
    text = " ".join(run("simulate", *STARVED, "--rate", "614", "--queries", "50000").stdout.split())
    assert "does not hold at 614.0 q/s: unstable: the backlog grows, from " in text
    assert "in the long run the instances serve less than 602.5 q/s" in text


@pytest.mark.deep
def test_what_is_found_is_below_the_ceiling_and_holds_on_a_longer_run() -> None:
    found = answer("simulate", *STARVED, "--find-allowable", "--queries", "40000")
    assert 0.9 * found["ceilingQPS"] < found["allowableQPS"] < found["ceilingQPS"]
    assert found["unstableFromQPS"] is None or found["unstableFromQPS"] > found["allowableQPS"]
    rate = str(0.99 * found["allowableQPS"])
    assert answer("simulate", *STARVED, "--rate", rate, "--queries", "160000")["unstable"] is False


@pytest.mark.parametrize("slo", ["5s", pytest.param("10s", marks=pytest.mark.deep)])
def test_no_policy_holds_more_than_the_ceiling_at_a_long_slo(slo: str) -> None:
    few = ("--slo", slo, "--queries", "2000", "--planners", "homogeneous", "--policies", "fcfs,hetserve")
    document = answer("compare", *few)
    assert document["queries"] == pytest.approx(20 * document["sloSeconds"] * 157.5, rel=0.01)
    for row in document["results"]:
        assert 0.9 * row["ceilingQPS"] < row["allowableQPS"] < row["ceilingQPS"]


def test_a_search_is_long_enough_for_the_highest_bound() -> None:
    small = ("--slo", "5s", "--queries", "1000", "--evaluations", "2", "--seeds", "1", "--policy", "fcfs")
    document = answer("search", *small)
    assert document["queries"] > 20 * 5 * 150
    assert all(one["allowableQPS"] < 160 for one in document["results"][0]["trace"])


def test_a_run_that_was_asked_too_short_says_so() -> None:
    text = " ".join(
        run("simulate", "--slo", "20s", "--rate", "100", "--queries", "1000", "--counts", "r5n.large=13").stdout.split()
    )
    assert "40000 queries per run (1000 asked: overload takes longer to show)" in text


TOO_LONG = {
    "simulate at a rate": ("simulate", "--slo", "1h", "--rate", "100"),
    "simulate to find": ("simulate", "--slo", "1h", "--find-allowable"),
    "compare": ("compare", "--slo", "10m", "--planners", "homogeneous"),
    "search": ("search", "--slo", "10m"),
    "plan under a policy": ("plan", "--slo", "1m", "--planner", "robust", "--policy", "hetserve"),
}


@pytest.mark.parametrize("arguments", TOO_LONG.values(), ids=TOO_LONG.keys())
def test_a_run_that_would_be_endless_is_refused_in_words(arguments: tuple[str, ...]) -> None:
    result = run(*arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "overload takes 20 x the SLO of " in result.stderr
    assert "of which this command simulates at most " in result.stderr


def test_a_plan_by_a_policy_claims_less_than_the_ceiling() -> None:
    planned = answer("plan", "--budget", "1.2", "--policy", "hetserve")
    counts = ",".join(f"{name}={count}" for name, count in planned["counts"].items())
    given = ("--budget", "1.2", "--counts", counts, "--rate", "10", "--queries", "2000")
    assert planned["simulatedQPS"] < answer("simulate", *given)["ceilingQPS"]
