"""Output of `hetserve plan`: JSON and YAML keys, table, figure."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from effort import spread
from hetserve.cli.app import app
from plan_command import HETSEV, RM2, answer, run

BOTH = {"service", "model", "objective", "feasible", "reason", "message", "planner", "counts", "cost", "runnerUp"}
BOTH |= {"ranking", "refusals", "verdict", "nextStep", "maxSlowdown", "types", "sharing"}
FLOW = {"tried", "heldQPS", "ceilingQPS", "floorCost", "flow", "prices", "cheaper"}
FLOW |= {"simulatedQPS", "evaluated", "seed"}


def test_the_keys_of_both_objectives_are_those_that_the_help_names() -> None:
    throughput, least_cost = answer(RM2), answer(HETSEV, "--service", "ssd-resnet50")
    assert set(throughput) == BOTH | FLOW | {"boundQPS"}
    assert set(least_cost) == BOTH | FLOW | {"capacityQPS"}
    by_trial, by_ilp = (
        answer(RM2, "--planner", "kairos-plus", "--budget", "0.7"),
        answer(HETSEV, "--service", "ssd-resnet50", "--planner", "ilp"),
    )
    assert set(by_trial) == BOTH | {"boundQPS", "simulatedQPS", "evaluated", "seed"}
    assert set(by_ilp) == BOTH | {"capacityQPS"}
    refused = json.loads(run(RM2, "--budget", "0.3", "-o", "json").stdout)
    assert set(refused) == BOTH | {"boundQPS"}
    assert (refused["boundQPS"], refused["nextStep"], refused["runnerUp"]) == (None, None, None)
    text = CliRunner().invoke(app, ["plan", "--help"]).output
    nested = (*(throughput[key] for key in ("nextStep", "runnerUp", "cheaper", "prices")), throughput["flow"][0])
    (gpu, _), sharing = least_cost["types"].values(), least_cost["sharing"]
    keys = BOTH.union(throughput, least_cost, throughput["prices"]["binding"], *nested, gpu, sharing, sharing["shared"])
    for key in keys:
        assert key in text, f"{key} is not in the help"


TIGHT = ("--max-slowdown", "1.25")
"""One type carries each load of the samples."""
PICTURES = {
    "the ranking, tried": (
        (RM2,),
        ("held in simulation", "1xg4dn.xlarge+13xr5n.large", "143.3 / ", "seed 20261", "no mix holds more (dashed)"),
    ),
    "the ranking, simulated": (
        (RM2, "--planner", "kairos-plus", "--budget", "0.7"),
        ("held in simulation", "1xg4dn.xlarge+1xr5n.large", "seed 11"),
    ),
    "the ranking by bounds": ((RM2, "--planner", "kairos"), ("upper bound (pale)", "dashed: the budget")),
    "the least cost, tried": (
        (HETSEV, "--service", "ssd-resnet50", "--budget", "5", *TIGHT),
        (
            "chosen: ",
            "cheapest single type: ",
            "load: 46.0 q/s",
            "no mix that carries it costs less: ",
            "budget: 5 $/h",
        ),
    ),
    "the least cost": (
        (HETSEV, "--service", "transformer", "--planner", "ilp", "--budget", "5", *TIGHT),
        ("chosen: ", "runner-up: ", "cheapest single type: ", "next step: ", "at 80% saturation: ", "budget: 5 $/h"),
    ),
    "both objectives": (
        (HETSEV, RM2, "--planner", "homogeneous", *TIGHT),
        ("transformer: ", "rm2: ", "chosen, cheapest single type: ", "dashed: the budget"),
    ),
    "only what is feasible": ((HETSEV, "--planner", "ilp", "--slo", "120ms"), ("resnet50: ",)),
}


@pytest.mark.parametrize("case", spread(tuple(PICTURES), 3))
def test_a_plan_is_drawn_and_its_picture_says(case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from matplotlib import rcParams

    monkeypatch.setitem(rcParams, "svg.fonttype", "none")  # texts as texts, not as outlines
    arguments, words = PICTURES[case]
    assert run(*arguments, "--plot", str(tmp_path / "a.svg")).stdout
    text = (tmp_path / "a.svg").read_text(encoding="utf-8")
    assert [word for word in words if word not in text] == []


@pytest.mark.deep
def test_a_picture_can_be_a_bitmap_and_where_nothing_is_feasible_there_is_none(tmp_path: Path) -> None:
    without = run(RM2, "--planner", "kairos").stdout
    for name in ("a.png", "a.svg", "b.svg"):
        with_picture = run(RM2, "--planner", "kairos", "--plot", str(tmp_path / name))
        assert (with_picture.exit_code, with_picture.stdout) == (0, without)
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes(), "the same plan is drawn otherwise"
    assert run(RM2, "--budget", "0.3", "--plot", str(tmp_path / "b.png")).exit_code == 3
    assert not (tmp_path / "b.png").exists()


def test_a_picture_that_cannot_be_made_is_bad_input_and_nothing_else_is_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = run(RM2, "--planner", "kairos", "--plot", str(tmp_path / "no folder" / "a.png"))
    assert (gone.exit_code, gone.stdout) == (2, "")
    assert "a.png: cannot be written: No such file or directory" in gone.stderr
    monkeypatch.delitem(sys.modules, "hetserve.cli.capacity.plan.plot", raising=False)
    monkeypatch.setitem(sys.modules, "matplotlib.axes", None)
    missing = run(RM2, "--planner", "kairos", "--plot", str(tmp_path / "a.png"))
    assert (missing.exit_code, missing.stdout) == (2, "")
    assert missing.stderr == "Error: this needs matplotlib, which is not installed: pip install 'hetserve[plot]'\n"


def test_one_service_is_an_object_several_are_items() -> None:
    one_type = ("--planner", "homogeneous", *TIGHT)
    assert answer(HETSEV, "--service", "resnet50", *one_type)["service"] == "resnet50"
    assert answer(HETSEV, "--service", "default/resnet50", *one_type)["service"] == "resnet50"
    assert len(answer(HETSEV, RM2, *one_type)["items"]) == 5


def test_yaml_says_the_same_as_json() -> None:
    small = (RM2, "--budget", "0.6")
    assert yaml.safe_load(run(*small, "-o", "yaml").stdout) == answer(*small)


def test_the_table_has_units_ranking_and_reasons() -> None:
    text = run(RM2).stdout
    for part in (
        "rm2: 1xg4dn.xlarge+13xr5n.large",
        "q/s, upper bound 143.3 q/s, by planner flow",
        "serves 97 % of the queries: batches 10 to 770",
        "prices",
        "for less",
        "$/H EACH",
        "BOUND Q/S",
        "* 1  1xg4dn.xlarge+13xr5n.large",
        "too slow above batch 390 for 350 ms",
        "runner-up",
    ):
        assert part in text
    assert "\x1b" not in text, "escape codes outside a terminal"
    assert "SIMULATED Q/S" in text
    assert "SIMULATED Q/S" not in run(RM2, "--planner", "kairos").stdout
