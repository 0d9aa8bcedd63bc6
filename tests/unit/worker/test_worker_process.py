"""The worker as a process: several instances over the loopback, bad command lines, and its end."""

from __future__ import annotations

import json
import re
import shlex
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from documented_commands import NOT_RUN
from harness import limits
from hetserve_worker.main import main
from hetserve_worker.oip import INFERENCE_HEADER
from testing import builders

START = "from hetserve_worker import start; start()"
TENSOR = {"name": "x", "datatype": "INT8", "shape": [2], "data": [1, 2]}


@contextmanager
def running(*arguments: str, addresses: int = 1) -> Iterator[tuple[subprocess.Popen[str], list[HTTPConnection]]]:
    """A worker, and a connection to each of its addresses."""
    listening = [word for _ in range(addresses) for word in ("--listen", "127.0.0.1:0")]
    command = [sys.executable, "-c", START, *arguments, *listening]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        try:
            found = [re.search(r"127\.0\.0\.1:(\d+)", process.stderr.readline()) for _ in range(addresses)]
            with ExitStack() as stack:
                yield process, [stack.enter_context(connected(int(one[1]))) for one in found if one]
        finally:
            process.kill()


def connected(port: int) -> closing[HTTPConnection]:
    return closing(HTTPConnection("127.0.0.1", port, timeout=limits.ANSWER))


def asked(connection: HTTPConnection, path: str, body: bytes | None = None, **headers: str) -> tuple[int, Any]:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    connection.request("GET" if body is None else "POST", path, body, named)
    answer = connection.getresponse()
    return answer.status, json.loads(answer.read())


def query(*inputs: dict[str, Any], **more: Any) -> bytes:
    return json.dumps({"inputs": list(inputs or (TENSOR,)), **more}).encode()


@pytest.fixture
def profiles(tmp_path: Path) -> str:
    """A file with the profiles of two types, of 0.2 s and 0.4 s whatever is asked."""
    path = tmp_path / "profiles.json"
    items = [
        builders.model_profile(
            name, {"spec.instanceType": name, "spec.latency": {"linear": {"intercept": time, "slope": "0s"}}}
        )
        for name, time in (("fast", "200ms"), ("slow", "400ms"))
    ]
    items += [
        builders.model_profile(f"twice-{model}", {"spec.instanceType": "twice", "spec.model": model})
        for model in ("rm2", "ncf")
    ]
    line = {"linear": {"intercept": "1ms", "slope": "0s"}}
    several = {
        "spec.latency": builders.REMOVED,
        "spec.variants": [{"name": n, "latency": line} for n in ("tiny", "full")],
    }
    items.append(builders.model_profile("several", {"spec.instanceType": "several", **several}))
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    return str(path)


def test_each_address_of_a_process_is_an_instance() -> None:
    with running("--model", "echo", "--name", "rm2", addresses=3) as (_, connections):
        assert len({connection.port for connection in connections}) == 3
        for number, connection in enumerate(connections):
            assert asked(connection, "/v2/health/ready") == (200, {"name": "rm2", "ready": True})
            status, answer = asked(connection, "/v2/models/rm2/infer", query(id=str(number)))
            assert (status, answer["id"], answer["outputs"]) == (200, str(number), [TENSOR])
        kept = connections[0]
        for body in (b"[" * 5000, b'{"inputs": [{"shape": [-1]}]}', b"", query({**TENSOR, "shape": [2**62]})):
            status, answer = asked(kept, "/v2/models/rm2/infer", body)
            assert (status, list(answer)) == (400, ["error"])
            assert kept.sock is not None, "a wrong body ends the connection"
        assert asked(kept, "/v2/models/x/infer", query())[0] == 404
        assert asked(kept, "/v2/models/rm2/infer", query())[0] == 200


def test_large_binary_tensors_come_back_whole() -> None:
    raw = bytes(range(256)) * 2352
    sent = {"name": "x", "datatype": "UINT8", "shape": [len(raw)], "parameters": {"binary_data_size": len(raw)}}
    text = query(sent, parameters={"binary_data_output": True})
    with running("--model", "echo") as (_, (connection,)):
        header = INFERENCE_HEADER.decode()
        connection.request("POST", "/v2/models/echo/infer", text + raw, {header: str(len(text))})
        answer = connection.getresponse()
        assert answer.read()[int(answer.headers[header]) :] == raw


