"""The doctor on routers: who refuses them, and whose load is counted twice."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

import pytest
from click.testing import CliRunner

from hetserve.api.names import SYSTEM_NAMESPACE
from hetserve.cli.app import app
from hetserve.cli.cluster.client import ClusterClient
from hetserve.cli.health.judgement import Level
from hetserve.cli.health.routing import routing_findings
from installation_objects import a_router, settings_object
from probe_ports import ProbePort, serving
from testing.kit.http_face import HttpFace

Json = dict[str, Any]
LEADS: Final = {"hetserve.io/leads.hetserve-router-default": "true"}
PODS: Final = f"/api/v1/namespaces/{SYSTEM_NAMESPACE}/pods"
ROUTER: Final = settings_object("router", "{}", key="default.yaml")
PROMETHEUS: Final = "http://prometheus.monitoring.svc:9090/team"
PROXY: Final = "/api/v1/namespaces/monitoring/services/http:prometheus:9090/proxy/team/api/v1/query"
REFUSES: Final = {"namespace": "t", "service": "s", "instances": {"a": "not sent: refused", "b": "lost: reset"}}


def operator(url: str) -> Json:
    return settings_object("operator", json.dumps({"metrics": {"prometheus": {"url": url}}}))


def loads(**targets: str) -> str:
    series = [
        {"metric": {"namespace": "t", "service": "s", "job": job, "instance": where}, "value": [0, "1"]}
        for job, where in targets.items()
    ]
    return json.dumps({"status": "success", "data": {"result": series}})


def told(
    folder: Path, *objects: Json, refusing: str | None = "", answers: Mapping[str, str] | None = None
) -> list[tuple[Level, str]]:
    """Findings. refusing: what the leader shows; None: its port cannot be reached. answers: by path."""
    with HttpFace.serving(*objects) as api, ExitStack() as stack:
        probe = None if refusing is None else stack.enter_context(serving(ProbePort(set(), refusing)))
        api.forwards[f"{PODS}/one"] = None if probe is None else probe.port
        api.texts.update(answers or {})
        cluster = ClusterClient.connect(str(api.kubeconfig(folder)))
        return [(one.level, one.what) for one in routing_findings(cluster, SYSTEM_NAMESPACE)]


def test_where_no_router_is_installed_nothing_is_said(tmp_path: Path) -> None:
    assert told(tmp_path, a_router("one", **LEADS)) == []


def test_where_all_answer_and_loads_are_counted_once_it_says_so(tmp_path: Path) -> None:
    found = told(
        tmp_path, ROUTER, operator(PROMETHEUS), a_router("one", **LEADS), answers={PROXY: loads(router="10.0.0.1:8891")}
    )
    assert found == [(Level.OK, "no instance refuses a router, no load is counted twice")]


def test_instances_that_refuse_are_named_with_the_reason(tmp_path: Path) -> None:
    found = told(tmp_path, ROUTER, a_router("one", **LEADS), refusing=json.dumps(REFUSES) + "\n")
    assert found == [(Level.PROBLEM, "instances of t/s refuse the router: a (not sent: refused), b (lost: reset)")]


def test_a_leader_whose_port_cannot_be_read_is_unknown(tmp_path: Path) -> None:
    ((level, what),) = told(tmp_path, ROUTER, a_router("one", **LEADS), refusing=None)
    assert (level, "who refuses the router is not checked" in what) == (Level.UNKNOWN, True)


def test_a_load_that_twin_and_router_export_is_told_with_both(tmp_path: Path) -> None:
    answers = {PROXY: loads(router="10.0.0.1:8891", twin="10.0.0.2:8890")}
    found = told(tmp_path, ROUTER, operator(PROMETHEUS), answers=answers)
    assert found == [(Level.PROBLEM, "the load of t/s is counted by router 10.0.0.1:8891 and by twin 10.0.0.2:8890")]


@pytest.mark.parametrize(
    ("url", "asked"),
    [
        ("https://prometheus.monitoring:9090", "https:prometheus:9090/proxy"),
        ("http://prometheus.monitoring.svc.cluster.local", "http:prometheus:80/proxy"),
        ("https://prometheus.example.org", None),
        ("http://127.0.0.1:9090", None),
        ("", None),
    ],
)
def test_a_prometheus_of_the_cluster_is_asked_by_the_api_server(tmp_path: Path, url: str, asked: str | None) -> None:
    path = f"/api/v1/namespaces/monitoring/services/{asked}/api/v1/query"
    twice = loads(router="a", twin="b")
    found = told(tmp_path, ROUTER, operator(url), answers={path: twice})
    assert [level for level, _ in found] == ([] if asked is None else [Level.PROBLEM])


def test_a_prometheus_that_does_not_answer_is_a_note(tmp_path: Path) -> None:
    ((level, what), *_) = told(tmp_path, ROUTER, operator(PROMETHEUS))
    assert (level, "is not known" in what) == (Level.NOTE, True)


def test_the_command_shows_it(tmp_path: Path) -> None:
    with (
        serving(ProbePort(set(), json.dumps(REFUSES))) as probe,
        HttpFace.serving(ROUTER, a_router("one", **LEADS)) as api,
    ):
        api.forwards[f"{PODS}/one"] = probe.port
        api.texts["/version"] = json.dumps({"major": "1", "minor": "36", "gitVersion": "v1.36.0"})
        for kind in ("selfsubjectaccessreviews", "subjectaccessreviews"):
            api.texts[f"/apis/authorization.k8s.io/v1/{kind}"] = json.dumps({"status": {"allowed": True}})
        done = CliRunner().invoke(app, ["doctor", "-o", "json", "--kubeconfig", str(api.kubeconfig(tmp_path))])
    assert done.exit_code == 3, done.output
    assert [one["level"] for one in json.loads(done.stdout)["findings"] if one["check"] == "queries"] == ["Problem"]
