"""A query by gRPC over loopback: to an instance and back, refused, retried, given up."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from hetserve_router.instances import InstanceAddress, InstanceLink
from hetserve_shell.http.grpc import field, framed
from router_scene import KEY, RouterScene, routing, until
from rpc_clients import RpcClient, message, message_of, rpc_client, status_of

INFER = "ModelInfer"
HEALTH = "/grpc.health.v1.Health/Check"
OVERLOADED, INVALID, NOT_FOUND, LATE, UNIMPLEMENTED, UNAVAILABLE = 8, 3, 5, 4, 12, 14


@asynccontextmanager
async def asked(*names: str, **given: Any) -> AsyncIterator[tuple[RouterScene, RpcClient]]:
    async with routing(*names, **given) as scene, rpc_client(*scene.router.addresses["queries"]) as client:
        yield scene, client


async def test_a_query_is_answered_by_an_instance_in_its_protocol() -> None:
    async with asked("a") as (scene, client):
        body = message("rm2", 8, 2)
        metadata = (("x-request-id", "7"), ("x-own", "no"), ("authorization", "Bearer t"))
        stream = await client.start_call(INFER, body, *metadata)
        held = await scene.instances["a"].next()
        assert (held.head.is_grpc, held.head.path) == (True, b"/inference.GRPCInferenceService/ModelInfer")
        assert [held.head.get(name) for name in (b"x-request-id", b"authorization", b"x-own")] == [
            b"7",
            b"Bearer t",
            b"",
        ]
        assert bytes(held.body) == body
        held.answer(body=b"answer")
        answer = await client.answer(stream)
        assert message_of(answer) == b"answer"
        assert (answer.status, answer.headers["content-type"]) == (200, "application/grpc")
        assert answer.headers["hetserve-instance"] == "a"
        assert answer.headers["server-timing"].startswith("queue;dur=")
        assert scene.router.services[KEY].held == (0, 0)


async def test_queries_beside_each_other_go_to_one_instance_one_by_one() -> None:
    async with asked("a") as (scene, client):
        first, second = [await client.start_call(INFER, message("rm2", 1)) for _ in range(2)]
        held = await scene.instances["a"].next()
        await until(lambda: scene.router.services[KEY].core.waiting == 1)
        assert not scene.instances["a"].got.qsize()
        held.answer()
        message_of(await client.answer(first))
        (await scene.instances["a"].next()).answer()
        message_of(await client.answer(second))


async def test_large_messages_pass_unchanged_both_ways() -> None:
    body = message("rm2", 4, raw=bytes(range(256)) * 4000)
    async with asked("a") as (scene, client):
        stream = await client.start_call(INFER, body)
        held = await scene.instances["a"].next()
        assert bytes(held.body) == body
        held.answer(body=bytes(held.body[5:]))
        assert framed(message_of(await client.answer(stream))) == body


@pytest.mark.parametrize(
    ("method", "body", "headers", "authority", "code", "remedy"),
    [
        (INFER, message("other", 1), (), "rm2.default", NOT_FOUND, "serves model rm2"),
        (INFER, message("rm2", 1), (), "rm3.default", NOT_FOUND, "default/rm3"),
        (INFER, message("rm2", 1), (), "x.y.z", NOT_FOUND, "hetserve-service: namespace/name"),
        (INFER, message("rm2", 5000), (), "rm2.default", INVALID, "items 5000: must be at most"),
        (INFER, message("rm2", 0), (), "rm2.default", INVALID, "shape[0] 0: must be from 1"),
        (INFER, framed(field(1, "rm2")), (), "rm2.default", INVALID, "inputs: must be"),
        (INFER, b"\1" + message("rm2", 1)[1:], (), "rm2.default", UNIMPLEMENTED, "identity"),
        (INFER, message("rm2", 1), (("grpc-encoding", "gzip"),), "rm2.default", UNIMPLEMENTED, "identity"),
        (INFER, message("rm2", 1), (("grpc-timeout", "5x"),), "rm2.default", INVALID, "one of HMSmun"),
        (INFER, message("rm2", 1), (("hetserve-items", "no"),), "rm2.default", INVALID, "whole number of items"),
        ("ModelStreamInfer", message("rm2", 1), (), "rm2.default", UNIMPLEMENTED, "ModelInfer"),
        ("/grpc.health.v1.Health/Watch", framed(b""), (), "rm2.default", UNIMPLEMENTED, "Check"),
        ("ModelReady", framed(field(1, "other")), (), "rm2.default", NOT_FOUND, "serves model rm2"),
    ],
)
async def test_what_is_not_served_is_refused_with_the_remedy(
    method: str, body: bytes, headers: tuple[tuple[str, str], ...], authority: str, code: int, remedy: str
) -> None:
    async with asked("a") as (scene, client):
        answer = await client.rpc(method, body, *headers, authority=authority)
        found, said = status_of(answer)
        assert (found, remedy in said) == (code, True), said
        if code == UNIMPLEMENTED:
            assert answer.headers["grpc-accept-encoding"] == "identity"
        assert not scene.instances["a"].got.qsize()
        assert scene.router.services[KEY].held == (0, 0)


async def test_a_service_is_named_by_metadata_where_a_gateway_keeps_the_authority() -> None:
    async with asked("a") as (scene, client):
        stream = await client.start_call(INFER, message("rm2", 1), ("hetserve-service", "default/rm2"), authority="gw")
        (await scene.instances["a"].next()).answer()
        message_of(await client.answer(stream))


async def test_what_is_not_declared_is_not_served_and_says_what_to_set() -> None:
    async with asked("a", ports={"http": 8000}) as (_, client):
        code, said = status_of(await client.rpc(INFER, message("rm2", 1)))
        assert (code, "set spec.dispatch.ports.grpc" in said) == (UNIMPLEMENTED, True)
    async with routing("a", ports={"grpc": 8001}) as scene:
        answer = await scene.ask()
        assert (answer.status_code, "set spec.dispatch.ports.http" in answer.text) == (415, True)


async def test_without_an_instance_a_query_is_refused_at_once() -> None:
    async with asked() as (_, client):
        answer = await client.rpc(INFER, message("rm2", 1))
        assert status_of(answer)[0] == UNAVAILABLE
        assert int(answer.headers["retry-after"]) >= 1


async def test_a_full_queue_refuses_more() -> None:
    async with asked("a", maxQueue=1) as (scene, client):
        streams = [await client.start_call(INFER, message("rm2", 1)) for _ in range(2)]
        held = await scene.instances["a"].next()
        await until(lambda: scene.router.services[KEY].core.waiting == 1)
        assert status_of(await client.rpc(INFER, message("rm2", 1)))[0] == OVERLOADED
        held.answer()
        (await scene.instances["a"].next()).answer()
        for stream in streams:
            message_of(await client.answer(stream))


@pytest.mark.parametrize(
    ("body", "metadata"),
    [
        (message("rm2", 1), (("grpc-timeout", "50m"),)),
        (message("rm2", 1, timeout=50_000), ()),
        (message("rm2", 1), (("x-envoy-expected-rq-timeout-ms", "50"),)),
    ],
)
async def test_what_cannot_end_by_its_deadline_is_dropped(body: bytes, metadata: tuple[tuple[str, str], ...]) -> None:
    async with asked("a") as (scene, client):
        served = await client.start_call(INFER, message("rm2", 1))
        held = await scene.instances["a"].next()
        assert status_of(await client.rpc(INFER, body, *metadata))[0] == LATE
        held.answer()
        await client.answer(served)


async def test_a_query_that_was_not_sent_goes_to_another_instance_but_none_of_a_sequence() -> None:
    async with asked("a", "b") as (scene, client):
        await scene.instances["a"].stop()
        streams = [await client.start_call(INFER, message("rm2", 1)) for _ in range(2)]
        for _ in streams:
            (await scene.instances["b"].next()).answer()
        assert [(await client.answer(one)).headers["hetserve-instance"] for one in streams] == ["b", "b"]
    async with asked("a") as (scene, client):
        await scene.instances["a"].stop()
        code, said = status_of(await client.rpc(INFER, message("rm2", 1, sequence_id=3)))
        assert (code, "its instance failed" in said) == (UNAVAILABLE, True)


async def test_a_query_that_an_instance_may_have_computed_is_not_asked_twice() -> None:
    async with asked("a") as (scene, client):
        stream = await client.start_call(INFER, message("rm2", 1))
        held = await scene.instances["a"].next()
        assert held.reply is not None
        held.reply.abort()
        assert status_of(await client.answer(stream))[0] == UNAVAILABLE
        assert not scene.instances["a"].got.qsize()


@pytest.mark.parametrize("is_ready", [True, False])
async def test_an_instance_of_grpc_alone_is_asked_by_grpc_whether_its_model_is_ready(is_ready: bool) -> None:
    async with asked("a") as (scene, _):
        scene.instances["a"].ready = is_ready
        link = InstanceLink(1, InstanceAddress("a", "a", "t", "127.0.0.1", None, scene.instances["a"].port), 0)
        heard = asyncio.get_running_loop().create_future()
        link.probe("rm2", heard.set_result, asyncio.get_running_loop().call_later)
        assert await heard is is_ready
        link.close()


async def test_a_client_that_cancels_while_it_waits_is_out_of_the_queue() -> None:
    async with asked("a") as (scene, client):
        served, leaving = [await client.start_call(INFER, message("rm2", 1)) for _ in range(2)]
        held = await scene.instances["a"].next()
        core = scene.router.services[KEY].core
        await until(lambda: core.waiting == 1)
        client.reset(leaving)
        await until(lambda: core.waiting == 0)
        held.answer()
        message_of(await client.answer(served))
        assert not scene.instances["a"].got.qsize()


async def test_a_client_whose_connection_ends_is_out_of_the_queue() -> None:
    async with asked("a") as (scene, client):
        for _ in range(2):
            await client.start_call(INFER, message("rm2", 1))
        held = await scene.instances["a"].next()
        core = scene.router.services[KEY].core
        await until(lambda: core.waiting == 1)
        client.writer.close()
        await until(lambda: core.waiting == 0)
        held.answer()


async def test_an_instances_own_status_is_passed_on_and_its_time_tells_nothing() -> None:
    async with asked("a") as (scene, client):
        stream = await client.start_call(INFER, message("rm2", 1))
        held = await scene.instances["a"].next()
        assert held.reply is not None
        own = [(b"content-type", b"application/grpc"), (b"grpc-status", b"3"), (b"grpc-message", b"no%25")]
        held.reply.answer(200, own, b"")
        answer = await client.answer(stream)
        assert (status_of(answer), answer.body) == ((INVALID, "no%"), b"")


async def test_of_the_model_an_instance_answers_and_of_health_the_router() -> None:
    async with asked("a") as (scene, client):
        assert message_of(await client.rpc("ModelReady", framed(field(1, "rm2")))) == field(1, 1)
        for method in ("ServerLive", "ServerReady", HEALTH):
            assert message_of(await client.rpc(method, framed(b""))) == field(1, 1)
        assert message_of(await client.rpc(HEALTH, framed(field(1, "inference.GRPCInferenceService")))) == field(1, 1)
        assert b"hetserve" in message_of(await client.rpc("ServerMetadata", framed(b"")))
        scene.router.front.serves = lambda: False
        assert message_of(await client.rpc(HEALTH, framed(b""))) == field(1, 2)
        assert message_of(await client.rpc("ServerReady", framed(b""))) == b""


async def test_who_does_not_lead_sends_its_clients_to_another_connection() -> None:
    async with asked("a") as (scene, client):
        scene.router.front.serves = lambda: False
        assert status_of(await client.rpc(INFER, message("rm2", 1)))[0] == UNAVAILABLE
        await client.until(lambda: bool(client.last))


async def test_who_parts_answers_what_has_come() -> None:
    async with asked("a") as (scene, client):
        stream = await client.start_call(INFER, message("rm2", 1))
        held = await scene.instances["a"].next()
        scene.router.part()
        await client.until_last()
        held.answer()
        message_of(await client.answer(stream))
        await client.until_closed()


async def test_what_is_served_and_refused_is_counted() -> None:
    async with asked("a") as (scene, client):
        stream = await client.start_call(INFER, message("rm2", 100))
        (await scene.instances["a"].next()).answer()
        await client.answer(stream)
        text = await scene.metrics()
        assert 'outcome="received",pod="",service="rm2"} 1.0' in text
        assert 'outcome="served",pod="a",service="rm2"} 1.0' in text


async def test_http_over_http2_is_served_as_over_http1() -> None:
    async with asked("a") as (scene, client):
        body = b'{"inputs":[{"name":"x","shape":[2],"datatype":"FP32","data":[0,0]}]}'
        stream = client.h2.get_next_available_stream_id()
        fields = [(":method", "POST"), (":scheme", "http"), (":path", "/v2/models/rm2/infer")]
        client.h2.send_headers(stream, [*fields, (":authority", "rm2.default"), ("content-length", str(len(body)))])
        await client.send(stream, body)
        held = await scene.instances["a"].next()
        assert not held.head.is_grpc, "instances are asked in the protocol of the client: HTTP"
        held.answer()
        answer = await client.answer(stream)
        assert (answer.status, answer.body) == (200, b'{"outputs":[]}')
