"""Unplannable services and unreadable input: exit code, message, empty stdout."""

from __future__ import annotations

import json

import pytest

from plan_command import HETSEV, RM2, edited, run
from testing.data import REPOSITORY

INFEASIBLE = {
    "minimum over the budget": (
        (RM2, "--min-instances", "g4dn.xlarge=5"),
        "Error: rm2: BudgetTooLow: the least instances wanted (5xg4dn.xlarge) cost 2.63 $/h, 0.13 $/h more than the "
        "budget of 2.5 $/h\n",
    ),
    "minimum over the limit": (
        (HETSEV, "--service", "resnet50", "--min-instances", "hetsev-t4=11"),
        "Error: resnet50: CapacityTooLow: at least 11xhetsev-t4 are wanted, only 10 can be had\n",
    ),
    "budget": (
        (RM2, "--budget", "0.3"),
        "Error: rm2: BudgetTooLow: budget 0.3 $/h buys no mix that could serve the whole mix within the SLO: the "
        "cheapest that could costs at least 0.526 $/h (1xg4dn.xlarge)\n",
    ),
    "budget of kairos": (
        (RM2, "--planner", "kairos", "--budget", "0.3"),
        "Error: rm2: BudgetTooLow: budget 0.3 $/h buys no base instance: the cheapest type that serves every batch "
        "within 350 ms is g4dn.xlarge at 0.526 $/h\n",
    ),
    "SLO": (
        (RM2, "--slo", "100ms"),
        "Error: rm2: NoTypeMeetsSLO: no type serves batches 380 to 1000 within 100 ms (p99): ",
    ),
    "base": (
        (RM2, "--planner", "kairos", "--base", "t3.xlarge"),
        "Error: rm2: NoTypeMeetsSLO: t3.xlarge cannot be the base",
    ),
    "budget of ilp": (
        (RM2, "--planner", "ilp", "--budget", "0.3"),
        "Error: rm2: BudgetTooLow: budget 0.3 $/h buys no instance that keeps the SLO: the cheapest is g4dn.xlarge at",
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


SCALED = edited("objective: MaxThroughput", "objective: MinCost").replace(
    "  slo:", "  planner: greedy\n  metrics: {source: Hetserve}\n  scaling: {saturation: '0.5'}\n  slo:"
)
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
    "a load that only a cluster can measure": (
        SCALED,
        "LoadUnknown",
        "to plan before, set spec.load.expectedQPS (queries/s), or give `hetserve plan` --load",
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


def test_a_scaled_service_is_planned_for_the_load_that_is_given_at_its_saturation() -> None:
    for asked, share, instances in ((), 50, 2), (("--saturation-threshold", "1"), 100, 1):
        document = json.loads(run("-", "-o", "json", "--load", "10", *asked, stdin=SCALED).stdout)
        assert document["counts"]["g4dn.xlarge"] == instances, "one carries 15.1 q/s, of which half is too little"
        assert f"at most {share} % is wanted" in document["verdict"]


def test_the_feasible_services_are_still_shown_when_one_is_not() -> None:
    result = run(HETSEV, "--slo", "120ms")
    assert result.exit_code == 3
    assert "resnet50: 9xhetsev-t4" in result.stdout
    assert "transformer" not in result.stdout
    assert "Error: transformer: NoTypeMeetsSLO" in result.stderr


BAD_INPUT = {
    "no file": (("gone.yaml",), "gone.yaml: cannot be read: No such file or directory"),
    "no service": ((str(REPOSITORY / "crds"),), "no InferenceService in"),
    "unknown service": ((RM2, "--service", "x"), "no InferenceService x in the input; there are: default/rm2"),
    "unknown planner": ((RM2, "--planner", "magic"), "'magic' is not one of 'flow', 'kairos', 'kairos-plus'"),
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
