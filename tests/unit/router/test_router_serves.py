"""A query's whole life over loopback: to an instance and back, refused, retried, given up."""

from __future__ import annotations

import asyncio

import pytest

from hetserve_router.instances import InstanceAddress
from hetserve_router.router import Router
from hetserve_router.settings import RouterSettings
from http_clients import plain_client
from router_scene import HOST, KEY, routing, spec_of, until


async def test_a_query_is_answered_by_an_instance() -> None:
    async with routing("a") as scene:
        asking = scene.ask(headers={"x-request-id": "7", "x-own": "no", "authorization": "Bearer t"})
        held = await scene.instances["a"].next()
        assert held.head.path == b"/v2/models/rm2/infer"
        assert held.head.get(b"x-request-id") == b"7"
        assert held.head.get(b"authorization") == b"Bearer t"
        assert held.head.get(b"x-own") == b""
        held.answer(200, b'{"id":"7"}', etag="e", keep_alive="no")
        answer = await asking
        assert (answer.status_code, answer.json()) == (200, {"id": "7"})
        assert answer.headers["hetserve-instance"] == "a"
        assert answer.headers["etag"] == "e"
        assert "keep-alive" not in answer.headers
        assert answer.headers["server-timing"].startswith("queue;dur=")


async def test_an_instance_serves_one_query_at_a_time() -> None:
    async with routing("a") as scene:
        first, second = scene.ask(), scene.ask()
        (await scene.instances["a"].next()).answer()
        assert (await first).status_code == 200
        assert not second.done()
        (await scene.instances["a"].next()).answer()
        assert (await second).status_code == 200


async def test_an_instances_own_refusal_is_passed_on() -> None:
    async with routing("a") as scene:
        asking = scene.ask()
        (await scene.instances["a"].next()).answer(400, b'{"error":"shape"}')
        assert (await asking).status_code == 400


async def test_without_an_instance_a_query_is_refused_at_once() -> None:
    async with routing() as scene:
        answer = await scene.ask()
        assert answer.status_code == 503
        assert int(answer.headers["retry-after"]) >= 1
        assert "no instance" in answer.json()["error"]


async def test_a_full_queue_refuses_more() -> None:
    async with routing("a", maxQueue=1) as scene:
        served = scene.ask()
        held = await scene.instances["a"].next()
        waiting = scene.ask()
        await until(lambda: scene.router.services["default", "rm2"].core.waiting == 1)
        refused = await scene.ask()
        assert refused.status_code == 429
        assert "retry-after" in refused.headers
        held.answer()
        (await scene.instances["a"].next()).answer()
        assert [(await one).status_code for one in (served, waiting)] == [200, 200]


async def test_what_cannot_end_by_its_deadline_is_dropped() -> None:
    async with routing("a") as scene:
        served = scene.ask()
        held = await scene.instances["a"].next()
        late = await scene.ask(more={"parameters": {"timeout": 50_000}})
        assert late.status_code == 504
        gateway = await scene.ask(headers={"x-envoy-expected-rq-timeout-ms": "50"})
        assert gateway.status_code == 504
        held.answer()
        await served


async def test_a_query_that_was_not_sent_goes_to_another_instance() -> None:
    async with routing("a", "b") as scene:
        await scene.instances["a"].stop()
        one, other = scene.ask(), scene.ask()
        for _ in range(2):
            (await scene.instances["b"].next()).answer()
        answers = [await one, await other]
        assert [answer.headers["hetserve-instance"] for answer in answers] == ["b", "b"]


async def test_a_query_of_a_sequence_is_not_asked_twice() -> None:
    async with routing("a") as scene:
        await scene.instances["a"].stop()
        answer = await scene.ask(more={"parameters": {"sequence_id": 3}})
        assert answer.status_code == 502


async def test_a_query_that_an_instance_may_have_computed_is_not_asked_twice() -> None:
    async with routing("a") as scene:
        asking = scene.ask()
        held = await scene.instances["a"].next()
        assert held.reply is not None
        held.reply.abort()
        assert (await asking).status_code == 502
        assert not scene.instances["a"].got.qsize()


async def test_the_answer_of_an_instance_whose_client_has_left_is_not_lost_to_its_instance() -> None:
    async with routing("a") as scene:
        asking = scene.ask()
        held = await scene.instances["a"].next()
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)
        other = scene.ask()
        await asyncio.sleep(0.05)
        assert not scene.instances["a"].got.qsize(), "the instance still computes the query of the client that left"
        held.answer()
        (await scene.instances["a"].next()).answer()
        assert (await other).status_code == 200


