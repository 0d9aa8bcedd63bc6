"""Whatever bytes arrive, the server answers in whole HTTP answers, forgets them, and serves the next good request.

The real protocol over sockets of this machine, with the real verbs behind it. No sentence here depends on time.
"""

from __future__ import annotations

import json
import re
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import uvloop
from hypothesis import example, given, settings
from hypothesis import strategies as st

from hetserve.api import names
from hetserve.base.units import Seconds
from hetserve.placement.event_handlers import NodeEventHandler
from hetserve.placement.placer import Placer
from hetserve_extender.observe.metrics import Metrics
from hetserve_extender.verbs.bind_sender import BindSender
from hetserve_extender.verbs.binding import BindStateMachine
from hetserve_extender.verbs.handlers import Verbs
from hetserve_shell.http.handlers import PathRouter
from hetserve_shell.http.limits import ServerLimits
from hetserve_shell.http.server import HttpServer
from http_clients import said
from testing.cluster import gpu_node, gpu_pod
from testing.extender import Unfenced
from testing.kit.apiserver import FakeApiServer

LIMITS = ServerLimits(head=2048, body=20_000, bodies=30_000, connections=16, waiting=5.0, lingering=0.05)
ANSWER = re.compile(rb"HTTP/1\.1 (\d{3}) [^\r]+\r\n((?:[^\r\n]+\r\n)*)\r\n")
STATUSES = {100, 200, 400, 404, 405, 408, 413, 417, 431, 501, 503}


def post(path: str, body: bytes, more: str = "") -> bytes:
    return f"POST {path} HTTP/1.1\r\nHost: x\r\n{more}Content-Length: {len(body)}\r\n\r\n".encode() + body


def filter_body(pod: Any, names: Any = ("n0",)) -> bytes:
    return json.dumps({"Pod": pod, "Nodes": None, "NodeNames": names}).encode()


GOOD = post("/filter", filter_body(gpu_pod("good", memory_mib=0)))
CLOSING = "Connection: close\r\n"
LAST = post("/filter", filter_body(gpu_pod("good", memory_mib=0)), CLOSING)
scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20)
values = st.recursive(scalars, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner))
lines = st.sampled_from(
    [
        b"POST /filter HTTP/1.1\r\n",
        b"POST /bind HTTP/1.1\r\n",
        b"GET / HTTP/1.1\r\n",
        b"Host: x\r\n",
        b"Content-Length: 5\r\n",
        b"Content-Length: 99999999999999999999\r\n",
        b"Content-Length: -1\r\n",
        b"Transfer-Encoding: chunked\r\n",
        b"Expect: 100-continue\r\n",
        b"Upgrade: h2c\r\nConnection: Upgrade\r\n",
        b"Connection: close\r\n",
        b" folded\r\n",
        b"X: \x00\xff\r\n",
        b"\r\n",
        b"\n",
        b"5\r\nhello\r\n",
        b"0\r\n\r\n",
        b"ffffffffffffffff\r\n",
        b"{}",
        b"X: " + b"y" * 3000,
        GOOD,
    ]
)
streams = st.lists(lines | st.binary(max_size=40), max_size=12).map(b"".join)


@asynccontextmanager
async def serving() -> AsyncIterator[tuple[HttpServer, int, Placer]]:
    placer = Placer(clock=lambda: Seconds(0.0), hold=Seconds(30.0))
    NodeEventHandler(placer).replace([gpu_node("n0"), gpu_node("n1")])
    binder = BindSender(FakeApiServer(), BindStateMachine(placer, Unfenced()))
    server = HttpServer(PathRouter(Verbs(placer, binder, Metrics(placer), lambda: "").routes()), LIMITS)
    listener = socket.create_server(("127.0.0.1", 0))
    await server.start(listener)
    try:
        yield server, listener.getsockname()[1], placer
    finally:
        await binder.drain(1.0)
        await server.stop(1.0)


def answers(data: bytes) -> list[tuple[int, bytes]]:
    """Statuses and bodies; fails where the bytes are anything but whole answers, or one follows the last."""
    found = []
    while data:
        match = ANSWER.match(data)
        assert match, f"not an HTTP answer: {data[:200]!r}"
        length = re.search(rb"content-length: (\d+)", match[2])
        end = match.end() + (int(length[1]) if length else 0)
        assert len(data) >= end, "an answer was cut off"
        found.append((int(match[1]), data[match.end() : end]))
        data = data[end:]
        assert not (data and b"connection: close" in match[2]), "what stands behind a last answer was served"
    return found


async def attacked(parts: list[bytes], *, leave: bool = True) -> list[tuple[int, bytes]]:
    """What a server answers to these parts; afterwards it must hold nothing of them and serve a good request."""
    async with serving() as (server, port, placer):
        found = answers(await said(port, parts, leave=leave))
        assert server.budget.used == 0, "memory of a request that is over is never given back"
        ((status, body),) = answers(await said(port, [LAST], leave=False))
        assert status == 200, "one client's nonsense costs the next its answer"
        assert json.loads(body)["NodeNames"] == ["n0"]
        assert placer.problems() == ()
    return found


