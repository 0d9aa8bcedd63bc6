from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from deep_objects import nested
from hetserve.base.units import Seconds
from hetserve.cli.cluster import client
from hetserve.cli.cluster.client import JSON_PATCH, ClusterClient, ClusterError, namespaced
from hetserve.cli.cluster.snapshot import Source, dump_document, live_snapshot, read_snapshot
from testing.cluster import gpu_node, gpu_pod
from testing.kit.http_face import HttpFace


def connected(api: HttpFace, folder: Path) -> ClusterClient:
    return ClusterClient.connect(str(api.kubeconfig(folder)), None)


def test_lists_longer_than_a_page_are_read_whole(tmp_path: Path) -> None:
    pods = [gpu_pod(f"p{number}") for number in range(1203)]
    with HttpFace.serving(gpu_node(), *pods) as api:
        snapshot = live_snapshot(connected(api, tmp_path))
    assert {pod["metadata"]["name"] for pod in snapshot.pods} == {f"p{number}" for number in range(1203)}
    asked = [asked["query"] for _, path, asked in api.requests if path == "/api/v1/pods"]
    assert [query["limit"] for query in asked] == ["100", "200", "400", "500", "500"]
    assert len(snapshot.nodes) == 1


def test_the_context_gives_credentials_and_namespace(tmp_path: Path) -> None:
    with HttpFace.serving() as api:
        cluster = connected(api, tmp_path)
        cluster.list("/api/v1/pods", "status.phase!=Failed")
    assert cluster.namespace == "team"
    (_, _, asked), *_ = api.requests
    assert asked["headers"]["authorization"] == "Bearer secret"
    assert asked["query"]["fieldSelector"] == "status.phase!=Failed"


def test_a_patch_sends_its_operations_and_content_type(tmp_path: Path) -> None:
    operations = [{"op": "test", "path": "/metadata/uid", "value": "uid-p0"}]
    with HttpFace.serving(gpu_pod("p0")) as api:
        answer = connected(api, tmp_path).patch(namespaced("v1", "default", "pods", "p0"), operations)
    method, path, asked = api.requests[-1]
    assert (method, path, asked["body"]) == ("PATCH", "/api/v1/namespaces/default/pods/p0", operations)
    assert asked["headers"]["Content-Type"] == JSON_PATCH
    assert answer["metadata"]["name"] == "p0"


def test_a_pod_that_is_not_there_is_found_to_be_none(tmp_path: Path) -> None:
    with HttpFace.serving() as api:
        assert connected(api, tmp_path).find(namespaced("v1", "default", "pods", "p0")) is None


def test_a_watch_gives_events_and_ends_with_the_servers_words(tmp_path: Path) -> None:
    events: list[Any] = [
        {"type": "ADDED", "object": gpu_pod()},
        {"type": "ERROR", "object": {"code": 410, "message": "too old"}},
    ]
    with HttpFace.serving() as api:
        api.events["/api/v1/pods"] = events
        watch = connected(api, tmp_path).watch("/api/v1/pods", "7")
        assert next(watch)["object"]["metadata"]["name"] == "p0"
        with pytest.raises(ClusterError, match="too old") as caught:
            next(watch)
    assert caught.value.status == 410


@pytest.mark.parametrize(("status", "words"), [(403, "refused with 403"), (401, "does not know who you are")])
def test_a_refusal_is_one_line_with_exit_code_2(tmp_path: Path, status: int, words: str) -> None:
    with HttpFace.serving() as api:
        api.status = status
        with pytest.raises(ClusterError, match=words) as caught:
            connected(api, tmp_path).list("/api/v1/pods")
    assert (caught.value.exit_code, caught.value.status) == (2, status)
    assert "\n" not in caught.value.message


def test_an_api_server_that_is_not_there_is_named(tmp_path: Path) -> None:
    with HttpFace.serving() as api:
        cluster = connected(api, tmp_path)
    with pytest.raises(ClusterError, match=f"127.0.0.1:{api.port} cannot be reached"):
        cluster.list("/api/v1/pods")


