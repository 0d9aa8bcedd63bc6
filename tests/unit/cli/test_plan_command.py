from __future__ import annotations

import json
import subprocess
import sys
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from hetserve.cli.app import app
from hetserve.testing.data import REPOSITORY

SAMPLES = REPOSITORY / "manifests" / "samples"
RM2 = str(SAMPLES / "rm2.yaml")
HETSEV = str(SAMPLES / "hetsev.yaml")


def run(*arguments: str, stdin: str | None = None) -> Result:
    return CliRunner().invoke(app, ["plan", *arguments], input=stdin, catch_exceptions=False)


def answer(*arguments: str) -> Any:
    result = run(*arguments, "-o", "json")
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout)


def test_rm2_as_json() -> None:
    document = answer(RM2, "--planner", "kairos")
    assert document["counts"] == {"g4dn.xlarge": 1, "c5n.2xlarge": 0, "r5n.large": 13, "t3.xlarge": 0}
    assert document["cost"] == "2.463"
    assert document["boundQPS"] == pytest.approx(143.18, abs=0.005)
    assert document["feasible"] is True
    assert (document["service"], document["model"]) == ("rm2", "rm2")
    assert (document["objective"], document["planner"], document["reason"]) == (
        "MaxThroughput",
        "kairos",
        "PlanFeasible",
    )
    assert document["runnerUp"]["why"] == "5.25 q/s less bound for 0.0174 $/h more"
    assert "evaluated" not in document
    assert len(document["ranking"]) == 10
    assert set(document["ranking"][0]) == {"counts", "cost", "boundQPS"}
    assert {refusal["subject"] for refusal in document["refusals"]} == {"c5n.2xlarge", "r5n.large", "t3.xlarge"}
    assert "capacityQPS" not in document
    assert document["verdict"]
    assert document["message"]


BOTH = {"service", "model", "objective", "feasible", "reason", "message", "planner", "counts", "cost", "runnerUp"}
BOTH |= {"ranking", "refusals", "verdict", "nextStep"}


def test_the_keys_of_both_objectives_are_those_that_are_documented() -> None:
    throughput, least_cost = answer(RM2), answer(HETSEV, "--service", "transformer")
    assert set(throughput) == BOTH | {"boundQPS", "simulatedQPS", "evaluated", "seed"}
    assert set(least_cost) == BOTH | {"capacityQPS"}
    refused = json.loads(run(RM2, "--budget", "0.3", "-o", "json").stdout)
    assert set(refused) == BOTH | {"boundQPS"}
    assert (refused["boundQPS"], refused["nextStep"], refused["runnerUp"]) == (None, None, None)
    text = CliRunner().invoke(app, ["plan", "--help"]).output
    page = (REPOSITORY / "docs" / "how-to-plan-capacity.md").read_text(encoding="utf-8")
    for key in BOTH | set(throughput) | set(least_cost) | set(throughput["nextStep"]) | set(throughput["runnerUp"]):
        assert key in text, f"{key} is not in the help"
        assert f"`{key}`" in page, f"{key} is not in the manual"


def test_the_next_step_says_what_it_costs_and_buys_and_what_would_run() -> None:
    step = answer(RM2)["nextStep"]
    counts = {"c5n.2xlarge": 0, "g4dn.xlarge": 1, "r5n.large": 14, "t3.xlarge": 0}
    assert step == {"extra": "0.112", "gainQPS": pytest.approx(9.855, abs=1e-3), "cost": "2.612", "proven": True} | {
        "counts": counts
    }
    richer = answer(RM2, "--budget", "2.612")
    assert richer["boundQPS"] == pytest.approx(answer(RM2)["boundQPS"] + step["gainQPS"])
    least_cost = answer(HETSEV, "--service", "transformer")
    assert float(least_cost["nextStep"]["cost"]) == pytest.approx(
        float(least_cost["cost"]) + float(least_cost["nextStep"]["extra"])
    )