@settings(deadline=None)
@given(stream=streams, cuts=st.lists(st.integers(1, 60), min_size=1, max_size=8))
@example(stream=GOOD * 3, cuts=[60])
@example(
    stream=b"POST /filter HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n" + GOOD,
    cuts=[9],
)
def test_any_bytes_get_whole_answers_and_the_next_request_is_served(stream: bytes, cuts: list[int]) -> None:
    parts: list[bytes] = []
    at = 0
    while at < len(stream):
        size = cuts[len(parts) % len(cuts)] if len(parts) < 40 else len(stream)
        parts.append(stream[at : at + size])
        at += size
    found = uvloop.run(attacked(parts))
    assert {status for status, _ in found} <= STATUSES


LISTS = (
    names.ANNOTATION_GPU_PRODUCT,
    names.ANNOTATION_GPU_PRODUCT_EXCLUDE,
    names.ANNOTATION_GPU_UUID,
    names.ANNOTATION_GPU_UUID_EXCLUDE,
)
lists = st.builds(
    lambda word, count: ",".join(f"{word}{number}" for number in range(count)),
    st.sampled_from(["", "T4", "X", " "]),
    st.sampled_from([1, 3, 128, 129, 1024, 1025]),
)
"""What a tenant may write into an annotation: as many as are read and more, of which no node has any."""
wishes = st.dictionaries(
    st.sampled_from([*LISTS, names.ANNOTATION_GPU, names.ANNOTATION_GPU_MEMORY]), lists, max_size=2
)
pods = st.fixed_dictionaries(
    {},
    optional={
        "metadata": values
        | st.fixed_dictionaries({}, optional={"name": values, "uid": values, "annotations": values | wishes}),
        "spec": values | st.fixed_dictionaries({}, optional={"containers": values, "initContainers": values}),
        "status": values,
    },
)
bodies = st.fixed_dictionaries(
    {}, optional={"Pod": values | pods, "NodeNames": values | st.lists(st.text(max_size=5)), "Nodes": values}
) | st.fixed_dictionaries(
    {}, optional=dict.fromkeys(("PodName", "PodNamespace", "PodUID", "Node"), values | st.text(max_size=300))
)
HOSTILE = [
    b"",
    b"{" * 10_000,
    b'{"Pod":' + b"[" * 9_000,
    b'{"Pod":{"metadata":{"uid":"\xff\xfe"}}}',
    b'{"Pod":{},"Pod":{"metadata":[]},"NodeNames":["n0","n0"]}',
    b'{"NodeNames":[NaN],"Pod":Infinity}',
    b'{"Pod":{"spec":{"containers":[{"resources":{"limits":{"hetserve.io/gpu-memory":1e400}}}]}},"NodeNames":["n0"]}',
    filter_body(gpu_pod() | {"metadata": {"name": "p0"}}),
    filter_body(gpu_pod(), ["n0"] * 50 + ["nowhere", "", "n0\u0000"]),
    filter_body(gpu_pod(memory_mib="9" * 300)),
    filter_body(gpu_pod(memory_mib="-4096")),
    filter_body(gpu_pod(annotations={key: ",".join(f"X{number}" for number in range(64)) for key in LISTS[:2]})),
    filter_body(gpu_pod(annotations={key: ",".join(f"X{number}" for number in range(65)) for key in LISTS[:2]})),
]


@settings(deadline=None)
@given(verb=st.sampled_from(["filter", "prioritize", "bind"]), body=bodies.map(lambda b: json.dumps(b).encode()))
@example(verb="filter", body=HOSTILE[0])
@example(verb="bind", body=HOSTILE[1])
@example(verb="filter", body=HOSTILE[2])
@example(verb="filter", body=HOSTILE[3])
@example(verb="filter", body=HOSTILE[4])
@example(verb="prioritize", body=HOSTILE[5])
@example(verb="filter", body=HOSTILE[6])
@example(verb="filter", body=HOSTILE[7])
@example(verb="prioritize", body=HOSTILE[8])
@example(verb="filter", body=HOSTILE[9])
@example(verb="filter", body=HOSTILE[10])
@example(verb="filter", body=HOSTILE[11])
@example(verb="filter", body=HOSTILE[12])
def test_any_body_gets_an_answer_of_the_protocol_or_a_clear_refusal(verb: str, body: bytes) -> None:
    ((status, answer),) = uvloop.run(attacked([post(f"/{verb}", body, CLOSING)], leave=False))
    content = json.loads(answer)
    if status == 400:
        assert content["error"], "nobody learns what is wrong with the request"
    elif verb == "bind":
        assert isinstance(content["Error"], str), "the scheduler cannot show what went wrong"
    elif verb == "prioritize":
        assert all(set(entry) == {"Host", "Score"} for entry in content)
    else:
        assert status == 200


def test_duplicate_and_unknown_nodes_are_answered_once_each() -> None:
    body = filter_body(gpu_pod(), ["n0", "n0", "nowhere"])
    ((status, answer),) = uvloop.run(attacked([post("/filter", body, CLOSING)], leave=False))
    content = json.loads(answer)
    assert (status, content["NodeNames"], content["Error"]) == (200, ["n0"], "")


def test_a_pod_without_uid_is_named_and_holds_nothing() -> None:
    pod = gpu_pod()
    del pod["metadata"]["uid"]
    ((status, answer),) = uvloop.run(attacked([post("/filter", filter_body(pod), CLOSING)], leave=False))
    assert (status, json.loads(answer)["Error"]) == (200, "metadata.uid is missing")
