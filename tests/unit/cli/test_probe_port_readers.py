"""How the command line reads a probe port: by a forwarded port, with whose token, and to whom it shows none."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from hetserve.api.names import SYSTEM_NAMESPACE
from hetserve.cli.app import app
from hetserve.cli.cluster.client import ClusterClient
from hetserve.cli.cluster.extender import reader_token
from hetserve.cli.cluster.probe_port import ProbeRefusalError, get_url
from installation_objects import labels_of, settings_object
from probe_ports import LOG, ProbePort, serving
from testing.cluster import gpu_node
from testing.kit.http_face import HttpFace

Json = dict[str, Any]
PODS = f"/api/v1/namespaces/{SYSTEM_NAMESPACE}/pods"


def an_extender(name: str) -> Json:
    labels = labels_of("scheduler")
    return {"metadata": {"namespace": SYSTEM_NAMESPACE, "name": name, "uid": name, "labels": labels}, "spec": {}}


def lease_of(name: str, pod: str) -> Json:
    metadata = {"namespace": SYSTEM_NAMESPACE, "name": name}
    kind = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease"}
    return kind | {"metadata": metadata, "spec": {"holderIdentity": f"{pod}_0d4f"}}


def dumped(api: HttpFace, folder: Path, *, token: bool = True) -> Result:
    path = api.kubeconfig(folder)
    if not token:
        config = json.loads(path.read_text())
        config["users"][0]["user"] = {}
        path.write_text(yaml.safe_dump(config))
    return CliRunner().invoke(app, ["placement", "dump", "--kubeconfig", str(path), "-o", str(folder / "dump.json")])


def test_the_leaders_port_is_forwarded_and_the_users_token_is_shown_to_one_that_asks(tmp_path: Path) -> None:
    settings = settings_object("extender", "{probePort: 9999, scheduler: {leaseName: a}}")
    with (
        serving(ProbePort()) as probe,
        HttpFace.serving(gpu_node(), settings, an_extender("one"), an_extender("two"), lease_of("a", "two")) as api,
    ):
        api.forwards[f"{PODS}/two"] = probe.port
        done = dumped(api, tmp_path)
    assert (done.exit_code, done.stderr) == (0, "")
    assert json.loads((tmp_path / "dump.json").read_text())["log"][0]["call"] == "start"
    assert probe.seen == [None, "Bearer secret"]
    (first, *_) = [(path, asked) for how, path, asked in api.requests if how == "UPGRADE"]
    assert first[0] == f"{PODS}/two/portforward?ports=9999"
    assert {k.lower(): v for k, v in first[1]["headers"].items()}["authorization"] == "Bearer secret"


def test_a_long_log_arrives_whole(tmp_path: Path) -> None:
    record = json.dumps({"call": "x", "args": {"pad": "p" * 1000}}) + "\n"
    with (
        serving(ProbePort(set(), record * 5000)) as probe,
        HttpFace.serving(gpu_node(), an_extender("one")) as api,
    ):
        api.forwards[f"{PODS}/one"] = probe.port
        assert dumped(api, tmp_path).stderr == ""
    assert len(json.loads((tmp_path / "dump.json").read_text())["log"]) == 5000


def test_a_port_that_shows_everything_to_everybody_gets_no_token(tmp_path: Path) -> None:
    with serving(ProbePort(set())) as probe, HttpFace.serving(gpu_node(), an_extender("one")) as api:
        api.forwards[f"{PODS}/one"] = probe.port
        assert dumped(api, tmp_path).stderr == ""
    assert probe.seen == [None]


def test_a_user_with_a_certificate_gets_a_token_of_the_charts_reader(tmp_path: Path) -> None:
    settings = settings_object("extender", "{}", prefix="our-gpus")
    account = f"/api/v1/namespaces/{SYSTEM_NAMESPACE}/serviceaccounts/our-gpus-reader/token"
    with (
        serving(ProbePort({"made"})) as probe,
        HttpFace.serving(gpu_node(), settings, an_extender("one")) as api,
    ):
        api.forwards[f"{PODS}/one"] = probe.port
        api.texts[account] = json.dumps({"status": {"token": "made"}})
        assert dumped(api, tmp_path, token=False).stderr == ""
    assert probe.seen == [None, "Bearer made"]
    (asked,) = [found["body"] for method, path, found in api.requests if (method, path) == ("POST", account)]
    assert asked["spec"] == {"expirationSeconds": 600}


def test_a_user_with_a_certificate_who_may_make_no_token_is_told_what_to_do(tmp_path: Path) -> None:
    with HttpFace.serving() as api:
        path = api.kubeconfig(tmp_path)
        config = json.loads(path.read_text())
        config["users"][0]["user"] = {}
        path.write_text(json.dumps(config))
        cluster = ClusterClient.connect(str(path), None)
        with pytest.raises(Exception, match="a certificate is no token") as caught:
            reader_token(cluster, SYSTEM_NAMESPACE)
    assert "right to create serviceaccounts/token of hetserve-reader" in str(caught.value)


@pytest.mark.parametrize(
    ("tokens", "there", "words"),
    [
        ({"another"}, True, "pod one: 'ann' may not get /log"),
        ({"secret"}, False, "port 8889 of pod hetserve-system/one cannot be reached: error forwarding port 8889"),
    ],
)
def test_why_there_is_no_log_is_said_in_words(tmp_path: Path, tokens: set[str], there: bool, words: str) -> None:
    with serving(ProbePort(tokens)) as probe, HttpFace.serving(gpu_node(), an_extender("one")) as api:
        api.forwards[f"{PODS}/one"] = probe.port if there else None
        done = dumped(api, tmp_path)
    assert done.exit_code == 0
    assert f"no placement log in this dump: {words}" in done.stderr


def test_who_may_forward_no_ports_reads_the_api_servers_reason(tmp_path: Path) -> None:
    with HttpFace.serving(gpu_node(), an_extender("one")) as api:
        done = dumped(api, tmp_path)
    assert "ports of pod hetserve-system/one cannot be forwarded" in done.stderr


def never() -> str:
    raise AssertionError("no token is wanted")


def url(probe: ProbePort, host: str = "127.0.0.1") -> str:
    return f"http://{host}:{probe.port}/log?x=y"


def test_a_url_of_this_machine_is_shown_the_token_when_it_asks() -> None:
    with serving(ProbePort()) as probe:
        assert get_url(url(probe), lambda: "secret", most=1000) == LOG.encode()
    assert probe.seen == [None, "Bearer secret"]
    with serving(ProbePort(set())) as open_to_all:
        assert get_url(url(open_to_all), never, most=1000) == LOG.encode()


def test_no_token_follows_a_redirection() -> None:
    with (
        serving(ProbePort(set())) as other,
        serving(ProbePort(moved=url(other))) as probe,
        pytest.raises(ProbeRefusalError, match="302"),
    ):
        get_url(url(probe), lambda: "secret", most=1000)
    assert other.seen == []


def test_another_machine_is_shown_no_token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hetserve.cli.cluster.probe_port._is_this_machine", lambda _url: False)
    with serving(ProbePort()) as probe, pytest.raises(ProbeRefusalError, match="forward the port") as caught:
        get_url(url(probe), never, most=1000)
    assert caught.value.status == 401
    assert probe.seen == [None]


@pytest.mark.parametrize(
    ("host", "own"),
    [
        ("127.0.0.1", True),
        ("127.9.9.9", True),
        ("[::1]", True),
        ("localhost", True),
        ("10.0.0.1", False),
        ("localhost.example.com", False),
        ("127.0.0.1.example.com", False),
    ],
)
def test_this_machine_is_its_loopback_alone(host: str, own: bool) -> None:
    from hetserve.cli.cluster.probe_port import _is_this_machine

    assert _is_this_machine(f"http://{host}:1/log") is own


def test_too_long_an_answer_is_refused() -> None:
    with serving(ProbePort(set())) as probe, pytest.raises(ProbeRefusalError, match="larger than"):
        get_url(url(probe), never, most=10)
