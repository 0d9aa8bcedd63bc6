"""The router as a process without a cluster: it serves what files name, refuses wrong ones, and ends in order."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import httpx
import pytest
from click.testing import CliRunner

from harness import limits
from hetserve_router.main import main
from listening import ROUTER, WORKER, listening
from testing import builders


def manifests(folder: Path) -> Path:
    path = folder / "rm2.json"
    items = [builders.service(), builders.instance_type(), builders.model_profile()]
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    return path


def instances(folder: Path, *entries: object) -> Path:
    path = folder / "instances.yaml"
    path.write_text(json.dumps(list(entries)))
    return path


def test_a_query_of_files_is_answered_and_sigterm_ends_it(tmp_path: Path) -> None:
    with listening(WORKER, "--model", "echo", "--name", "rm2", "--listen", "127.0.0.1:0") as (_, worker):
        entry = {"name": "a", "type": "g4dn.xlarge", "url": f"http://127.0.0.1:{worker}"}
        files = ("--manifests", str(manifests(tmp_path)), "--instances", str(instances(tmp_path, entry)))
        with listening(ROUTER, *files, "--port", "0", "--probe-port", "0", "--access-log", "all") as (process, port):
            tensor = {"name": "x", "shape": [3], "datatype": "INT64", "data": [1, 2, 3]}
            answer = httpx.post(
                f"http://127.0.0.1:{port}/v2/models/rm2/infer",
                json={"inputs": [tensor]},
                headers={"host": "rm2.default"},
                timeout=limits.ANSWER,
                trust_env=False,
            )
            assert answer.json()["outputs"][0]["data"] == [1, 2, 3]
            assert process.stdout is not None
            line = json.loads(process.stdout.readline())
            assert (line["instance"], line["items"], line["status"]) == ("a", 3, 200)
            process.send_signal(signal.SIGTERM)
            assert process.wait(limits.ANSWER) == 0


@pytest.mark.parametrize(
    ("entries", "named"),
    [
        pytest.param([{"name": "a", "type": "t"}], "[0].url", id="no url"),
        pytest.param([{"name": "a", "type": "t", "url": "grpc://x:1"}], "http://HOST:PORT", id="another scheme"),
        pytest.param([{"name": "a", "type": "t", "url": "http://x:99999"}], "http://HOST:PORT", id="a port beyond"),
        pytest.param([{"name": "a", "type": "t", "url": "http://x", "more": 1}], "[0].more", id="an unknown field"),
        pytest.param([{"name": "a", "type": "t", "url": "http://x", "service": "b/c"}], "default/rm2", id="a stranger"),
        pytest.param(2 * [{"name": "a", "type": "t", "url": "http://x"}], "twice", id="a name twice"),
        pytest.param(["x"], "[0]", id="no mapping"),
    ],
)
def test_wrong_instances_are_refused_with_the_place(tmp_path: Path, entries: list[object], named: str) -> None:
    files = ["--manifests", str(manifests(tmp_path)), "--instances", str(instances(tmp_path, *entries))]
    done = CliRunner().invoke(main, files)
    assert done.exit_code == 2
    assert named in done.output


@pytest.mark.parametrize(
    ("given", "named"),
    [
        pytest.param(["--instances", "x.yaml"], "--manifests and --instances go together", id="one without the other"),
        pytest.param(["--manifests", "absent", "--instances", "absent"], "absent", id="no such file"),
    ],
)
def test_wrong_flags_are_refused(given: list[str], named: str) -> None:
    done = CliRunner().invoke(main, given)
    assert done.exit_code == 2
    assert named in done.output
