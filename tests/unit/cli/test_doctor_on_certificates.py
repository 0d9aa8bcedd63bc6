"""What the doctor says of the certificates of the verbs' port, and what it reads of the API server."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from authorities import CLIENT, SERVER, Authority, Leaf, secret
from hetserve.base.certificates import Certificate
from hetserve.base.units import Seconds
from hetserve.cli.cluster.client import ClusterClient
from hetserve.cli.health.facts import SchedulerFact, SideFact, TlsFact, Unread
from hetserve.cli.health.finding import Finding, Level
from hetserve.cli.health.gather import gather
from hetserve.cli.health.judgement import findings
from installation_objects import settings_object
from sound_installation import WELL
from testing.kit.http_face import HttpFace

Json = dict[str, Any]
DAY = 86400.0
NOW = Seconds(1_000 * DAY)
URL = "https://hetserve-extender.s.svc:8888"
AUTHORITY = Certificate(b"ca", b"ca", ("ca",), Seconds(0.0), Seconds(NOW + 900 * DAY), authority=True, key=b"1")
OTHER = replace(AUTHORITY, key=b"2")
OLD = replace(AUTHORITY, not_after=Seconds(NOW + 3 * DAY))
LEAF = Certificate(b"x", b"ca", (SERVER,), Seconds(0.0), Seconds(NOW + 90 * DAY), issuer_key=b"1")
EXTENDER = SideFact("Secret one", (LEAF,), (AUTHORITY,))
SCHEDULER = SideFact("Secret two", (replace(LEAF, names=("hetserve-scheduler", "x")),), (AUTHORITY,))
TLS = TlsFact(True, SERVER, (CLIENT,), EXTENDER, SCHEDULER, NOW)


def found(tls: TlsFact | Unread | None, url: str = URL) -> list[Finding]:
    facts = replace(WELL, tls=tls, scheduler=SchedulerFact(url, False, ("hetserve-scheduler",), 1))
    return [one for one in findings(facts) if one.check == "certificates"]


def leaf(side: SideFact, **changed: Any) -> SideFact:
    return replace(side, chain=(replace(side.chain[0], **changed), *side.chain[1:]))


def test_certificates_that_hold_are_well_until_the_first_ends() -> None:
    (one,) = found(replace(TLS, scheduler=leaf(SCHEDULER, not_after=Seconds(NOW + 8 * DAY))))
    assert (one.level, one.what) == (
        Level.OK,
        "extender and scheduler trust each other, until 1972-10-05 00:00 UTC at the least",
    )


PROBLEMS: dict[str, tuple[Callable[[], TlsFact], str]] = {
    "ended": (
        lambda: replace(TLS, extender=leaf(EXTENDER, not_after=NOW)),
        "the certificate of Secret one ended on 1972-09-27 00:00 UTC",
    ),
    "ends soon": (
        lambda: replace(TLS, scheduler=leaf(SCHEDULER, not_after=Seconds(NOW + 6 * DAY))),
        "the certificate of Secret two ends on 1972-10-03 00:00 UTC",
    ),
    "not yet": (
        lambda: replace(TLS, extender=leaf(EXTENDER, not_before=Seconds(NOW + DAY))),
        "the certificate of Secret one holds from 1972-09-28 00:00 UTC on",
    ),
    "another server": (
        lambda: replace(TLS, extender=leaf(EXTENDER, names=("a", "b"))),
        f"the certificate of Secret one is for a, b, not for {SERVER}",
    ),
    "another client": (
        lambda: replace(TLS, scheduler=leaf(SCHEDULER, names=())),
        "the certificate of Secret two is for nobody, not for hetserve-scheduler",
    ),
    "no trust in the extender": (
        lambda: replace(TLS, scheduler=replace(SCHEDULER, trusted=(OTHER,))),
        "the scheduler does not trust who issued the certificate of Secret one: see ca.crt of Secret two",
    ),
    "no trust in the scheduler": (
        lambda: replace(TLS, extender=replace(EXTENDER, trusted=(OTHER,))),
        "the extender does not trust who issued the certificate of Secret two: see ca.crt of Secret one",
    ),
    "an authority that ends soon": (
        lambda: replace(TLS, scheduler=replace(SCHEDULER, trusted=(OLD, OTHER))),
        "the authority that issued the certificate of Secret one ends on 1972-09-30 00:00 UTC",
    ),
    "no Secret": (
        lambda: replace(TLS, extender=SideFact("Secret one", problem="is not there")),
        "Secret one is not there",
    ),
}


@pytest.mark.parametrize(("tls", "what"), PROBLEMS.values(), ids=PROBLEMS)
def test_each_fault_is_one_problem_with_why_and_what_to_do(tls: Callable[[], TlsFact], what: str) -> None:
    (one,) = found(tls())
    assert (one.level, one.what) == (Level.PROBLEM, what)
    assert one.why
    assert one.do


def test_authorities_that_overlap_and_a_chain_between_are_trusted() -> None:
    between = replace(AUTHORITY, subject=b"between", issuer_key=b"1", key=b"3")
    below = replace(LEAF, issuer=b"between", issuer_key=b"3")
    chained = replace(EXTENDER, chain=(below, between), trusted=(OTHER, AUTHORITY))
    (one,) = found(replace(TLS, extender=chained))
    assert one.level is Level.OK
    (cut,) = found(replace(TLS, extender=replace(chained, chain=(below,))))
    assert "does not trust who issued" in cut.what


def test_any_client_will_do_where_none_is_named() -> None:
    (one,) = found(replace(TLS, client_names=(), scheduler=leaf(SCHEDULER, names=("z",))))
    assert one.level is Level.OK


def test_two_sides_at_odds_about_tls_are_a_problem() -> None:
    (plain,) = found(TLS, "http://hetserve-extender.s.svc:8888")
    (secure,) = found(replace(TLS, serves=False))
    assert (plain.level, secure.level) == (Level.PROBLEM, Level.PROBLEM)
    assert plain.what.endswith("the extender's settings name certificates")
    assert secure.what.endswith("the extender's settings name no certificates")


def test_what_may_not_be_read_and_files_of_processes_are_told() -> None:
    (hidden,) = found(Unread("secrets is forbidden"))
    assert (hidden.level, hidden.what) == (Level.UNKNOWN, "not checked: secrets is forbidden")
    (note,) = found(replace(TLS, extender=None))
    assert note.level is Level.NOTE
    assert "files of their own" in note.what
    (plain,) = found(Unread("secrets is forbidden"), "http://x")
    assert plain.level is Level.NOTE, "over plain HTTP there is nothing to read"


def kubernetes_secret(name: str, leaf: Leaf, *authorities: Authority) -> Json:
    data = {key: base64.b64encode(text.encode()).decode() for key, text in secret(leaf, *authorities).items()}
    meta = {"name": name, "namespace": "hetserve-system"}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": meta, "data": data}


def deployment(side: str, *volumes: Json) -> Json:
    meta = {"name": f"hetserve-{side}", "namespace": "hetserve-system"}
    spec = {"replicas": 1, "template": {"spec": {"volumes": list(volumes)}}}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": meta, "spec": spec}


def test_they_are_read_from_the_secrets_that_are_mounted(tmp_path: Path) -> None:
    one, two = Authority(tmp_path, "one"), Authority(tmp_path, "two")
    mounted = {"name": "tls", "secret": {"secretName": "mine"}}
    bundle = {"name": "trust", "configMap": {"name": "both"}}
    files = {"certFile": "/a", "keyFile": "/b", "clientCaFile": "/t/all.pem", "clientNames": [CLIENT]}
    calls = {"serverName": SERVER, "caFile": "/x/ca.crt"}
    stanza = {"urlPrefix": URL, "managedResources": [{"name": "hetserve.io/gpu-memory"}], "tlsConfig": calls}
    meta = {"name": "both", "namespace": "hetserve-system"}
    trust = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": {"all.pem": one.pem + two.pem}}
    objects = (
        settings_object("extender", json.dumps({"tls": files})),
        settings_object("scheduler", json.dumps({"extenders": [stanza]}), key="scheduler.yaml"),
        deployment("extender", mounted, bundle),
        deployment("scheduler"),
        kubernetes_secret("mine", one.server(days=3), two),
        kubernetes_secret("hetserve-scheduler-tls", two.leaf(CLIENT, days=20), one),
        trust,
    )
    with HttpFace.serving(*objects) as api:
        for kind in ("selfsubjectaccessreviews", "subjectaccessreviews"):
            api.texts[f"/apis/authorization.k8s.io/v1/{kind}"] = json.dumps({"status": {"allowed": True}})
        api.texts["/version"] = json.dumps({"major": "1", "minor": "36", "gitVersion": "v1.36.0"})
        facts = gather(ClusterClient.connect(str(api.kubeconfig(tmp_path)), None), "hetserve-system")
    tls = facts.tls
    assert isinstance(tls, TlsFact)
    assert tls.extender is not None
    assert tls.scheduler is not None
    assert (tls.extender.where, tls.scheduler.where) == ("Secret mine", "Secret hetserve-scheduler-tls")
    assert [name for side in (tls.extender, tls.scheduler) for ca in side.trusted for name in ca.names] == [
        "one",
        "two",
        "one",
    ]
    (told,) = [one for one in findings(facts) if one.check == "certificates"]
    assert told.level is Level.PROBLEM
    assert told.what.startswith("the certificate of Secret mine ends on")


@pytest.mark.parametrize(
    ("broken", "words"),
    [
        ({"tls.crt": "AA==", "ca.crt": "AA=="}, "holds no certificate"),
        ({"tls.crt": "?"}, "tls.crt is no base64"),
        ({}, "holds no certificate"),
    ],
)
def test_a_secret_that_holds_no_certificate_is_named(tmp_path: Path, broken: Json, words: str) -> None:
    stanza = {"urlPrefix": URL, "managedResources": [{"name": "hetserve.io/gpu-memory"}]}
    files = {"certFile": "/a", "keyFile": "/b", "clientCaFile": "/c"}
    held = {"metadata": {"name": "hetserve-extender-tls", "namespace": "hetserve-system"}, "data": broken}
    objects = (
        settings_object("extender", json.dumps({"tls": files})),
        settings_object("scheduler", json.dumps({"extenders": [stanza]}), key="scheduler.yaml"),
        deployment("scheduler"),
        {"apiVersion": "v1", "kind": "Secret", **held},
    )
    with HttpFace.serving(*objects) as api:
        for kind in ("selfsubjectaccessreviews", "subjectaccessreviews"):
            api.texts[f"/apis/authorization.k8s.io/v1/{kind}"] = json.dumps({"status": {"allowed": True}})
        api.texts["/version"] = json.dumps({"major": "1", "minor": "36", "gitVersion": "v1.36.0"})
        facts = gather(ClusterClient.connect(str(api.kubeconfig(tmp_path)), None), "hetserve-system")
    told = [one.what for one in findings(facts) if one.check == "certificates"]
    assert any(words in what and what.startswith("Secret hetserve-extender-tls") for what in told)
    assert "Secret hetserve-scheduler-tls is not there" in told
