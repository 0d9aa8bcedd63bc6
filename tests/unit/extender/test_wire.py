"""The wire is that of kube-scheduler: golden bodies in, golden answers out, hostile ones refused by field."""

from __future__ import annotations

import json
import os
from collections import deque
from pathlib import Path
from typing import Any

import orjson
import pytest

from extender_bench import Bench
from hetserve_extender.verbs import wire
from testing.cluster import gpu_pod

GOLDEN = Path(__file__).parents[2] / "golden" / "extender"
CASES = sorted(path.name.removesuffix(".request.json") for path in GOLDEN.glob("*.request.json"))


@pytest.mark.parametrize("case", CASES)
async def test_a_verb_answers_as_the_golden_file_says(bench: Bench, case: str) -> None:
    """Files `VERB-case.request.json` and `.answer.json`; HETSERVE_UPDATE_GOLDEN=1 rewrites the answers."""
    verb = case.split("-", maxsplit=1)[0]
    if case.startswith("bind"):
        bench.api.add(gpu_pod("a", namespace="n", uid="u"))
    if case == "bind-refused":
        bench.api.faults["POST"] = deque([403])
    answer = await bench.verbs.post(f"/{verb}", content=(GOLDEN / f"{case}.request.json").read_bytes())
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "application/json"
    expected = GOLDEN / f"{case}.answer.json"
    if os.environ.get("HETSERVE_UPDATE_GOLDEN"):
        expected.write_text(json.dumps(answer.json(), indent=2) + "\n")
    assert answer.json() == json.loads(expected.read_text())


def test_every_verb_has_golden_files() -> None:
    assert {case.split("-")[0] for case in CASES} == {"filter", "prioritize", "bind"}


@pytest.mark.parametrize("lower", [False, True])
def test_keys_are_read_in_any_case(lower: bool) -> None:
    def key(name: str) -> str:
        return name.lower() if lower else name[0].lower() + name[1:]

    args = wire.parse_filter(orjson.dumps({key("Pod"): gpu_pod(), key("NodeNames"): ["n0"]}))
    assert args.names == ("n0",)
    bind = {key(name): name for name in ("PodName", "PodNamespace", "PodUID", "Node")}
    assert wire.parse_bind(orjson.dumps(bind)) == wire.BindArgs("PodName", "PodNamespace", "PodUID", "Node")


def test_whole_nodes_are_answered_with_whole_nodes() -> None:
    nodes = [{"metadata": {"name": name}, "spec": {"unschedulable": False}} for name in ("n0", "n1")]
    args = wire.parse_filter(orjson.dumps({"Pod": gpu_pod(), "Nodes": {"items": nodes}, "NodeNames": None}))
    answer = orjson.loads(wire.filter_result(args, ["n1"], {"n0": "why"}))
    assert answer["Nodes"]["items"] == [nodes[1]]
    assert answer["NodeNames"] is None


def test_both_forms_at_once_are_answered_in_both() -> None:
    nodes = {"items": [{"metadata": {"name": "n0"}}]}
    args = wire.parse_filter(orjson.dumps({"Pod": gpu_pod(), "Nodes": nodes, "NodeNames": ["n0"]}))
    answer = orjson.loads(wire.filter_result(args, ["n0"], {}))
    assert answer["NodeNames"] == ["n0"]
    assert answer["Nodes"]["items"] == nodes["items"]


HOSTILE = [
    pytest.param(b"", "not JSON", id="empty"),
    pytest.param(b"[" * 50_000, "not JSON", id="deep"),
    pytest.param(b'{"Pod":NaN}', "not JSON", id="NaN"),
    pytest.param(b"\xff\xfe", "not JSON", id="not UTF-8"),
    pytest.param(b"[]", "the request is not an object", id="a list"),
    pytest.param(b'{"NodeNames":[]}', "Pod is not an object", id="no pod"),
    pytest.param(b'{"Pod":{}}', "neither NodeNames nor Nodes", id="no nodes"),
    pytest.param(b'{"Pod":{},"NodeNames":"n0"}', "NodeNames is not a list", id="names are a text"),
    pytest.param(b'{"Pod":{},"NodeNames":[1]}', "NodeNames is not a list of texts", id="a number as name"),
    pytest.param(b'{"Pod":{},"Nodes":[]}', "Nodes is not an object", id="nodes are a list"),
    pytest.param(b'{"Pod":{},"Nodes":{"items":[{}]}}', "Nodes.items[0].metadata", id="a node without metadata"),
    pytest.param(b'{"Pod":{},"Nodes":{"items":7}}', "Nodes.items is not a list", id="items are a number"),
]