async def test_a_client_that_leaves_while_it_waits_is_out_of_the_queue() -> None:
    async with routing("a") as scene:
        served, leaving = scene.ask(), scene.ask()
        held = await scene.instances["a"].next()
        core = scene.router.services["default", "rm2"].core
        await until(lambda: core.waiting == 1)
        leaving.cancel()
        await until(lambda: core.waiting == 0)
        held.answer()
        await served
        assert not scene.instances["a"].got.qsize()


async def test_a_large_body_and_answer_pass_unchanged() -> None:
    body = b'{"inputs":[{"name":"x","shape":[4],"datatype":"FP32","data":[' + b"1," * 400_000 + b"1]}]}"
    async with routing("a") as scene:
        asking = scene.ask(content=body, headers={"content-type": "application/json"})
        held = await scene.instances["a"].next()
        assert bytes(held.body) == body
        held.answer(200, body)
        assert (await asking).content == body


async def test_an_instance_that_goes_ends_what_it_has() -> None:
    async with routing("a", "b") as scene:
        asking = scene.ask()
        held = await scene.instances["a"].next()
        scene.stand("b")
        held.answer()
        assert (await asking).headers["hetserve-instance"] == "a"


async def test_an_instance_that_gets_another_address_is_asked_there() -> None:
    async with routing("a", "b") as scene:
        before, after = scene.instances["a"], scene.instances["b"]
        scene.stand("a")
        before.port = after.port
        scene.stand("a")
        asking = scene.ask()
        (await after.next()).answer()
        assert (await asking).headers["hetserve-instance"] == "a"
        assert not before.got.qsize()


async def test_other_paths_are_forwarded_where_they_are_listed_and_posted() -> None:
    async with routing("a", paths=["/v1/models/rm2"]) as scene:
        asking = scene.ask(path="/v1/models/rm2/predict?x=1", content=b"anything")
        held = await scene.instances["a"].next()
        assert (held.head.path, held.head.query, bytes(held.body)) == (b"/v1/models/rm2/predict", b"x=1", b"anything")
        held.answer()
        assert (await asking).status_code == 200
        assert (await scene.ask(path="/v1/models/rm2x", content=b"")).status_code == 404
        assert (await scene.client.get("/v1/models/rm2", headers=HOST)).status_code == 405


async def test_of_the_model_an_instance_answers_and_of_health_the_router() -> None:
    async with routing("a") as scene:
        about = await scene.client.get("/v2/models/rm2", headers=HOST)
        assert about.json() == {"name": "rm2"}
        assert (await scene.client.get("/v2/health/live")).json() == {"live": True}
        assert (await scene.client.get("/v2/health/ready")).json() == {"ready": True}
        assert (await scene.client.get("/v2")).json()["name"] == "hetserve"
        assert (await scene.client.get("/v2/models/other", headers=HOST)).status_code == 404
        assert (await scene.client.get("/v2/models/rm2/infer", headers=HOST)).status_code == 405


async def test_what_is_served_and_refused_is_counted() -> None:
    async with routing("a", maxQueue=1) as scene:
        asking = scene.ask(items=100)
        (await scene.instances["a"].next()).answer()
        await asking
        served = scene.ask()
        held = await scene.instances["a"].next()
        assert (await scene.ask(more={"parameters": {"timeout": 1000}})).status_code == 504
        assert (await scene.ask(items=5000)).status_code == 400
        held.answer()
        await served
        text = await scene.metrics()
        assert 'outcome="received",pod="",service="rm2"} 3.0' in text
        assert 'outcome="dropped",pod="",service="rm2"} 1.0' in text
        assert 'outcome="served",pod="a",service="rm2"} 2.0' in text


async def test_nothing_is_held_once_all_has_ended() -> None:
    async with routing("a") as scene:
        for _ in range(3):
            asking = scene.ask()
            (await scene.instances["a"].next()).answer()
            await asking
        await scene.ask(content=b"no json")
        service = scene.router.services["default", "rm2"]
        assert service.held == (0, 0)


async def test_the_head_of_what_an_instance_says_of_its_model_names_its_length() -> None:
    async with routing("a") as scene:
        assert (await scene.client.head("/v2/models/rm2", headers=HOST)).headers["content-length"] == "14"


