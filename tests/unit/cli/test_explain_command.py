"""`hetserve explain` says in words what is in force and why, from the status and the records."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from hetserve.api.names import API_VERSION
from hetserve.base.units import Seconds
from hetserve.cli.app import app
from hetserve.cli.cluster.client import ClusterClient
from hetserve.scaling.plans.answers import Answers
from hetserve.scaling.record.record import DecisionRecord, decided_on_record
from hetserve.scaling.record.ring import Ring, appended, ring_manifest, time_text
from testing.kit.http_face import HttpFace
from testing.scaling import NOW, facts, steady

Json = dict[str, Any]
SERVICE = f"/apis/{API_VERSION}/namespaces/team/inferenceservices/web"
RING = "/api/v1/namespaces/team/configmaps/web-decisions"
PLAN = {
    "counts": [{"instanceType": "t4", "count": 4}],
    "summary": "4xt4",
    "hourlyCost": "0.288",
    "qps": "100.0",
    "load": "60.0",
    "planner": "ilp",
    "runnerUp": "5xt4 at 0.36 $/h for 125.0 q/s: 0.072 $/h more",
}


def record(at: float = NOW) -> DecisionRecord:
    _, made = decided_on_record("web", "team", facts(steady(60.0), {"t4": 2}), Answers())
    assert made is not None
    return replace(made, at=at)


def service(**status: Any) -> Json:
    return {
        "apiVersion": API_VERSION,
        "kind": "InferenceService",
        "metadata": {"name": "web", "namespace": "team"},
        "spec": {},
        "status": {"plan": PLAN, "instances": [{"instanceType": "t4", "desired": 4, "ready": 3}], **status},
    }


def config_map(*records: DecisionRecord) -> Json:
    ring: Ring = ()
    for one in records:
        ring = appended(ring, one)
    return ring_manifest(ring, "web", "team", {"kind": "InferenceService", "name": "web", "uid": "u1"})


def explained(
    folder: Path, raw: Json | None, ring: Json | None, *arguments: str, refused: dict[str, int] | None = None
) -> Result:
    with HttpFace.serving() as api:
        api.refused = {} if refused is None else refused
        api.texts["/version"] = "{}"
        if raw is not None:
            api.texts[SERVICE] = json.dumps(raw)
        if ring is not None:
            api.texts[RING] = json.dumps(ring)
        words = ["explain", "web", "--kubeconfig", str(api.kubeconfig(folder)), *arguments]
        return CliRunner().invoke(app, words)


def decided(at: float, **fields: Any) -> Json:
    said: Json = {"action": "ScaleUp", "reason": "LoadAboveCapacity", "message": "above 88 %"}
    said |= {key: [{"instanceType": "t4", "count": n}] for key, n in (("from", 2), ("to", 4))}
    return {"time": time_text(at)[:19] + "Z", **said, **fields}


def test_it_says_what_is_in_force_why_the_runner_up_the_limits_and_what_was_measured(tmp_path: Path) -> None:
    limited = {"type": "ScalingLimited", "status": "True", "reason": "StepPolicyLimits", "message": "4 of 6 now"}
    kept = {"type": "Feasible", "status": "True", "reason": "PlanFeasible", "message": "it is"}
    demand = {"qps": "60", "freshness": "Fresh", "sampledAt": "2026-11-23T13:00:00Z"}
    raw = service(conditions=[limited, kept], demand=demand, lastDecisions=[decided(NOW)])
    result = explained(tmp_path, raw, config_map(record()))
    words = " ".join(result.stdout.split())

    assert result.exit_code == 0, result.output
    for said in (
        "in force 4xt4 at 0.288 $/h for 60.0 q/s, holds 100.0 q/s, by planner ilp",
        "ready 3 of 4 t4",
        "why above 88 %",
        "runner-up 5xt4 at 0.36 $/h for 125.0 q/s: 0.072 $/h more",
        "limits ScalingLimited is True, StepPolicyLimits: 4 of 6 now",
        "load 60 q/s, Fresh, sampled at 2026-11-23T13:00:00Z",
        "at least 60.0 q/s in that of scaling up of 30 s, at most 60.0 q/s in that of scaling down of 300 s",
        "held 50.0 q/s, of which 80 % are used",
        "records ConfigMap web-decisions",
    ):
        assert said in words
    assert "PlanFeasible" not in words


def load_line(folder: Path, **demand: Any) -> tuple[str, Json]:
    """As people read it, and the document's demand."""
    raw = service(demand={"qps": "60", "freshness": "Fresh", **demand})
    table, found = (explained(folder, raw, None, *more).stdout for more in ((), ("-o", "json")))
    (line,) = (" ".join(line.split()) for line in table.splitlines() if line.startswith("  load"))
    return line, json.loads(found)["demand"]


