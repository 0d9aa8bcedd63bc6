"""The benchmark of the operator: the installation that it makes, what it reads, what its report says."""

from __future__ import annotations

import json
from typing import Any

from benchmarks.operator.audit import OPERATOR, by_kind, requests_of_operator
from benchmarks.operator.fleet import HARDWARE, QUICK, Fleet
from benchmarks.operator.report import describe, middle_of, worst_of

from hetserve.api.inference_service import InferenceService
from hetserve.api.instance_type import InstanceType
from hetserve.api.model_profile import ModelProfile
from hetserve.planning import Problem, build_problem


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


def problem_of(service: dict[str, Any], fleet: Fleet) -> Problem:
    read = InferenceService.model_validate(service)
    types = [InstanceType.model_validate(raw) for raw in fleet.types()]
    profiles = [ModelProfile.model_validate(raw) for raw in Fleet(fleet.size).profiles()]
    problem = build_problem(read, types, profiles)
    assert isinstance(problem, Problem)
    return problem


def test_every_service_can_be_planned_on_every_type_and_no_two_are_the_same_problem() -> None:
    fleet = Fleet(QUICK)
    problems = [problem_of(service, fleet) for service in fleet.services[:12]]
    assert all(len(problem.types) == len(HARDWARE) for problem in problems)
    assert {problem.objective for problem in problems} == {"MaxThroughput", "MinCost"}
    assert len({(p.budget, p.load, p.mix) for p in problems}) == len(problems)


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


def test_a_goal_is_missed_if_the_limit_came_first() -> None:
    one = round_of()
    one["start"] = {"lookedAt": None, "quiet": None}
    assert "| not within the limit, **missed** |" in describe("full", data_of(now=one))