@pytest.mark.parametrize("verb", ["filter", "prioritize"])
@pytest.mark.parametrize(("body", "words"), HOSTILE)
async def test_what_is_not_of_the_protocol_is_a_bad_request(bench: Bench, verb: str, body: bytes, words: str) -> None:
    answer = await bench.verbs.post(f"/{verb}", content=body)
    assert answer.status_code == 400
    assert words in answer.json()["error"]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"PodUID": None}, "PodUID is missing"),
        ({"PodName": "../../nodes/n0"}, "PodName is not a name"),
        ({"PodNamespace": ".."}, "PodNamespace is not a name"),
        ({"Node": "x" * 300}, "Node is not a name"),
        ({"Node": ["n0"]}, "Node is missing or not a text"),
        ({"PodName": "a\nb"}, "PodName is not a name"),
    ],
)
async def test_a_bind_with_a_bad_name_reaches_no_api_server(bench: Bench, change: Any, words: str) -> None:
    body = {"PodName": "a", "PodNamespace": "n", "PodUID": "u", "Node": "n0"} | change
    answer = await bench.verbs.post("/bind", json=body)
    assert answer.status_code == 400
    assert words in answer.json()["error"]
    assert bench.api.calls == []


async def test_a_pod_without_uid_is_an_error_the_scheduler_can_show(bench: Bench) -> None:
    pod = gpu_pod()
    del pod["metadata"]["uid"]
    assert (await bench.filter(pod))["Error"] == "metadata.uid is missing"


async def test_a_body_above_the_limit_is_refused_unread(bench: Bench) -> None:
    body = orjson.dumps({"Pod": gpu_pod(), "NodeNames": ["n" * 50] * 4000})
    answer = await bench.verbs.post("/filter", content=body)
    assert answer.status_code == 413
    assert "larger than 100000 bytes" in answer.json()["error"]


async def test_duplicate_and_unknown_nodes_are_answered_once(bench: Bench) -> None:
    result = await bench.filter(gpu_pod(memory_mib=99999), "n0", "n0", "ghost", "ghost")
    assert list(result["FailedAndUnresolvableNodes"]) == ["n0", "ghost"]


async def test_other_methods_and_paths_are_refused(bench: Bench) -> None:
    assert (await bench.verbs.get("/filter")).status_code == 405
    assert (await bench.verbs.post("/preempt", content=b"{}")).status_code == 404
    assert (await bench.verbs.get("/ledger")).status_code == 404, "the ledger is not for the scheduler's port"


def _passed(*names: str) -> wire.PassedNames:
    """What a filter that passed these nodes leaves behind."""
    passed = wire.PassedNames()
    wire.filter_result(wire.FilterArgs({}, names), names, {}, passed)
    return passed


@pytest.mark.parametrize(
    "body",
    [
        b'{"Pod":{"a":1},"Nodes":null,"NodeNames":["n0","n1"]}',
        b'{"Pod":{"a":1},"Nodes":null,"NodeNames":["n1","n0"]}',
        b'{"NodeNames":["x"],"Pod":{},"NodeNames":["n0","n1"]}',
        b'{"Pod":{"a":1},"Nodes":null, "NodeNames":["n0","n1"]}',
        b'{"nodenames":["x"],"Pod":{},"NodeNames":["n0","n1"]}',
        b'{"Pod":{"a":"b,\\"NodeNames\\":[\\"n0\\",\\"n1\\"]}"},"NodeNames":["n1"]}',
        b'{"NodeNames":["x"],"Pod":{"a":1,"NodeNames":["n0","n1"]}}',
    ],
)
def test_names_that_the_last_filter_passed_are_read_as_any_others(body: bytes) -> None:
    assert wire.parse_filter(body, _passed("n0", "n1")) == wire.parse_filter(body)


@pytest.mark.parametrize(
    "body",
    [
        b'{,"NodeNames":["n0","n1"]}',
        b'{"Pod":{"a":1,"NodeNames":["n0","n1"]}',
        b'{"Pod":{}},"NodeNames":["n0","n1"]}',
        b'[1,"NodeNames":["n0","n1"]}',
        b'{"Pod":"a,"NodeNames":["n0","n1"]}',
        b',"NodeNames":["n0","n1"]}',
    ],
)
def test_the_names_of_the_last_filter_do_not_make_a_request_of_what_is_none(body: bytes) -> None:
    with pytest.raises(wire.WireError):
        wire.parse_filter(body)
    with pytest.raises(wire.WireError):
        wire.parse_filter(body, _passed("n0", "n1"))


def test_names_known_from_the_last_filter_are_the_very_same_tuple() -> None:
    passed, names = wire.PassedNames(), ("n0", "n1")
    wire.filter_result(wire.FilterArgs({}, names), names, {}, passed)
    body = orjson.dumps({"Pod": {}, "Nodes": None, "NodeNames": names})
    assert wire.parse_filter(body, passed).names is names


def test_hosts_of_scores_are_written_as_json_writes_them() -> None:
    scores = {"n0": 10, 'a"b\\': 0, "é": 7}
    expected = [{"Host": host, "Score": score} for host, score in scores.items()]
    assert orjson.loads(wire.priorities(scores)) == expected


def test_names_of_a_hostile_request_are_not_kept() -> None:
    long = "n" * (wire.PassedNames.MOST + 1)
    body = orjson.dumps({"Pod": {}, "Nodes": None, "NodeNames": [long]})
    assert _passed(long).request(body) is None
    entries = wire.HostEntries()
    assert entries[long][1] == b'{"Host":"%b","Score":1}' % long.encode()
    assert long not in entries
