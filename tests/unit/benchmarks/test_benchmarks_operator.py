"""The benchmark of the operator: the installation that it makes, what it reads, what its report says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from benchmarks.operator import report
from benchmarks.operator.audit import OPERATOR, audit_lines, by_kind, requests_of_operator
from benchmarks.operator.fleet import FULL, HARDWARE, QUICK, SOLD_OUT, Fleet
from benchmarks.operator.process import Tree
from benchmarks.operator.report import command, describe, keep, middle_of, worst_of, write_report
from benchmarks.operator.scrape import Scrape
from benchmarks.reporting import Kept

from hetserve.api.inference_service import InferenceService
from hetserve.api.instance_type import InstanceType
from hetserve.api.model_profile import ModelProfile
from hetserve.planning import Problem, build_problem

METRICS = """
# TYPE hetserve_plans_total counter
hetserve_plans_total{feasible="true",planner="kairos"} 7.0
hetserve_plans_total{feasible="true",planner="ilp"} 3.0
# TYPE hetserve_operator_writes_total counter
hetserve_operator_writes_total{kind="Create",result="ok"} 4.0
hetserve_operator_writes_total{kind="Create",result="409"} 1.0
hetserve_operator_writes_total{kind="WriteStatus",result="ok"} 5.0
# TYPE hetserve_operator_queue_length gauge
hetserve_operator_queue_length 2.0
# TYPE hetserve_operator_reconcile_seconds histogram
hetserve_operator_reconcile_seconds_count 11.0
hetserve_operator_reconcile_seconds_sum 0.75
# TYPE hetserve_scaling_decisions_total counter
hetserve_scaling_decisions_total{action="ScaleUp",reason="LoadAboveCapacity"} 2.0
hetserve_scaling_decisions_total{action="ScaleDown",reason="LoadFitsOnLess"} 1.0
# TYPE hetserve_operator_demand_poll_seconds histogram
hetserve_operator_demand_poll_seconds_count{source="Hetserve"} 4.0
hetserve_operator_demand_poll_seconds_sum{source="Hetserve"} 1.5
# TYPE hetserve_operator_planning_queue_length gauge
hetserve_operator_planning_queue_length 6.0
# TYPE hetserve_operator_planning_seconds histogram
hetserve_operator_planning_seconds_count{outcome="planned"} 9.0
# TYPE hetserve_service_ready gauge
hetserve_service_ready{namespace="a",service="x"} 0.0
hetserve_service_ready{namespace="b",service="x"} 1.0
"""


def round_of(median: float | None = 1.0, cores: float = 0.1) -> dict[str, Any]:
    seconds = [median, 0.5, 9.0]
    return {
        "start": {"lookedAt": 12.5, "quiet": 20.0, "plans": 100},
        "rest": {
            "cores": cores,
            "mib": 168.2,
            "plannerCores": 0.0,
            "plannerMiB": 0,
            "machineBusy": 0.2,
            "requestsPerSecond": 6.86,
            "writes": {},
        },
        "edits": {"seconds": seconds, "cores": 0.4, "plans": 20},
        "burst": {
            "planned": {"last": 18.0},
            "ready": {"last": 23.0},
            "deploymentsExist": 19.7,
            "writesPerService": 7.5,
            "dryRunsPerService": 1.7,
            "mib": 168.4,
            "audited": {"create deployments": 60},
        },
    }


def data_of(**cases: dict[str, Any]) -> dict[str, Any]:
    objects = {"services": 1000, "profiles": 2000, "nodes": 1000, "pods": 10_000, "foreignPods": 6_600}
    return {
        "setUp": {"seconds": {"chart": 1.0}, "objects": objects},
        "burst": 30,
        "cases": {name: {"commit": "abc", "when": "2026-01-01", "rounds": [one]} for name, one in cases.items()},
    }


def test_a_page_says_how_fast_the_machine_was_where_that_is_known() -> None:
    known, unknown = round_of() | {"pace": {"seconds": 0.0412}}, round_of()
    page = describe("full", data_of(now=known, before=unknown))
    assert page.count("Before the burst the machine took 41 ms for a fixed loop of Python.") == 1


def problem_of(service: dict[str, Any], fleet: Fleet) -> Problem:
    read = InferenceService.model_validate(service)
    types = [InstanceType.model_validate(raw) for raw in fleet.types()]
    profiles = [ModelProfile.model_validate(raw) for raw in Fleet(fleet.size).profiles()]
    problem = build_problem(read, types, profiles)
    assert isinstance(problem, Problem)
    return problem


def test_the_full_installation_has_the_size_of_the_goal() -> None:
    fleet = Fleet(FULL)
    assert len(fleet.profiles()) == FULL.profiles == 2000
    assert len(fleet.services) == 1000
    assert sum(group.count for group in fleet.node_groups()) == 1000
    assert len(fleet.burst(0)) == 300


def test_every_service_can_be_planned_on_every_type_and_no_two_are_the_same_problem() -> None:
    fleet = Fleet(QUICK)
    problems = [problem_of(service, fleet) for service in fleet.services[:12]]
    assert all(len(problem.types) == len(HARDWARE) for problem in problems)
    assert {problem.objective for problem in problems} == {"MaxThroughput", "MinCost"}
    assert len({(p.budget, p.load, p.mix) for p in problems}) == len(problems)


def test_a_tenth_of_the_services_would_use_a_type_that_has_no_nodes() -> None:
    fleet = Fleet(QUICK)
    models = {raw["spec"]["model"] for raw in fleet.profiles() if raw["spec"]["instanceType"] == SOLD_OUT.name}
    assert sum(service["spec"]["model"]["name"] in models for service in fleet.services) == QUICK.services // 10
    assert SOLD_OUT.name not in {group.instance_type for group in fleet.node_groups()}


def test_an_edit_makes_another_problem() -> None:
    fleet = Fleet(QUICK)
    for service in fleet.services[:2]:
        before = problem_of(service, fleet)
        spec = fleet.edit(service)["spec"]
        edited = {**service, "spec": {**service["spec"], **{k: {**service["spec"][k], **v} for k, v in spec.items()}}}
        assert problem_of(edited, fleet) != before


def test_no_pod_and_no_burst_takes_a_name_twice() -> None:
    fleet = Fleet(QUICK)
    coming = fleet.foreign_pods_anywhere()
    pods = [*fleet.foreign_pods(50), *(next(coming) for _ in range(50)), *fleet.foreign_pods(10)]
    assert len({pod["metadata"]["name"] for pod in pods}) == 110
    bursts = [*fleet.burst(0), *fleet.burst(1)]
    assert len({service["metadata"]["name"] for service in bursts}) == 2 * QUICK.burst


def test_a_scrape_counts_services_that_were_looked_at_and_writes_that_were_done() -> None:
    seen = Scrape.of(METRICS)
    assert (seen.services, seen.looks, seen.plans, seen.queue) == (2, 11, 10, 2)
    assert seen.writes == {"Create": 4, "WriteStatus": 5}
    assert (seen.decisions, seen.polls, seen.planning, seen.answers) == (3, 4, 6, 9)
    assert (seen.look_seconds, seen.poll_seconds) == (0.75, 1.5)
    assert seen.writes_since(Scrape(writes={"Create": 4, "WriteStatus": 3})) == {"WriteStatus": 2}


def audited(verb: str, at: str, *, user: str = OPERATOR, uri: str = "/x", stage: str = "ResponseComplete") -> bytes:
    event = {
        "verb": verb,
        "stage": stage,
        "requestURI": uri,
        "requestReceivedTimestamp": at,
        "user": {"username": user},
        "objectRef": {"resource": "deployments", "name": "burst-0-1-gpu"},
        "responseStatus": {"code": 201},
    }
    return json.dumps(event).encode()


def test_the_audit_log_gives_the_operators_requests_of_a_time() -> None:
    lines = [
        audited("create", "1970-01-01T00:00:10.500000Z"),
        audited("patch", "1970-01-01T00:00:11.000000Z", uri="/x?dryRun=All"),
        audited("get", "1970-01-01T00:00:12.000000Z"),
        audited("create", "1970-01-01T00:00:09.000000Z"),
        audited("create", "1970-01-01T00:00:20.000000Z"),
        audited("create", "1970-01-01T00:00:12.000000Z", user="system:admin"),
        audited("watch", "1970-01-01T00:00:12.000000Z", stage="ResponseStarted"),
    ]
    found = list(requests_of_operator(lines, 10.0, 20.0))
    assert by_kind(found) == {"create deployments": 1, "dry patch deployments": 1, "get deployments": 1}
    assert [request.kind for request in found if request.writes] == ["create deployments"]
    assert found[0].at == 10.5


def test_the_audit_log_is_read_across_its_files(tmp_path: Path) -> None:
    (tmp_path / "audit-2026.log").write_bytes(b"one\n")
    (tmp_path / "audit.log").write_bytes(b"two\n")
    (tmp_path / "kube-apiserver.log").write_bytes(b"other\n")
    assert list(audit_lines(tmp_path)) == [b"one\n", b"two\n"]


def test_an_edit_that_nobody_acted_on_is_longer_than_every_other() -> None:
    assert middle_of([1.0, None, 2.0]) == 2.0
    assert middle_of([1.0, None, None]) is None
    assert worst_of([1.0, 3.0, 2.0]) == 3.0
    assert worst_of([1.0, None]) is None


def test_the_table_has_a_column_for_each_operator_and_says_which_goals_are_missed() -> None:
    page = describe("full", data_of(before=round_of(median=2.4, cores=0.5), now=round_of()))
    rows = {line.split(" | ")[0].strip("| "): line for line in page.splitlines() if line.startswith("|")}
    assert rows["rest: processors"] == "| rest: processors | < 0.2 cores | 0.5 cores, **missed** | 0.1 cores, held |"
    assert rows["edit: until the first write, median"].endswith("| 2.4 s, **missed** | 1 s, held |")
    assert "create deployments 2." in page


def scaled_round(**phases: Any) -> dict[str, Any]:
    one = round_of()
    one["rest"] |= {"looksPerMinute": 40.0, "lookSeconds": 0.02, "decisions": 0}
    asked = {"polls": 5, "queries": 26, "perMinute": 20.8, "mebibytesPerMinute": 16.0, "pollSeconds": 0.6}
    return one | {
        "settled": {"planned": 300.0, "answers": 3000},
        "stalls": {"median": 0.002, "p99": 0.01, "longest": 0.08},
        "requests": asked,
        "windows": asked | {"queries": 66},
        "tenth": asked,
        "doubled": {"seconds": [70.0, 75.0, None]},
        "cut": {"seconds": [1.0, 121.0, 2.0]},
        **phases,
    }


def test_the_table_of_services_that_follow_their_loads_says_what_grows_with_them() -> None:
    page = describe("scaled", data_of(now=scaled_round()))
    rows = {line.split(" | ")[0].strip("| "): line for line in page.splitlines() if line.startswith("|")}
    tenth = "Prometheus: requests of a poll, to those with a tenth of the services, 1 is as many"
    assert rows[tenth].endswith("| < 1.01 | 1, held |")
    assert rows["Prometheus: requests of five polls, three windows"].endswith("| 66 |")
    assert rows["load: until a Deployment grows, worst"].endswith("| not within the limit |")
    assert rows["cut: until it is obeyed, worst"].endswith("| < 120 s | 121 s, **missed** |")


@pytest.mark.parametrize(("queries", "said"), [(25, "1, held"), (27, "1, held"), (20, "1.25, **missed**")])
def test_requests_grow_with_the_services_only_if_those_of_a_poll_do(queries: int, said: str) -> None:
    """The request that is made each minute is made once or twice in five polls."""
    tenth = {"polls": 5, "queries": queries, "perMinute": 16.0, "mebibytesPerMinute": 1.6, "pollSeconds": 0.1}
    page = describe("scaled", data_of(now=scaled_round(tenth=tenth)))
    assert next(line for line in page.splitlines() if "with a tenth" in line).endswith(f"| {said} |")


def test_a_size_is_measured_alone_by_the_command_beside_it() -> None:
    assert command("full") == "make bench-operator FLAGS=declared"
    assert command("scaled-quick") == 'make bench-operator FLAGS="scaled --quick"'


def test_a_goal_is_missed_if_the_limit_came_first() -> None:
    one = round_of()
    one["start"] = {"lookedAt": None, "quiet": None}
    assert "| not within the limit, **missed** |" in describe("full", data_of(now=one))


def test_what_was_measured_before_under_another_name_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("benchmarks.reporting.RESULTS", tmp_path)
    monkeypatch.setattr(report, "KEPT", Kept("operator"))
    about = {"command": "make bench-operator", "machine": "a machine"}
    keep("quick", about, data_of(before=round_of(cores=0.5), now=round_of(cores=0.4)))
    keep("quick", about, data_of(now=round_of(cores=0.1)))
    page = write_report().read_text(encoding="utf-8")
    assert "| < 0.2 cores | 0.5 cores | 0.1 cores |" in page
    assert "Not measured yet: `make bench-operator FLAGS=scaled`." in page


def test_an_operator_is_named_by_the_folder_of_a_tree_that_is_set_up(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="make setup"):
        Tree.parse(f"before={tmp_path}")
    program = tmp_path / ".venv" / "bin" / "hetserve-operator"
    program.parent.mkdir(parents=True)
    program.touch()
    assert Tree.parse(f"before={tmp_path}").program == program
