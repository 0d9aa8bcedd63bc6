"""Decisions of `hetserve plan` and the effect of its options."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.metadata import packages_distributions

import pytest
from click.testing import CliRunner

from effort import spread
from hetserve.cli.app import app
from plan_command import HETSEV, RM2, SAMPLES, answer, edited, run


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


def test_the_next_step_says_what_it_costs_and_buys_and_what_would_run() -> None:
    step = answer(RM2, "--planner", "kairos")["nextStep"]
    counts = {"c5n.2xlarge": 0, "g4dn.xlarge": 1, "r5n.large": 14, "t3.xlarge": 0}
    assert step == {"extra": "0.112", "gainQPS": pytest.approx(9.855, abs=1e-3), "cost": "2.612", "proven": True} | {
        "counts": counts
    }
    richer = answer(RM2, "--planner", "kairos", "--budget", "2.612")
    assert richer["boundQPS"] == pytest.approx(answer(RM2, "--planner", "kairos")["boundQPS"] + step["gainQPS"])
    for planner in ("flow", "ilp"):
        least_cost = answer(HETSEV, "--service", "ssd-resnet50", "--planner", planner)
        assert float(least_cost["nextStep"]["cost"]) == pytest.approx(
            float(least_cost["cost"]) + float(least_cost["nextStep"]["extra"])
        )


def test_a_flow_plan_says_what_it_proved_what_no_mix_exceeds_and_what_money_is_worth() -> None:
    document = answer(RM2)
    assert (document["planner"], document["tried"], document["counts"]["r5n.large"]) == ("flow", True, 13)
    assert 125 < document["heldQPS"] < document["ceilingQPS"] < 144
    assert sum(one["qps"] for one in document["flow"]) == pytest.approx(document["heldQPS"], rel=1e-5)
    assert {one["type"] for one in document["flow"]} == {"g4dn.xlarge", "r5n.large"}
    assert document["prices"]["bestType"] == "r5n.large"
    assert document["prices"]["perDollarQPS"] == pytest.approx(66.1, abs=0.1)
    assert document["prices"]["perInstanceQPS"]["g4dn.xlarge"] == pytest.approx(15.2, abs=0.1)
    assert (document["nextStep"]["extra"], document["nextStep"]["counts"]["r5n.large"]) == ("0.112", 14)
    assert float(document["cheaper"]["cost"]) < float(document["cost"])
    assert "no mix within 2.5 $/h can hold more than 143.3 q/s" in document["verdict"]
    assert {one["subject"]: one["reason"].partition(";")[0] for one in document["refusals"]} == {
        "c5n.2xlarge": "too slow above batch 890 for 350 ms",
        "t3.xlarge": "too slow above batch 390 for 350 ms",
    }


def test_a_least_cost_flow_plan_is_tried_and_says_what_no_mix_costs_less_than() -> None:
    document = answer(HETSEV, "--service", "ssd-resnet50")
    assert (document["planner"], document["tried"]) == ("flow", True)
    assert document["heldQPS"] == pytest.approx(46)
    assert float(document["floorCost"]) <= float(document["cost"]) < 3.585, "HetSev's program pays 3.585 $/h"
    assert "no mix that carries 46.0 q/s costs less than " in document["verdict"]
    assert document["ceilingQPS"] is None


def test_a_planner_that_evaluates_can_do_so_under_the_policy_that_serves() -> None:
    served, queued = (
        answer(RM2, "--planner", "kairos-plus", "--budget", "0.7", "--policy", policy)
        for policy in ("hetserve", "fcfs")
    )
    assert served["simulatedQPS"] > queued["simulatedQPS"] > 0, "the head of the queue waits behind large queries"
    refused = run(RM2, "--planner", "kairos", "--policy", "hetserve")
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert "planner kairos evaluates nothing; choose --planner from flow, kairos-plus" in refused.stderr
    least_cost = run(HETSEV, "--service", "resnet50", "--planner", "ilp", "--policy", "hetserve")
    assert "planner ilp evaluates nothing" in least_cost.stderr


def test_flow_tries_under_the_policy_that_is_named() -> None:
    served, queued = (answer(RM2, "--budget", "0.7", *policy) for policy in ((), ("--policy", "fcfs")))
    assert "in simulation under policy hetserve (" in served["verdict"]
    assert "in simulation under policy fcfs (" in queued["verdict"]
    assert queued["heldQPS"] < served["heldQPS"], "the head of the queue waits behind large queries"


def test_a_plan_is_tried_under_the_services_own_policy_unless_another_is_named() -> None:
    own = edited("  template:", "  dispatch: {policy: fcfs, ports: {http: 8000}}\n  template:")
    asked = ("-", "--budget", "0.7", "-o", "json")
    served, named = run(*asked, stdin=own), run(*asked, "--policy", "kairos", stdin=own)
    assert "in simulation under policy fcfs (" in json.loads(served.stdout)["verdict"]
    assert "in simulation under policy kairos (" in json.loads(named.stdout)["verdict"]
    assert "--policy" not in served.stderr
    assert "note: rm2: --policy kairos counts, not spec.dispatch.policy fcfs" in named.stderr


def test_a_base_is_not_asked_of_flow() -> None:
    result = run(RM2, "--budget", "0.6", "--base", "g4dn.xlarge")
    assert (result.exit_code, result.stderr) == (
        0,
        "note: --base: planner flow has no base; it is of kairos and kairos-plus\n",
    )


def test_a_saturation_is_not_asked_of_flow() -> None:
    result = run(RM2, "--budget", "0.6", "--saturation-threshold", "0.5")
    assert (result.exit_code, result.stderr) == (
        0,
        "note: --saturation-threshold: planner flow tries its margins; it is of ilp and greedy\n",
    )


def test_a_planner_that_ignores_the_load_says_so() -> None:
    result = run(RM2, "--planner", "kairos", "--load", "1000")
    assert result.exit_code == 0
    assert result.stderr == (
        "note: --planner kairos plans the most throughput and ignores the load; "
        "for its least cost choose from flow, ilp, greedy, homogeneous, exhaustive\n"
    )
    assert run(RM2, "--planner", "kairos").stderr == ""


def test_a_percentile_is_shown_in_full() -> None:
    result = run(RM2, "--planner", "kairos", "--percentile", "99.99999")
    assert "99.99999 % within 350 ms" in result.stdout
    assert "(p99.99999)" in result.stdout


def test_a_load_so_small_that_a_share_says_nothing_has_its_rate_alone() -> None:
    verdict = answer(RM2, "--load", "0.001")["verdict"]
    assert "held up to" in verdict
    assert "% more" not in verdict


@pytest.mark.deep
def test_the_seed_is_shown_if_something_was_simulated_and_changes_the_result() -> None:
    assert (answer(RM2, "--budget", "0.7")["seed"], answer(RM2, "--budget", "0.7", "--seed", "7")["seed"]) == (20261, 7)
    trying = ("--planner", "kairos-plus", "--budget", "0.7")
    default, other = answer(RM2, *trying), answer(RM2, *trying, "--seed", "7")
    assert (default["seed"], other["seed"]) == (11, 7)
    assert [one["simulatedQPS"] for one in default["evaluated"]] != [one["simulatedQPS"] for one in other["evaluated"]]
    assert "seed" not in answer(RM2, "--planner", "kairos", "--seed", "7"), "a seed of a planner that draws nothing"
    exhaustive = answer(RM2, "--planner", "exhaustive")
    assert not {"seed", "simulatedQPS", "evaluated"} & set(exhaustive), "bounds are told as if they were simulated"


def test_hetsev_shares_gpus_and_uses_both_types() -> None:
    plans = {plan["service"]: plan for plan in answer(HETSEV, "--planner", "ilp")["items"]}
    assert set(plans) == {"resnet50", "inception-v3", "ssd-resnet50", "transformer"}
    assert sum(sum(plan["counts"].values()) for plan in plans.values()) == 52
    assert any(all(plan["counts"].values()) for plan in plans.values())
    assert all("capacityQPS" in plan and "boundQPS" not in plan for plan in plans.values())


def test_stdin() -> None:
    assert run("-", "--planner", "kairos", stdin=(SAMPLES / "rm2.yaml").read_text(encoding="utf-8")).exit_code == 0


def test_flags_override_the_file() -> None:
    kairos = ("--planner", "kairos")
    assert answer(RM2, "--budget", "1.052", *kairos)["cost"] <= "1.052"
    assert answer(RM2, "--slo", "900ms", *kairos)["counts"]["g4dn.xlarge"] == 0
    based = answer(RM2, "--slo", "900ms", *kairos, "--base", "g4dn.xlarge")
    assert based["counts"]["g4dn.xlarge"] >= 1
    full = answer(HETSEV, "--service", "resnet50", "--planner", "ilp", "--saturation-threshold", "1")
    assert full["counts"]["hetsev-t4"] == 9
    assert answer(HETSEV, "--service", "resnet50", "--launch-weight", "0")["planner"] == "flow"


def test_wanted_instances_are_held_and_a_flag_overrides_the_types() -> None:
    kairos = ("--planner", "kairos")
    assert answer(RM2, *kairos, "--min-instances", "g4dn.xlarge=2,t3.xlarge=1")["counts"]["g4dn.xlarge"] >= 2
    wanted = edited(
        'price: {hourly: "0.526", per: Instance}', 'minInstances: 2\n  price: {hourly: "0.526", per: Instance}'
    )
    document = json.loads(run("-", *kairos, "-o", "json", stdin=wanted).stdout)
    assert document["counts"]["g4dn.xlarge"] >= 2
    free = json.loads(run("-", *kairos, "--min-instances", "g4dn.xlarge=0", "-o", "json", stdin=wanted).stdout)
    assert free["counts"] == answer(RM2, *kairos)["counts"]
    shown = answer(HETSEV, "--service", "resnet50", "--planner", "ilp", "--min-instances", "hetsev-v100=3")
    assert shown["counts"]["hetsev-v100"] == 3


def test_foreign_objects_are_noted_on_stderr() -> None:
    text = "apiVersion: v1\nkind: Namespace\nmetadata: {name: team}\n---\n"
    text += (SAMPLES / "rm2.yaml").read_text(encoding="utf-8")
    result = run("-", "--planner", "kairos", "-o", "json", stdin=text)
    assert result.exit_code == 0
    assert "note: stdin:1: Namespace/team is not of hetserve.io: ignored" in result.stderr
    json.loads(result.stdout)


def test_version_and_help() -> None:
    runner = CliRunner()
    assert runner.invoke(app, ["--version"]).output.startswith("hetserve ")
    text = runner.invoke(app, ["plan", "--help"]).output
    assert "hetserve plan manifests/samples/rm2.yaml --budget 5 --slo 400ms -o json" in text
    assert "Exit code: 0" in text


LIGHT = {"click", "yaml", "numpy", "pydantic", "pydantic_core", "annotated_types", "typing_extensions"}
LIGHT |= {"typing_inspection"}
TRYING = {"numba", "llvmlite", "highspy", "pulp", "scipy", "coverage", "charset_normalizer"}
"""Trials are compiled; numba loads scipy, and what measures coverage where that is installed."""
OF_OTHER_COMMANDS = {"hetserve.placement", "hetserve.cli.placement.commands"}
STARTS = {
    "what flow answers, as JSON": (("hetsev.yaml", "--service", "resnet50", "-o", "json"), LIGHT | TRYING),
    "what flow answers, as a table": (("hetsev.yaml", "--service", "resnet50"), LIGHT | TRYING | {"rich"}),
    "what Kairos answers, as JSON": (("rm2.yaml", "--planner", "kairos", "-o", "json"), LIGHT),
    "what Kairos answers, as a table": (("rm2.yaml", "--planner", "kairos"), LIGHT | {"rich"}),
    "what the integer program answers": (
        ("hetsev.yaml", "--service", "resnet50", "--planner", "ilp", "-o", "json"),
        LIGHT | {"pulp", "highspy"},
    ),
}


@pytest.mark.parametrize("case", spread(tuple(STARTS), 1))
def test_a_plan_imports_only_what_it_needs_and_no_solver_writes_beside_it(case: str) -> None:
    """Start is the most of what a user waits for: numba alone takes half a second, pandas and matplotlib as long."""
    (sample, *options), light = STARTS[case]
    command = [sys.executable, "-X", "importtime", "-m", "hetserve.cli", "plan", str(SAMPLES / sample), *options]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    lines = done.stderr.splitlines()
    assert [line for line in lines if not line.startswith("import time:")] == []
    if "json" in options:
        assert json.loads(done.stdout), "what a solver writes is in the document"
    modules = {line.rpartition("|")[2].strip() for line in lines}
    assert not modules & OF_OTHER_COMMANDS
    imported = {module.partition(".")[0] for module in modules}
    installed = {name for name, of in packages_distributions().items() if not {"setuptools", "hetserve"} & set(of)}
    assert "numpy" in imported & installed, "the process no longer tells what it imports"
    assert (imported & installed) - light == set()
