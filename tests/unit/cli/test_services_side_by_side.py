"""A service that cannot be planned does not affect the answers for others; every form reports it."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from effort import spread
from hetserve.cli.app import COMMANDS as COMMANDS_OF_THE_GROUP
from hetserve.cli.app import app
from hetserve.planning.formatting import latency_text
from testing.data import REPOSITORY

SAMPLES = REPOSITORY / "manifests" / "samples"
RM2, HETSEV = str(SAMPLES / "rm2.yaml"), str(SAMPLES / "hetsev.yaml")
QUICK = ("--queries", "500", "--seeds", "1")
COMMANDS = {
    "plan": ("--budget", "0.7"),
    "simulate": ("--budget", "0.7", "--rate", "5", *QUICK),
    "compare": ("--planners", "kairos", "--policies", "fcfs", *QUICK),
    "search": ("--evaluations", "1", *QUICK),
}


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, arguments, catch_exceptions=False)


@pytest.fixture
def both(tmp_path: Path) -> str:
    """The sample, and before its service one of a model that nothing was measured for."""
    text = Path(RM2).read_text(encoding="utf-8")
    start = text.index("apiVersion: hetserve.io/v1alpha1\nkind: InferenceService")
    other = (
        text[start:].replace("name: rm2", "name: gone", 1).replace("model: {name: rm2}", "model: {name: unheard-of}")
    )
    path = tmp_path / "both.yaml"
    path.write_text(f"{text[:start]}{other.rstrip()}\n---\n{text[start:]}", encoding="utf-8")
    return str(path)


@pytest.mark.parametrize("command", spread(tuple(COMMANDS), 2))
def test_the_other_services_are_answered(command: str, both: str) -> None:
    result = run(command, both, *COMMANDS[command], "-o", "json")
    assert result.exit_code == 3
    gone, rm2 = json.loads(result.stdout)["items"]
    assert (gone["service"], gone["feasible"], gone["reason"]) == ("gone", False, "NoInstanceTypes")
    assert "unheard-of" in gone["message"]
    assert rm2["service"] == "rm2"
    assert rm2.get("feasible", True)
    assert "Error: gone: NoInstanceTypes: " in result.stderr
    text = run(command, both, *COMMANDS[command])
    assert text.exit_code == 3
    assert text.stdout.startswith("rm2")
    assert "gone" not in text.stdout
    assert text.stderr.startswith("Error: gone: NoInstanceTypes: ")


@pytest.mark.parametrize("form", ["json", "yaml"])
@pytest.mark.parametrize("command", COMMANDS)
def test_an_slo_that_nobody_meets_is_a_document_too(command: str, form: str) -> None:
    result = run(command, RM2, *COMMANDS[command], "--slo", "1ms", "-o", form)
    assert result.exit_code == 3
    document: Any = yaml.safe_load(result.stdout)
    assert (document["service"], document["model"]) == ("rm2", "rm2")
    said = document["infeasible"][0] if command == "compare" else document
    assert said["reason"] == "NoTypeMeetsSLO"
    assert "g4dn.xlarge: 261.2 ms" in said["message"]


def test_no_picture_is_drawn_of_nothing(tmp_path: Path) -> None:
    for command, given in COMMANDS.items():
        result = run(command, RM2, *given, "--slo", "1ms", "--plot", str(tmp_path / "x.png"))
        assert (result.exit_code, list(tmp_path.iterdir())) == (3, [])


@pytest.mark.parametrize("command", ["plan", "search"])
def test_a_budget_that_is_missing_is_bad_input_whoever_needs_it(command: str) -> None:
    given = ("--planner", "kairos-plus") if command == "plan" else COMMANDS["search"]
    result = run(command, HETSEV, *given)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "SpecInvalid: " in result.stderr
    assert "set spec.budget.hourly" in result.stderr
    assert "planner kairos " not in result.stderr


def test_a_space_too_large_to_list_is_searched_by_its_bounds() -> None:
    given = ("--budget", "20", "--policy", "fcfs", *COMMANDS["search"])
    result = run("search", RM2, *given, "-o", "json")
    assert result.exit_code == 0, result.stderr
    found = json.loads(result.stdout)["results"][0]
    assert (found["space"], found["evaluations"]) == (1_208_985, 1)


def test_a_method_that_lists_its_space_is_refused_where_it_is_too_large() -> None:
    result = run("search", RM2, "--budget", "100", "--method", "random", *COMMANDS["search"])
    assert (result.exit_code, result.stdout) == (2, "")
    assert "rm2: SpecInvalid: the budget of 100 $/h buys 742834916 configurations, more than the 1,000,000 that" in (
        result.stderr
    )
    assert "--method kairos-plus" in result.stderr


OPTIONS = {
    "a budget of 0": ("plan", RM2, "--budget", "0"),
    "an SLO of nothing": ("simulate", RM2, "--slo", "0ms", "--rate", "5"),
    "an unknown option": ("compare", RM2, "--nothing"),
    "no file": ("search",),
    "an unknown command": ("plann",),
    "an unknown option of the group": ("--nothing",),
}


@pytest.mark.parametrize("case", OPTIONS)
def test_a_bad_option_is_one_line_like_a_bad_file(case: str) -> None:
    result = run(*OPTIONS[case])
    assert (result.exit_code, result.stdout) == (2, "")
    assert re.fullmatch(r"Error: [^\n]+\n", result.stderr), result.stderr


def test_no_command_at_all_shows_the_help() -> None:
    assert "Usage: " in run().output


def test_the_mix_and_the_percentile_of_a_plan_can_be_overridden() -> None:
    narrow = json.loads(run("plan", RM2, "--planner", "kairos", "--batches", "normal:165,16", "-o", "json").stdout)
    plain = json.loads(run("plan", RM2, "--planner", "kairos", "-o", "json").stdout)
    assert narrow["boundQPS"] > 1.2 * plain["boundQPS"]
    strict = run("plan", RM2, "--planner", "kairos", "--percentile", "95")
    assert "95 % within 350 ms" in strict.stdout


def test_the_rate_of_one_type_scaled_to_the_whole_budget_is_a_key() -> None:
    alone = json.loads(run("plan", RM2, "--planner", "homogeneous", "-o", "json").stdout)
    assert alone["scaledQPS"] == pytest.approx(71.569, abs=1e-3)
    compared = ("compare", RM2, "--planners", "kairos,homogeneous", "--policies", "fcfs", *QUICK)
    kairos, one_type = json.loads(run(*compared, "-o", "json").stdout)["results"]
    assert one_type["scaledQPS"] == alone["scaledQPS"]
    assert "scaledQPS" not in kairos
    assert "71.6 q/s if all the budget were spent on it" in " ".join(run(*compared).stdout.split())


def test_planners_that_choose_the_same_share_a_row_and_figures_are_rounded() -> None:
    given = ("compare", RM2, "--planners", "kairos,exhaustive,homogeneous", "--policies", "fcfs", *QUICK)
    text = run(*given).stdout
    assert len(re.findall(r"kairos, exhaustive", text)) >= 2
    assert text.count("1xg4dn.xlarge+13xr5n.large") == 1
    rows = json.loads(run(*given, "-o", "json").stdout)["results"]
    assert [row["planner"] for row in rows] == ["kairos", "exhaustive", "homogeneous"]
    for row in rows:
        for key in ("boundQPS", "fluidBoundQPS", "allowableQPS"):
            assert row[key] == round(row[key], 6), key


def test_a_hopeless_load_is_reported_in_plain_numbers() -> None:
    text = run(
        "simulate", RM2, "--rate", "100000", "--queries", "10000", "--policy", "fcfs", "--counts", "g4dn.xlarge=1"
    ).stdout
    assert not re.search(r"\de\+\d", text), text
    assert latency_text(41_910) == "41,910 s"


def test_every_command_of_the_help_can_be_called() -> None:
    listed = run("--help").output
    for name in COMMANDS_OF_THE_GROUP:
        assert f"Usage: app {name}" in run(name, "--help").output
        assert f"  {name} " in listed