async def test_of_the_model_an_instance_is_asked_that_answers_queries() -> None:
    async with routing("a", "b") as scene:
        await scene.instances["a"].stop()
        asking = scene.ask()
        (await scene.instances["b"].next()).answer()
        await asking
        assert (await scene.client.get("/v2/models/rm2/ready", headers=HOST)).status_code == 200


async def test_an_instance_that_is_silent_about_its_model_keeps_nobody_waiting() -> None:
    async with routing("a") as scene:
        service = scene.router.services[KEY]
        service.later = lambda _delay, call: asyncio.get_running_loop().call_later(0, call)
        scene.instances["a"].is_silent = True
        answer = await scene.client.get("/v2/models/rm2", headers=HOST)
        assert (answer.status_code, "instance a" in answer.json()["error"]) == (502, True)


async def test_who_does_not_lead_sends_its_clients_to_another_connection() -> None:
    async with routing("a") as scene:
        scene.router.front.serves = lambda: False
        answer = await scene.ask()
        assert (answer.status_code, answer.headers["connection"]) == (503, "close")


async def test_a_query_that_asks_as_one_before_is_taken_by_what_is_declared_now() -> None:
    async with routing("a") as scene:
        for declared, status in [
            ([spec_of()], 200),
            ([], 404),
            ([spec_of()], 200),
            ([spec_of(ports={"grpc": 8001})], 415),
            ([spec_of()], 200),
        ]:
            scene.router.declare(declared)
            scene.stand("a")
            for _ in range(2):
                asking = scene.ask()
                if status == 200:
                    (await scene.instances["a"].next()).answer()
                assert (await asking).status_code == status
        scene.router.front.serves = lambda: False
        assert (await scene.ask()).status_code == 503


async def test_a_service_that_is_gone_has_no_load_and_later_no_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    async with routing("a") as scene:
        served, waiting = scene.ask(), scene.ask()
        held = await scene.instances["a"].next()
        service = scene.router.services[KEY]
        await until(lambda: service.core.waiting == 1)
        assert 'in_flight{instance_type="",model="rm2",namespace="default",pod="",service="rm2"} 1.0' in (
            await scene.metrics()
        )
        scene.router.declare([])
        assert (await waiting).status_code == 503
        held.answer()
        assert (await served).status_code == 200
        text = await scene.metrics()
        assert 'in_flight{instance_type="",model="rm2",namespace="default",pod="",service="rm2"} 0.0' in text
        assert 'outcome="served",pod="a",service="rm2"} 1.0' in text
        monkeypatch.setattr("hetserve_router.router.STAYS", -1.0)
        scene.router.declare([])
        assert "rm2" not in await scene.metrics()


async def test_who_ends_serves_what_comes_after_it_gave_its_lease_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hetserve_router.router.QUIET", 60.0)
    settings = RouterSettings.model_validate({"port": 0, "probePort": 0, "probeAuthorization": "none"})
    router, stop, given = Router(settings, ("default",)), asyncio.Event(), asyncio.Event()

    async def give_up() -> None:
        given.set()

    running = asyncio.create_task(router.run(stop, give_up))
    await until(lambda: "probes" in router.addresses)
    stop.set()
    await given.wait()
    for _ in range(10):
        await asyncio.sleep(0)
    async with plain_client("http://{}:{}".format(*router.addresses["queries"])) as client:
        ready = await client.get("/v2/health/ready")
        assert (ready.status_code, ready.json()) == (503, {"ready": False}), (
            "a gateway asks this to lead its callers away"
        )
        answer = await client.get("/v2/models/rm2", headers=HOST)
        assert answer.status_code == 404, "it still takes queries: another replica would say 503"
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


def test_a_service_has_a_quarter_of_the_connections_that_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hetserve_shell.http.server.raise_limit", lambda: 1000)
    router = Router(RouterSettings.model_validate({}), ("default",))
    router.declare([spec_of()])
    assert router.services[KEY].limits.open < 250


async def test_an_instance_of_a_type_without_a_profile_gets_no_query_and_is_named(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with routing("a") as scene:
        scene.router.stand({KEY: [InstanceAddress("odd", "odd", "unknown", "127.0.0.1", scene.instances["a"].port)]})
        assert (await scene.ask()).status_code == 503
    assert "instance odd gets no query: unknown: there is no profile for this type" in caplog.text