@pytest.mark.parametrize(
    ("content", "words"),
    [(None, "none.yaml"), ("clusters: []", "kubeconfig"), ("{", "kubeconfig")],
    ids=["no file", "nothing in it", "not YAML"],
)
def test_a_kubeconfig_that_cannot_be_used_is_named(tmp_path: Path, content: str | None, words: str) -> None:
    path = tmp_path / "none.yaml"
    if content is not None:
        path.write_text(content)
    with pytest.raises(ClusterError, match=words):
        ClusterClient.connect(str(path), None)


def test_a_dump_is_read_back_as_it_was(tmp_path: Path) -> None:
    with HttpFace.serving(gpu_node(), gpu_pod()) as api:
        snapshot = live_snapshot(connected(api, tmp_path))
    path = tmp_path / "dump.json"
    path.write_text(json.dumps(dump_document(snapshot)))
    read = read_snapshot(str(path))
    assert [pod["metadata"] for pod in read.pods] == [pod["metadata"] for pod in snapshot.pods]
    assert [node["metadata"] for node in read.nodes] == [node["metadata"] for node in snapshot.nodes]
    assert read.taken_at == snapshot.taken_at
    assert read.taken_at is not None
    assert read.taken_at > Seconds(1.7e9)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "not JSON"),
        ("[]", "not a list of nodes and pods"),
        ('{"items": [{"kind": "Service"}]}', "item 1 is a 'Service'"),
        ('{"items": [{"kind": "Pod", "metadata": {}}]}', "no nodes"),
        ('{"items": [{"kind": "Pod", "metadata": "x"}]}', "item 1: metadata is not an object"),
        ('{"items": [{"kind": "Node", "metadata": {}, "spec": []}]}', "item 1: spec is not an object"),
    ],
)
def test_a_file_that_is_no_dump_says_what_it_should_be(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "dump.json"
    path.write_text(text)
    with pytest.raises(ClusterError, match=words):
        read_snapshot(str(path))


def test_a_file_and_a_kubeconfig_at_once_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ClusterError, match="--from reads a file"):
        Source.of("kubeconfig", None, "dump.json")


@pytest.mark.parametrize("levels", [2000, pytest.param(100_000, marks=pytest.mark.deep)])
def test_an_object_of_any_depth_hides_no_other(tmp_path: Path, levels: int) -> None:
    deep, event = nested(levels).decode(), {"type": "ADDED", "object": gpu_pod()}
    with HttpFace.serving() as api:
        api.texts["/api/v1/pods"] = f'{{"items":[{{"spec":{deep}}},{json.dumps(gpu_pod())}],"metadata":{{}}}}'
        api.texts["/api/v1/namespaces/team/pods/deep"] = f'{{"spec":{deep},"kind":"Pod"}}'
        cluster = connected(api, tmp_path)
        assert [raw.get("metadata", {}).get("name") for raw in cluster.list("/api/v1/pods").items] == [None, "p0"]
        assert cluster.get("/api/v1/namespaces/team/pods/deep")["kind"] == "Pod"
        del api.texts["/api/v1/pods"]
        api.events["/api/v1/pods"] = [f'{{"type":"ADDED","object":{{"spec":{deep}}}}}', event]
        kinds = [found["object"].get("metadata", {}).get("name") for found in cluster.watch("/api/v1/pods", "7")]
    assert kinds == [None, "p0"]


def test_lists_of_large_objects_are_read_in_shorter_pages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "LARGEST_ANSWER", 100_000)
    large = {"large": "x" * 3000}
    pods = [gpu_pod(f"p{number}", annotations=large) for number in range(70)]
    with HttpFace.serving(*pods) as api:
        found = connected(api, tmp_path).list("/api/v1/pods").items
        api.texts["/apis/large"] = "x" * 100_001
        with pytest.raises(ClusterError, match="GET /apis/large: the answer has more than 100,000 bytes"):
            connected(api, tmp_path).get("/apis/large")
    assert [pod["metadata"]["name"] for pod in found] == sorted(pod["metadata"]["name"] for pod in pods)
    asked = [asked["query"]["limit"] for _, path, asked in api.requests if path == "/api/v1/pods"]
    assert asked[:3] == ["100", "50", "25"]
