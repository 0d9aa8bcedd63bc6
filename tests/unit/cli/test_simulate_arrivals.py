"""`hetserve simulate --arrivals --warm-up`: arrivals, and which queries count."""

from __future__ import annotations

import json
from itertools import accumulate
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from hetserve.cli.app import app
from testing.data import REPOSITORY

RM2 = str(REPOSITORY / "manifests" / "samples" / "rm2.yaml")
PAPER = ("--counts", "g4dn.xlarge=1,r5n.large=13")
QUERIES = 2000


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["simulate", RM2, *PAPER, *arguments], catch_exceptions=False)


def answer(*arguments: str) -> Any:
    result = run(*arguments, "-o", "json")
    assert result.exit_code in (0, 3), result.stderr
    return json.loads(result.stdout)


def recorded(folder: Path, gaps: list[float], batch: int | None = None) -> str:
    """A file of queries at these gaps [s], over and over."""
    times = accumulate(gaps[number % len(gaps)] for number in range(QUERIES))
    lines = ["time" if batch is None else "time,batch"]
    lines += [f"{time:.6f}" if batch is None else f"{time:.6f},{batch}" for time in times]
    path = folder / "queries.csv"
    path.write_text("\n".join(lines), encoding="utf-8")
    return str(path)


def test_a_recording_is_replayed_at_the_rate_it_was_recorded_at(tmp_path: Path) -> None:
    document = answer("--arrivals", recorded(tmp_path, [0.01]))
    assert document["offeredQPS"] == pytest.approx(100, rel=1e-3)
    assert (document["queries"], document["arrivals"], document["holds"]) == (QUERIES, "recorded", True)
    assert document["runs"][0]["backlog"] is None, "the rate of a recording is not constant: no trend is judged"


def test_queries_that_came_in_bursts_are_late_at_a_rate_that_is_held_else(tmp_path: Path) -> None:
    even = answer("--arrivals", recorded(tmp_path, [0.01]))
    bursts = answer("--arrivals", recorded(tmp_path, [0.0] * 199 + [2.0]))
    assert bursts["offeredQPS"] == pytest.approx(even["offeredQPS"], rel=0.2)
    assert bursts["violationRatio"] > 0.1 > even["violationRatio"]


def test_recorded_batches_are_the_mix(tmp_path: Path) -> None:
    document = answer("--arrivals", recorded(tmp_path, [0.01], batch=10))
    assert [(one["smallestBatch"], one["largestBatch"]) for one in document["violationsByBatch"]] == [(10, 10)]


def test_the_highest_load_is_found_by_stretching_a_recording(tmp_path: Path) -> None:
    path = recorded(tmp_path, [0.01])
    found = answer("--arrivals", path, "--find-allowable")
    held = answer("--arrivals", path, "--rate", str(found["allowableQPS"]), "--seeds", "3")
    assert found["allowableQPS"] > 120
    assert held["violationRatio"] == found["violationRatio"]


def test_the_first_queries_can_be_left_out_of_the_count() -> None:
    document = answer("--rate", "100", "--queries", "3000", "--warm-up", "1000")
    assert document["warmUp"] == 1000
    assert sum(tenth["queries"] for tenth in document["violationsByBatch"]) == 2000


def test_gaps_of_whole_milliseconds_are_another_answer_than_a_poisson_process() -> None:
    drawn = [
        answer("--rate", "138", "--queries", "5000", "--arrivals", how) for how in ("exponential", "integer-poisson")
    ]
    assert [document["arrivals"] for document in drawn] == ["exponential", "integer-poisson"]
    assert drawn[0]["violationRatio"] != drawn[1]["violationRatio"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (
            ["--arrivals", "bursts", "--rate", "1"],
            "'bursts' is neither exponential nor integer-poisson nor bursty:BASE",
        ),
        (["--arrivals", "FILE", "--batches", "mixture"], "--batches and the column batch of --arrivals contradict"),
        (["--arrivals", "FILE", "--warm-up", "2000"], "--warm-up 2000: must be less than the 2000 queries of a run"),
        (["--warm-up", "9"], "give either --rate Q/S"),
    ],
)
def test_what_makes_no_sense_is_refused(tmp_path: Path, arguments: list[str], words: str) -> None:
    path = recorded(tmp_path, [0.01], batch=10)
    result = run(*(path if argument == "FILE" else argument for argument in arguments))
    assert result.exit_code == 2
    assert words in result.stderr


def test_bursts_and_ramps_come_at_their_own_rate_or_stretched() -> None:
    bursty = answer("--arrivals", "bursty:20,40,8", "--queries", "2000")
    assert (bursty["offeredQPS"], bursty["arrivals"]) == (60.0, "bursty:20,40,8")
    assert bursty["runs"][0]["backlog"] is not None
    stretched = answer("--arrivals", "bursty:20,40,8", "--queries", "2000", "--rate", "120")
    assert stretched["offeredQPS"] == 120.0
    ramp = answer("--arrivals", "ramp:20,100,10,0", "--queries", "480")
    assert ramp["offeredQPS"] == pytest.approx(60.0), "480 queries come within the 8 s that the ramp takes"
    assert (ramp["queries"], ramp["runs"][0]["backlog"]) == (480, None)


def test_numbers_of_arrivals_that_are_wrong_are_named() -> None:
    result = run("--arrivals", "bursty:20,-40,8", "--rate", "60")
    assert result.exit_code == 2
    assert "VAR -40 must be from 0 to 1e+09 queries/s; write bursty:BASE,VAR,CV2" in " ".join(result.stderr.split())