def test_it_says_how_old_the_load_in_the_status_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A service at rest writes no digits: while it is Fresh, the load of its status may be of hours ago."""
    monkeypatch.setattr(
        ClusterClient, "time", lambda _: Seconds(datetime(2026, 11, 23, 16, 0, 1, tzinfo=UTC).timestamp())
    )

    line, demand = load_line(tmp_path, sampledAt="2026-11-23T13:00:00Z")

    assert line == "load 60 q/s, Fresh, sampled at 2026-11-23T13:00:00Z, 3 h ago"
    assert demand == {"qps": "60", "freshness": "Fresh", "sampledAt": "2026-11-23T13:00:00Z", "ageSeconds": 10_801}
    assert load_line(tmp_path, sampledAt="2026-11-23T16:00:09Z")[0].endswith(", 0 s ago")
    assert load_line(tmp_path, sampledAt="soon")[0].endswith(", sampled at soon")
    assert "ageSeconds" not in load_line(tmp_path)[1]


def test_the_age_is_taken_by_the_api_servers_clock_and_left_out_where_that_does_not_tell(tmp_path: Path) -> None:
    sampled = {"sampledAt": "2020-01-01T00:00:00Z"}
    assert re.search(r", [0-9]+ days ago$", load_line(tmp_path, **sampled)[0])

    refused = explained(tmp_path, service(demand=sampled), None, refused={"/version": 403})
    assert refused.exit_code == 0
    assert "ago" not in refused.stdout


def test_decisions_of_the_status_and_of_the_records_are_one_list_the_newest_first(tmp_path: Path) -> None:
    newest = decided(NOW + 90, action="ScaleDown", reason="LoadFitsOnLess", message="below 72.7 %")
    raw = service(lastDecisions=[newest, decided(NOW + 60)])
    ring = config_map(record(NOW), record(NOW + 60.25))
    found = json.loads(explained(tmp_path, raw, ring, "-o", "json").stdout)

    assert [(one["action"], one.get("record"), one.get("replays")) for one in found["decisions"]] == [
        ("ScaleDown", None, None),
        ("ScaleUp", 1, True),
        ("ScaleUp", 2, True),
    ]
    assert found["why"] == "below 72.7 %"
    assert found["measured"]["capacity"] == 50.0


def test_a_service_without_records_or_metrics_is_explained_from_its_status(tmp_path: Path) -> None:
    result = explained(tmp_path, {**service(), "status": {}}, None)

    assert result.exit_code == 0, result.output
    assert "no plan" in result.stdout
    assert "none; changes from now on are recorded" in result.stdout


def test_a_record_that_cannot_be_read_is_noted_and_the_others_are_shown(tmp_path: Path) -> None:
    ring = config_map(record(NOW), record(NOW + 60))
    ring["data"]["00000003-ScaleUp"] = "torn"
    result = explained(tmp_path, service(), ring, "-o", "json")

    assert result.exit_code == 0
    assert "data.00000003-ScaleUp" in result.stderr
    assert [one["record"] for one in json.loads(result.stdout)["decisions"]] == [2, 3]


def test_a_record_without_facts_says_that_it_is_not_replayable(tmp_path: Path) -> None:
    result = explained(tmp_path, service(), config_map(record().without_facts("not replayable: too large")))

    assert "1, not replayable" in " ".join(result.stdout.split())


def test_many_decisions_are_counted_unless_all_are_wanted(tmp_path: Path) -> None:
    ring = config_map(*(record(NOW + n) for n in range(14)))
    short, whole = (explained(tmp_path, service(), ring, *more).stdout for more in ((), ("--all",)))

    assert "4 more; --all lists them" in " ".join(short.split())
    assert whole.count("ScaleUp") == 14


def test_a_service_that_is_not_there_is_named(tmp_path: Path) -> None:
    result = explained(tmp_path, None, None)

    assert result.exit_code == 2
    assert "there is no InferenceService web in namespace team; -n NS names another" in result.stderr


def test_it_says_by_which_measured_batch_sizes_is_planned(tmp_path: Path) -> None:
    mix = [{"batch": 1, "share": "0.75"}, {"batch": 101, "share": "0.25"}]
    plan = {**PLAN, "mix": mix, "mixSince": "2026-11-23T12:00:00Z"}
    table = explained(tmp_path, service(plan=plan), None)
    said = "2 sizes, 26 items on average, 101 at most, since 2026-11-23T12:00:00Z"
    assert f"batch sizes as measured: {said}" in " ".join(table.stdout.split())
    made = json.loads(explained(tmp_path, service(plan=plan), None, "-o", "json").stdout)
    assert made["inForce"]["mix"] == said
    spoilt = explained(tmp_path, service(plan={**PLAN, "mix": [{"batch": "many"}]}), None)
    assert (spoilt.exit_code, "measured, and cannot be read" in " ".join(spoilt.stdout.split())) == (0, True)
    assert "batch sizes" not in explained(tmp_path, service(), None).stdout