def test_the_robust_planner_says_what_it_evaluated() -> None:
    document = answer(RM2)
    assert (document["planner"], document["counts"]["r5n.large"]) == ("robust", 13)
    assert "less throughput in simulation for 0.0174 $/h more" in document["runnerUp"]["why"]
    assert document["simulatedQPS"] == document["evaluated"][0]["simulatedQPS"] > 100
    assert set(document["evaluated"][0]) == {"counts", "cost", "boundQPS", "simulatedQPS"}
    assert document["ranking"] == answer(RM2, "--planner", "kairos")["ranking"]
    assert "it is the paper's pick too" in document["verdict"]


def test_a_planner_that_evaluates_can_do_so_under_the_policy_that_serves() -> None:
    document = answer(RM2, "--planner", "kairos-plus", "--policy", "hetserve")
    assert document["counts"]["r5n.large"] == 13
    assert document["simulatedQPS"] > 125, "the quick simulation says less than the policy holds"
    refused = run(RM2, "--planner", "kairos", "--policy", "hetserve")
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert "planner kairos evaluates nothing; choose --planner from kairos-plus" in refused.stderr
    least_cost = run(HETSEV, "--service", "resnet50", "--policy", "hetserve")
    assert "planner ilp evaluates nothing" in least_cost.stderr


def test_the_default_planner_evaluates_under_the_policy_that_is_named() -> None:
    document = answer(RM2, "--policy", "hetserve", "--budget", "0.7")
    assert document["planner"] == "robust"
    assert "(under the policy that serves;" in document["verdict"]


def test_the_seed_is_told_where_something_was_simulated_and_changes_what_held() -> None:
    default, other = answer(RM2), answer(RM2, "--seed", "7")
    assert (default["seed"], other["seed"]) == (20231, 7)
    assert [one["simulatedQPS"] for one in default["evaluated"]] != [one["simulatedQPS"] for one in other["evaluated"]]
    assert "seed" not in answer(RM2, "--planner", "kairos", "--seed", "7"), "a seed of a planner that draws nothing"
    exhaustive = answer(RM2, "--planner", "exhaustive")
    assert not {"seed", "simulatedQPS", "evaluated"} & set(exhaustive), "bounds are told as if they were simulated"


def test_the_seed_of_a_full_simulation_is_its_own() -> None:
    served = ("--policy", "kairos", "--budget", "0.6")
    assert (answer(RM2, *served)["seed"], answer(RM2, *served, "--seed", "5")["seed"]) == (11, 5)


PICTURES = {
    "the ranking, simulated": ((RM2,), ("held in simulation", "1xg4dn.xlarge+13xr5n.large", "143.2 / ", "seed 20231")),
    "the ranking by bounds": ((RM2, "--planner", "kairos"), ("upper bound (pale)", "dashed: the budget")),
    "the least cost": (
        (HETSEV, "--service", "ssd-resnet50", "--budget", "5"),
        ("chosen: ", "runner-up: ", "cheapest single type: ", "next step: ", "at 80% saturation: ", "budget: 5 $/h"),
    ),
    "both objectives": (
        (HETSEV, RM2, "--planner", "homogeneous"),
        ("transformer: ", "rm2: ", "chosen, cheapest single type: ", "dashed: the budget"),
    ),
    "only what is feasible": ((HETSEV, "--slo", "120ms"), ("resnet50: ",)),
}


