"""An instance in virtual time: one query at a time, in order, for as long as it takes; and its paths."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any

import orjson
import pytest

from hetserve.base.units import Seconds
from hetserve.profiles import LinearProfile
from hetserve_shell.http.limits import HttpError
from hetserve_shell.http.takers import Head, Headers, Taker
from hetserve_worker.instance import MOST_BYTES, Instance
from hetserve_worker.models import ServedModel, echo
from hetserve_worker.oip import INFERENCE_HEADER
from hetserve_worker.service_times import ServiceTimes
from virtual_time import story

PROFILE = LinearProfile(Seconds(1.0), Seconds(0.5), max_batch=100)
INFER = b"/v2/models/m/infer"


@dataclass
class Reply:
    """What a client gets, and when."""

    status: int = 0
    headers: Headers = ()
    body: bytes = b""
    at: float = -1.0
    aborted: bool = False
    on_resume: Any = None
    paused: bool = False
    parts: list[bytes] = field(default_factory=list)

    def refuse(self, error: HttpError) -> None:
        self.answer(error.status, (), orjson.dumps({"error": str(error)}))

    def answer(self, status: int, headers: Headers, body: bytes | bytearray, _trailers: Headers = ()) -> None:
        assert self.at < 0, "answered twice"
        self.status, self.headers, self.body = status, headers, bytes(body)
        self.at = round(asyncio.get_running_loop().time(), 3)

    def abort(self) -> None:
        self.aborted = True

    @property
    def json(self) -> Any:
        return orjson.loads(self.body)


def head(path: bytes = INFER, method: bytes = b"POST", **headers: bytes) -> Head:
    named = [(name.replace("_", "-").encode(), value) for name, value in headers.items()]
    return Head(method, path, b"", named, 0)


def body(items: int = 1, **more: Any) -> bytes:
    return orjson.dumps(
        {"inputs": [{"name": "x", "datatype": "BOOL", "shape": [items], "data": [True] * items}], **more}
    )


def held(fault: str = "", model: ServedModel | None = None) -> Instance:
    """An instance that serves n items in 1 + n / 2 seconds."""
    return Instance("m", model or echo(), ServiceTimes(PROFILE, seed=0), fault)


def ask(instance: Instance, text: bytes | None = None, **headers: bytes) -> tuple[Reply, Taker]:
    reply, taker = Reply(), instance.asked(head(**headers))
    taker.take(body() if text is None else text, reply)  # type: ignore[arg-type]
    return reply, taker


def get(instance: Instance, path: bytes) -> Reply:
    reply = Reply()
    taker = instance.asked(head(path, b"GET"))
    reply.at = -1.0
    taker.take(b"", reply)  # type: ignore[arg-type]
    return reply


@story
async def test_queries_are_served_one_at_a_time_in_their_order() -> None:
    instance = held()
    first, second, third = (ask(instance, body(items))[0] for items in (2, 4, 1))
    await asyncio.sleep(2.5)
    late = ask(instance, body(1))[0]
    await asyncio.sleep(10)
    assert [one.at for one in (first, second, third, late)] == [2.0, 5.0, 6.5, 8.0]
    assert [one.status for one in (first, second, third, late)] == [200] * 4
    again = ask(instance, body(2))[0]
    await asyncio.sleep(3)
    assert again.at == 14.5


@story
async def test_a_wrong_query_is_answered_at_once_and_holds_nobody() -> None:
    instance = held()
    wrong, right = ask(instance, b"{")[0], ask(instance)[0]
    many = ask(instance, body(101))[0]
    await asyncio.sleep(5)
    assert (wrong.status, wrong.at) == (400, 0.0)
    assert (right.status, right.at) == (200, 1.5)
    assert (many.status, many.at) == (400, 1.5)
    assert many.json == {"error": "inputs: 101 items in the first dimension; must be as few as the profile serves"}


@story
async def test_who_leaves_while_it_waits_is_not_served_and_who_leaves_while_it_is_served_frees_nothing() -> None:
    instance = held()
    (served, leaver), (waiting, other), (last, _) = ask(instance, body(2)), ask(instance, body(100)), ask(instance)
    await asyncio.sleep(1)
    leaver.gone()
    other.gone()
    await asyncio.sleep(5)
    assert (served.at, waiting.at, last.at) == (-1.0, -1.0, 3.5)


@story
async def test_a_client_that_goes_before_its_body_is_whole_leaves_nothing() -> None:
    instance = held()
    instance.asked(head()).gone()
    reply = ask(instance)[0]
    await asyncio.sleep(5)
    assert reply.at == 1.5


@story
async def test_the_header_names_a_query_before_its_body_does() -> None:
    asked: list[str] = []

    class Times(ServiceTimes):
        def seconds(self, query: str, items: int) -> float:
            asked.append(query)
            return items / 2

    instance = Instance("m", echo(), Times(PROFILE, seed=0))
    for text, headers in ((body(id="b"), {}), (body(id="b"), {"x_request_id": b"h"}), (body(), {})):
        ask(instance, text, **headers)
    await asyncio.sleep(5)
    assert asked == ["b", "h", ""]


@story
async def test_without_a_profile_a_query_is_answered_at_once() -> None:
    instance = Instance("m", echo())
    reply = ask(instance, body(id="a"))[0]
    assert (reply.status, reply.at) == (200, 0.0)
    assert reply.json["id"] == "a"
    assert reply.json["model_name"] == "m"
    assert reply.json["outputs"][0]["data"] == [True]


@story
async def test_a_model_that_fails_is_an_error_of_the_server_and_the_next_query_is_served() -> None:
    calls = []

    def fail(inputs: Any) -> Any:
        calls.append(1)
        if len(calls) == 1:
            raise RuntimeError("out of memory")
        return inputs

    instance = held(model=ServedModel({"platform": "", "inputs": [], "outputs": []}, fail))
    failed, right = ask(instance)[0], ask(instance)[0]
    await asyncio.sleep(5)
    assert (failed.status, failed.json) == (500, {"error": "RuntimeError: out of memory"})
    assert (right.status, right.at) == (200, 1.5)


@story
async def test_faults_are_played() -> None:
    hanging, after = (ask(instance)[0] for instance in [held("hang")] * 2)
    broken = ask(held("reset"))[0]
    unready = held("unready")
    served = ask(unready)[0]
    await asyncio.sleep(1000)
    assert (hanging.at, after.at) == (-1.0, -1.0)
    assert broken.aborted
    assert served.status == 200
    for path in (b"/v2/health/ready", b"/v2/models/m/ready"):
        assert (get(unready, path).status, get(unready, path).json["ready"]) == (400, False)
    assert get(unready, b"/v2/health/live").status == 200


@story
async def test_the_paths_of_the_protocol_are_answered() -> None:
    instance = held(model=ServedModel({"platform": "p", "inputs": [], "outputs": []}, list))
    assert get(instance, b"/v2/health/live").json == {"live": True}
    ready = {"name": "m", "ready": True}
    for path in (b"/v2/health/ready", b"/v2/models/m/ready", b"/v2/models/m/versions/1/ready"):
        assert (get(instance, path).status, get(instance, path).json) == (200, ready)
    described = {"name": "m", "versions": ["1"], "platform": "p", "inputs": [], "outputs": []}
    for path in (b"/v2/models/m", b"/v2/models/m/versions/1"):
        assert get(instance, path).json == described
    server = get(instance, b"/v2").json
    assert server["name"] == "hetserve-worker"
    assert server["extensions"] == ["binary_tensor_data"]
    assert get(instance, b"/v2").headers == ((b"content-type", b"application/json"),)


@pytest.mark.parametrize(
    ("method", "path", "status", "message"),
    [
        (b"GET", b"/", 404, "path '/': must be one of /v2, /v2/health/live, /v2/health/ready, /v2/models/m/ready, "),
        (b"GET", b"/v2/", 404, "path '/v2/'"),
        (b"GET", b"/v2/health", 404, "path '/v2/health'"),
        (b"GET", b"/v2/models/other", 404, "path '/v2/models/other"),
        (b"POST", b"/v2/models/other/infer", 404, "path '/v2/models/other"),
        (b"POST", b"/v2/models/m/versions/2/infer", 404, "path '/v2/models/m/versions/2/infer'"),
        (b"POST", b"/v2/models/m/infer/x", 404, "path '/v2/models/m/"),
        (b"POST", b"/v2/models/m/unload", 404, "path '/v2/models/m/"),
        (b"GET", INFER, 405, "method of /v2/models/m/infer: must be POST"),
        (b"POST", b"/v2", 405, "method of /v2: must be GET"),
        (b"DELETE", b"/v2/models/m", 405, "method of /v2/models/m: must be GET"),
    ],
)
def test_other_paths_and_methods_are_refused(method: bytes, path: bytes, status: int, message: str) -> None:
    with pytest.raises(HttpError) as refused:
        held().asked(head(path, method))
    assert refused.value.status == status
    assert str(refused.value).startswith(message)
    allowed = {b"GET": b"POST"}.get(method, b"GET")
    assert list(refused.value.headers) == ([(b"allow", allowed)] if status == 405 else [])


def test_a_compressed_body_is_refused_before_it_is_read() -> None:
    with pytest.raises(HttpError, match="content-encoding 'gzip': must be identity") as refused:
        held().asked(head(content_encoding=b"gzip"))
    assert refused.value.status == 415
    assert held().asked(head(content_encoding=b"identity")).limit == MOST_BYTES


@story
async def test_binary_tensors_pass_through_an_instance() -> None:
    text = orjson.dumps(
        {
            "inputs": [{"name": "x", "datatype": "INT8", "shape": [3], "parameters": {"binary_data_size": 3}}],
            "outputs": [{"name": "x", "parameters": {"binary_data": True}}],
        }
    )
    length = str(len(text)).encode()
    reply = ask(Instance("m", echo()), text + b"abc", inference_header_content_length=length)[0]
    assert dict(reply.headers)[b"content-type"] == b"application/octet-stream"
    assert reply.body[int(dict(reply.headers)[INFERENCE_HEADER]) :] == b"abc"
