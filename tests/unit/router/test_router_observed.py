"""What a router shows of what it has seen: loads it refused, times, instances that refuse it, lines of queries."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import httpx
import pytest
from click.testing import CliRunner

from hetserve.api.model_profile import ModelProfile
from hetserve.cli.app import app
from hetserve_router.access_log import AccessLog, Lines
from hetserve_router.router import Router
from hetserve_router.served import ServiceLimits
from hetserve_router.settings import RouterSettings
from http_clients import plain_client
from router_scene import HOST, RouterScene, routing, spec_of, until

Json = dict[str, Any]


async def shown(scene: RouterScene, path: str) -> httpx.Response:
    """What the probe port answers."""
    assert scene.router.addresses is not None
    async with plain_client("http://{}:{}".format(*scene.router.addresses["probes"])) as client:
        return await client.get(path)


async def lines_of(scene: RouterScene, path: str) -> list[Json]:
    return [json.loads(line) for line in (await shown(scene, path)).text.splitlines()]


async def served(scene: RouterScene, *sizes: int) -> None:
    for items in sizes:
        asking = scene.ask(items)
        (await scene.instances["a"].next()).answer()
        assert (await asking).status_code == 200


def requests(text: str, outcome: str) -> str:
    return next(line.split()[-1] for line in text.splitlines() if f'outcome="{outcome}",pod="",' in line)


@pytest.mark.parametrize(("of_all", "status"), [(False, 429), (True, 503)])
async def test_what_is_refused_unread_is_load_and_has_no_size(of_all: bool, status: int) -> None:
    async with routing("a", settings={"body": 1 << 20, "bodies": 1 << 20}) as scene:
        large = b'{"inputs":[{"shape":[8]}]}' + b" " * (600 << 10)
        first = scene.ask(content=large)
        held = await scene.instances["a"].next()
        if of_all:
            scene.router.services["default", "rm2"].limits = ServiceLimits()
        refused = await scene.ask(content=large)
        assert refused.status_code == status
        held.answer()
        assert (await first).status_code == 200
        text = await scene.metrics()
        assert (requests(text, "received"), requests(text, "dropped")) == ("2.0", "1.0")
        (count,) = [line for line in text.splitlines() if line.startswith("hetserve_request_batch_size_count{")]
        assert count.endswith(" 1.0")


async def test_a_body_that_is_too_large_is_no_load() -> None:
    async with routing("a", settings={"body": 1024}) as scene:
        assert (await scene.ask(content=b"x" * 2000)).status_code == 413
        assert requests(await scene.metrics(), "received") == "0.0"


async def test_times_are_shown_with_the_profile_that_they_may_correct() -> None:
    async with routing("a") as scene:
        await served(scene, 8, 8, 100)
        (line,) = await lines_of(scene, "/times")
        assert (line["namespace"], line["service"]) == ("default", "rm2")
        (kind,) = line["types"]
        assert {batch: len(times) for batch, times in kind["times"].items()} == {"8": 2, "100": 1}
        assert not kind["isShared"]
        assert kind["profile"]["metadata"] == {"name": "rm2-g4dn-xlarge", "namespace": "default"}
        assert kind["profile"]["spec"]["instanceType"] == "g4dn.xlarge"


async def test_the_command_line_makes_a_profile_of_what_a_router_shows() -> None:
    async with routing("a") as scene:
        await served(scene, 8, 100, 200)
        assert scene.router.addresses is not None
        url = "http://{}:{}".format(*scene.router.addresses["probes"])
        asked = ["profile", "learned", "rm2", "--url", url, "-o", "json"]
        done = await asyncio.to_thread(CliRunner().invoke, app, asked)
        assert done.exit_code == 0, done.stderr
        made = ModelProfile.model_validate_json(done.stdout)
        assert (made.metadata.name, made.spec.instance_type) == ("rm2-g4dn-xlarge", "g4dn.xlarge")


async def test_the_ratio_is_that_of_the_profile() -> None:
    async with routing("a") as scene:
        core = scene.router.services["default", "rm2"].core
        for _ in range(3):
            core.observed.add("g4dn.xlarge", 8, 2 * spec_of().latencies()["g4dn.xlarge"].mean(8))  # type: ignore[operator]
        labels = 'instance_type="g4dn.xlarge",namespace="default",service="rm2"'
        text = await scene.metrics()
        assert f"hetserve_profile_ratio{{{labels}}} 2.0" in text
        assert f"hetserve_expected_slowdown{{{labels}}} 1.0" in text


async def test_what_plans_count_with_on_shared_gpus_is_shown_beside_the_ratio() -> None:
    async with routing("a") as scene:
        alone = spec_of()
        scene.router.declare([replace(alone, facts=replace(alone.facts, slowdowns={"g4dn.xlarge": 1.75}))])
        await served(scene, 8)
        (line,) = await lines_of(scene, "/times")
        assert line["types"][0]["isShared"]
        labels = 'instance_type="g4dn.xlarge",namespace="default",service="rm2"'
        assert f"hetserve_expected_slowdown{{{labels}}} 1.75" in await scene.metrics()


async def test_who_refuses_is_counted_and_named_with_the_reason_until_it_is_ready() -> None:
    async with routing("a", "b") as scene:
        await scene.instances["a"].stop()
        asking = scene.ask()
        (await scene.instances["b"].next()).answer()
        assert (await asking).status_code == 200
        (line,) = await lines_of(scene, "/refusing")
        assert (line["service"], list(line["instances"])) == ("rm2", ["a"])
        assert "not sent" in line["instances"]["a"]
        counted = 'hetserve_router_refusing_instances{namespace="default",service="rm2"}'
        assert f"{counted} 1.0" in await scene.metrics()
        await scene.instances["a"].start()
        service = scene.router.services["default", "rm2"]
        service.now = lambda: time.monotonic() + 2
        service._wake()
        await until(lambda: not service.refusing())
        assert f"{counted} 0.0" in await scene.metrics()
        assert await lines_of(scene, "/refusing") == []


async def test_a_replica_that_does_not_lead_says_so_and_nothing_of_services() -> None:
    async with routing("a") as scene:
        assert 'hetserve_router_leader{router="default"} 1.0' in await scene.metrics()
        scene.router.front.serves = lambda: False
        text = await scene.metrics()
        assert 'hetserve_router_leader{router="default"} 0.0' in text
        assert "rm2" not in text
        for path in ("/times", "/refusing"):
            answer = await shown(scene, path)
            assert (answer.status_code, answer.json()) == (503, {"error": "another replica of the router leads"})


async def test_times_are_for_whom_the_check_lets_through() -> None:
    async def check(path: str, _credentials: object) -> None:
        asked.append(path)

    asked: list[str] = []
    settings = {"port": 0, "probePort": 0}
    router, stop = Router(RouterSettings.model_validate(settings), ("default",), check=check), asyncio.Event()
    running = asyncio.create_task(router.run(stop))
    await until(lambda: "probes" in router.addresses)
    async with plain_client("http://{}:{}".format(*router.addresses["probes"])) as client:
        for path in ("/times", "/refusing"):
            assert (await client.get(path)).status_code == 200
    assert asked == ["/times", "/refusing"]
    stop.set()
    await running


class GatheredLines(Lines):
    def __init__(self) -> None:
        super().__init__(1)
        self.all: list[bytes] = []

    def add(self, line: bytes) -> bool:
        self.all.append(line)
        return True


def a_log(scene: RouterScene, logged: Any) -> Iterator[Json]:
    """Replaces the log; its lines as they come."""
    lines = GatheredLines()
    log = AccessLog(logged, lines)
    scene.router.front.access_log = log
    for service in scene.router.services.values():
        service.access_log = log
    return (json.loads(line) for line in lines.all)


async def test_each_query_that_ends_has_a_line_in_the_access_log() -> None:
    async with routing("a", maxQueue=1) as scene:
        lines = a_log(scene, "all")
        asking = scene.ask(headers={"x-request-id": "7"})
        (await scene.instances["a"].next()).answer(body=b"{}")
        await asking
        line = next(lines)
        named = ("service", "instance", "items", "status", "bytesOut", "requestId")
        assert tuple(line[name] for name in named) == ("default/rm2", "a", 8, 200, 2, "7")
        assert line["bytesIn"] > 50
        assert min(line["queueMs"], line["serviceMs"]) >= 0
        assert (await scene.ask(content=b"no json")).status_code == 400
        assert (await scene.ask(items=5000)).status_code == 400
        assert (await scene.client.get("/v2/models/rm2/infer", headers={"host": "absent.default"})).status_code == 404
        served = scene.ask()
        held = await scene.instances["a"].next()
        leaving = scene.ask()
        await until(lambda: scene.router.services["default", "rm2"].core.waiting == 1)
        leaving.cancel()
        await until(lambda: scene.router.services["default", "rm2"].core.waiting == 0)
        held.answer()
        await served
        broken = scene.ask(more={"parameters": {"sequence_id": 5}})
        await scene.instances["a"].next()
        await scene.instances["a"].stop()
        assert (await broken).status_code == 502
        found = [(one["status"], one["service"], one.get("items"), one.get("instance")) for one in lines]
        assert found == [
            (400, "default/rm2", None, None),
            (400, "default/rm2", 5000, None),
            (404, "default/absent", None, None),
            (499, "default/rm2", 8, None),
            (200, "default/rm2", 8, "a"),
            (502, "default/rm2", 8, "a"),
        ]


@pytest.mark.parametrize(("logged", "number"), [("none", 0), ("errors", 1)])
async def test_of_errors_alone_or_of_nothing_there_is_a_line(logged: str, number: int) -> None:
    async with routing("a") as scene:
        lines = a_log(scene, logged)
        await served(scene, 8)
        assert (await scene.client.post("/v2/models/other/infer", headers=HOST)).status_code == 404
        assert len(list(lines)) == number