@pytest.mark.deep
def test_the_digits_are_served() -> None:
    with running("--model", "digits") as (_, (connection,)):
        assert asked(connection, "/v2/models/digits")[1]["platform"] == "scikit_learn"
        image = {"name": "images", "datatype": "FP32", "shape": [2, 64], "data": [[0] * 64, [16] * 64]}
        status, answer = asked(connection, "/v2/models/digits/infer", query(image, outputs=[{"name": "labels"}]))
        assert (status, answer["outputs"][0]["shape"]) == (200, [2])
        assert asked(connection, "/v2/models/digits/infer", query())[0] == 400


def test_a_worker_that_is_asked_to_end_answers_what_it_has_begun(profiles: str) -> None:
    timing = ("--profile", profiles, "--instance-type", "slow")
    with running("--model", "echo", *timing) as (process, (connection,)):
        connection.request("POST", "/v2/models/echo/infer", query())
        with connected(connection.port) as other:
            assert asked(other, "/v2/health/live")[0] == 200, "answered while a query is served"
        process.send_signal(signal.SIGTERM)
        answer: HTTPResponse = connection.getresponse()
        assert (answer.status, json.loads(answer.read())["outputs"]) == (200, [TENSOR])
        assert process.wait(limits.ANSWER) == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--listen", "localhost"), "'localhost' must be HOST:PORT, for example 127.0.0.1:9000"),
        (("--listen", "h:65536"), "'h:65536' must be HOST:PORT"),
        (("--listen", "h:٣"), "must be HOST:PORT"),
        ((), "Missing option '--listen'"),
        (("--listen", "h:1", "--profile", "PROFILES"), "--profile and --instance-type go together"),
        (("--listen", "h:1", "--instance-type", "slow"), "--profile and --instance-type go together"),
        (("--listen", "h:1", "--latency-factor", "2"), "and --latency-factor with them"),
        (
            ("--listen", "h:1", "--profile", "PROFILES", "--instance-type", "slow", "--latency-factor", "nan"),
            "'nan' is not a decimal",
        ),
        (("--listen", "h:1", "--profile", "absent.yaml", "--instance-type", "t"), "absent.yaml: cannot be read"),
        (
            ("--listen", "h:1", "--profile", "PROFILES", "--instance-type", "t4"),
            "0 profiles of t4, must be one; there are: rm2 on fast, rm2 on slow, rm2 on twice, ncf",
        ),
        (
            ("--listen", "h:1", "--profile", "PROFILES", "--instance-type", "twice"),
            "2 profiles of twice, must be one",
        ),
        (
            ("--listen", "h:1", "--profile", "PROFILES", "--instance-type", "several"),
            "there are several variants, and none is chosen: tiny, full; a worker serves one",
        ),
        (("--listen", "h:1", "--fault", "slow"), "'slow' is not one of 'unready', 'hang', 'reset'"),
    ],
)
def test_a_wrong_command_line_ends_with_code_2_and_says_what_is_right(
    arguments: tuple[str, ...], message: str, profiles: str
) -> None:
    words = [profiles if word == "PROFILES" else word for word in arguments]
    result = CliRunner().invoke(main, ["--model", "echo", *words])
    assert result.exit_code == 2, result.output
    assert message in " ".join(result.output.split())


def test_the_commands_that_the_pages_show_are_taken() -> None:
    told = [command for command in NOT_RUN if command.startswith("hetserve-worker ")]
    assert len(told) > 1
    for command in told:
        main.make_context("hetserve-worker", shlex.split(command)[1:])


def test_an_address_that_is_taken_ends_the_worker() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        result = CliRunner().invoke(main, ["--model", "echo", "--listen", address])
    assert result.exit_code == 1
    assert result.output.startswith(f"Error: cannot listen on {address}: Address already in use")