@pytest.mark.parametrize("case", PICTURES)
def test_a_plan_is_drawn_and_its_picture_says(case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from matplotlib import rcParams

    monkeypatch.setitem(rcParams, "svg.fonttype", "none")  # texts as texts, not as outlines
    arguments, words = PICTURES[case]
    assert run(*arguments, "--plot", str(tmp_path / "a.svg")).stdout
    text = (tmp_path / "a.svg").read_text(encoding="utf-8")
    assert [word for word in words if word not in text] == []


def test_a_picture_can_be_a_bitmap_and_where_nothing_is_feasible_there_is_none(tmp_path: Path) -> None:
    for name in ("a.png", "a.svg", "b.svg"):
        with_picture = run(RM2, "--planner", "kairos", "--plot", str(tmp_path / name))
        assert (with_picture.exit_code, with_picture.stdout) == (0, run(RM2, "--planner", "kairos").stdout)
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
    monkeypatch.delitem(sys.modules, "hetserve.cli.plan_plot", raising=False)
    monkeypatch.delitem(sys.modules, "hetserve.cli.plan_plot_cost", raising=False)
    monkeypatch.setitem(sys.modules, "matplotlib.axes", None)
    missing = run(RM2, "--planner", "kairos", "--plot", str(tmp_path / "a.png"))
    assert (missing.exit_code, missing.stdout) == (2, "")
    assert missing.stderr == "error: --plot needs matplotlib.axes: install hetserve[plot]\n"


def test_hetsev_shares_gpus_and_uses_both_types() -> None:
    plans = {plan["service"]: plan for plan in answer(HETSEV)["items"]}
    assert set(plans) == {"resnet50", "inception-v3", "ssd-resnet50", "transformer"}
    assert sum(sum(plan["counts"].values()) for plan in plans.values()) == 34
    assert any(all(plan["counts"].values()) for plan in plans.values())
    assert all("capacityQPS" in plan and "boundQPS" not in plan for plan in plans.values())


def test_one_service_is_an_object_several_are_items() -> None:
    assert answer(HETSEV, "--service", "resnet50")["service"] == "resnet50"
    assert answer(HETSEV, "--service", "default/resnet50")["service"] == "resnet50"
    assert len(answer(HETSEV, RM2)["items"]) == 5


def test_yaml_says_the_same_as_json() -> None:
    assert yaml.safe_load(run(RM2, "-o", "yaml").stdout) == answer(RM2)


def test_the_table_has_units_ranking_and_reasons() -> None:
    text = run(RM2).stdout
    for part in (
        "rm2: 1xg4dn.xlarge+13xr5n.large",
        "2.463 $/h, upper bound 143.2 q/s",
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


def test_stdin() -> None:
    assert run("-", stdin=(SAMPLES / "rm2.yaml").read_text(encoding="utf-8")).exit_code == 0


def test_flags_override_the_file() -> None:
    assert answer(RM2, "--budget", "1.052")["cost"] <= "1.052"
    assert answer(RM2, "--slo", "900ms")["counts"]["g4dn.xlarge"] == 0
    assert answer(RM2, "--slo", "900ms", "--base", "g4dn.xlarge")["counts"]["g4dn.xlarge"] >= 1
    full = answer(HETSEV, "--service", "resnet50", "--saturation-threshold", "1")
    assert full["counts"]["hetsev-t4"] == 7
    assert answer(HETSEV, "--service", "resnet50", "--launch-weight", "0")["planner"] == "ilp"


def test_wanted_instances_are_held_and_a_flag_overrides_the_types() -> None:
    assert answer(RM2, "--min-instances", "g4dn.xlarge=2,t3.xlarge=1")["counts"]["g4dn.xlarge"] >= 2
    wanted = edited(
        'price: {hourly: "0.526", per: Instance}', 'minInstances: 2\n  price: {hourly: "0.526", per: Instance}'
    )
    document = json.loads(run("-", "-o", "json", stdin=wanted).stdout)
    assert document["counts"]["g4dn.xlarge"] >= 2
    free = json.loads(run("-", "--min-instances", "g4dn.xlarge=0", "-o", "json", stdin=wanted).stdout)
    assert free["counts"] == answer(RM2)["counts"]
    shown = json.loads(run(HETSEV, "--service", "resnet50", "--min-instances", "hetsev-v100=3", "-o", "json").stdout)
    assert shown["counts"]["hetsev-v100"] == 3


INFEASIBLE = {
    "minimum over the budget": (
        (RM2, "--min-instances", "g4dn.xlarge=5"),
        "error: rm2: BudgetTooLow: the least instances wanted (5xg4dn.xlarge) cost 2.63 $/h, 0.13 $/h more than the "
        "budget of 2.5 $/h\n",
    ),
    "minimum over the limit": (
        (HETSEV, "--service", "resnet50", "--min-instances", "hetsev-t4=9"),
        "error: resnet50: CapacityTooLow: at least 9xhetsev-t4 are wanted, only 8 can be had\n",
    ),
    "budget": (
        (RM2, "--budget", "0.3"),
        "error: rm2: BudgetTooLow: budget 0.3 $/h buys no base instance: the cheapest type that serves every batch "
        "within 350 ms is g4dn.xlarge at 0.526 $/h\n",
    ),
    "SLO": ((RM2, "--slo", "100ms"), "error: rm2: NoTypeMeetsSLO: no type serves every batch of the mix within 100 ms"),
    "base": ((RM2, "--base", "t3.xlarge"), "error: rm2: NoTypeMeetsSLO: t3.xlarge cannot be the base"),
    "budget of ilp": (
        (RM2, "--planner", "ilp", "--budget", "0.3"),
        "error: rm2: BudgetTooLow: budget 0.3 $/h buys no instance that keeps the SLO: the cheapest is g4dn.xlarge at",
    ),
}


@pytest.mark.parametrize("case", INFEASIBLE)
def test_infeasible_is_exit_3_with_the_message_and_nothing_else(case: str) -> None:
    arguments, message = INFEASIBLE[case]
    result = run(*arguments)
    assert result.exit_code == 3
    assert message in result.stderr
    assert result.stdout == ""
    document = json.loads(run(*arguments, "-o", "json").stdout)
    assert document["feasible"] is False
    assert document["message"] in result.stderr
    assert document["cost"] is None


def edited(old: str, new: str) -> str:
    text = (SAMPLES / "rm2.yaml").read_text(encoding="utf-8")
    assert old in text
    return text.replace(old, new)


UNPLANNABLE = {
    "unknown type": (
        edited("  slo:", "  instanceTypes: {names: [g4dn.xlarge, p5.48xlarge]}\n  slo:"),
        "InstanceTypeNotFound",
        "spec.instanceTypes names p5.48xlarge, which does not exist; there are: c5n.2xlarge, g4dn.xlarge",
    ),
    "missing profile": (
        edited("instanceType: t3.xlarge", "instanceType: t3.large").replace(
            "  slo:", "  instanceTypes: {names: [t3.xlarge]}\n  slo:"
        ),
        "ProfileMissing",
        "no ModelProfile of model rm2 on t3.xlarge in namespace default",
    ),
    "two profiles of one pair": (
        edited("instanceType: t3.xlarge", "instanceType: r5n.large"),
        "ProfileConflict",
        "ModelProfiles rm2-r5n.large and rm2-t3.xlarge in namespace default",
    ),
}


@pytest.mark.parametrize("case", UNPLANNABLE)
def test_objects_that_do_not_fit_together_are_exit_3(case: str) -> None:
    text, reason, message = UNPLANNABLE[case]
    result = run("-", "-o", "json", stdin=text)
    assert result.exit_code == 3
    document = json.loads(result.stdout)
    assert (document["feasible"], document["reason"], document["counts"]) == (False, reason, {})
    assert message in document["message"]
    assert document["message"] in result.stderr


def test_the_feasible_services_are_still_shown_when_one_is_not() -> None:
    result = run(HETSEV, "--slo", "120ms")
    assert result.exit_code == 3
    assert "resnet50: 8xhetsev-t4" in result.stdout
    assert "transformer" not in result.stdout
    assert "error: transformer: NoTypeMeetsSLO" in result.stderr


BAD_INPUT = {
    "no file": (("gone.yaml",), "gone.yaml: cannot be read: No such file or directory"),
    "no service": ((str(REPOSITORY / "crds"),), "no InferenceService in"),
    "unknown service": ((RM2, "--service", "x"), "no InferenceService x in the input; there are: default/rm2"),
    "unknown planner": ((RM2, "--planner", "magic"), "'magic' is not one of 'robust', 'kairos', 'kairos-plus', 'ilp'"),
    "unknown output": ((RM2, "-o", "xml"), "'xml' is not one of"),
    "unknown type wanted": ((RM2, "--min-instances", "p5=1"), "--min-instances p5: no such type for rm2; there are:"),
    "instances wanted without a number": ((RM2, "--min-instances", "t3.xlarge"), "'t3.xlarge' is not TYPE=NUMBER"),
    "fewer than no instance": ((RM2, "--min-instances", "t3.xlarge=-1"), "'t3.xlarge=-1' is not TYPE=NUMBER"),
    "unknown base": ((RM2, "--base", "p5"), "--base p5: no such type for rm2; there are: c5n.2xlarge"),
    "budget 0": ((RM2, "--budget", "0"), "'0' must be more than 0 $/h"),
    "budget with a sign": ((RM2, "--budget=-1"), "'-1' is not a price"),
    "SLO without a unit": ((RM2, "--slo", "350"), "'350' is not a duration"),
    "threshold NaN": ((RM2, "--saturation-threshold", "nan"), "'nan' must be a number above 0 and at most 1"),
    "threshold 2": ((RM2, "--saturation-threshold", "2"), "'2' must be a number above 0 and at most 1"),
    "launch weight -1": ((RM2, "--launch-weight=-1"), "'-1' must be a number of at least 0"),
    "a picture of no known form": ((RM2, "--plot", "out.gif"), "'out.gif' must end in .png or .svg"),
    "a seed below 0": ((RM2, "--seed=-1"), "-1 is not in the range"),
    "no argument": ((), "Missing argument 'FILE...'"),
}


@pytest.mark.parametrize("case", BAD_INPUT)
def test_bad_input_is_exit_2_and_prints_nothing_else(case: str) -> None:
    arguments, message = BAD_INPUT[case]
    result = run(*arguments)
    assert result.exit_code == 2
    assert message in result.stderr
    assert result.stdout == ""


def test_a_quoted_price_is_explained() -> None:
    result = run("-", stdin=edited('hourly: "2.5"', "hourly: 2.5"))
    assert result.exit_code == 2
    assert "spec.budget.hourly: 2.5 is a number; money is decimal text" in result.stderr
    assert result.stdout == ""


def test_foreign_objects_are_noted_on_stderr() -> None:
    text = (SAMPLES / "rm2.yaml").read_text(encoding="utf-8")
    result = run("-", "-o", "json", stdin="apiVersion: v1\nkind: Namespace\nmetadata: {name: n}\n---\n" + text)
    assert result.exit_code == 0
    assert "note: stdin, document 1: Namespace/n is not of hetserve.io: ignored" in result.stderr
    json.loads(result.stdout)


def test_version_and_help() -> None:
    runner = CliRunner()
    assert runner.invoke(app, ["--version"]).output.startswith("hetserve ")
    text = runner.invoke(app, ["plan", "--help"]).output
    assert "hetserve plan manifests/samples/rm2.yaml --budget 5 --slo 400ms -o json" in text
    assert "Exit code: 0" in text


LIGHT = {"click", "yaml", "numpy", "pydantic", "pydantic_core", "annotated_types", "typing_extensions"}
LIGHT |= {"typing_inspection"}
STARTS = {
    "what robust answers, as JSON": (("rm2.yaml", "-o", "json"), LIGHT),
    "what robust answers, as a table": (("rm2.yaml",), LIGHT | {"rich"}),
    "what Kairos answers": (("rm2.yaml", "--planner", "kairos"), LIGHT | {"rich"}),
    "what the integer program answers": (("hetsev.yaml",), LIGHT | {"rich", "pulp", "highspy"}),
}


@pytest.mark.parametrize("case", STARTS)
def test_a_plan_imports_only_what_it_needs(case: str) -> None:
    """Start is the most of what a user waits for: numba alone takes half a second, pandas and matplotlib as long."""
    (sample, *options), light = STARTS[case]
    command = [sys.executable, "-X", "importtime", "-m", "hetserve.cli", "plan", str(SAMPLES / sample), *options]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    lines = (line for line in done.stderr.splitlines() if line.startswith("import time:"))
    imported = {line.rpartition("|")[2].strip().partition(".")[0] for line in lines}
    installed = {name for name, of in packages_distributions().items() if not {"setuptools", "hetserve"} & set(of)}
    assert "numpy" in imported & installed, "the process no longer tells what it imports"
    assert (imported & installed) - light == set()
