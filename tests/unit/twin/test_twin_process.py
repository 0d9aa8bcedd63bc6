"""The parts put together: pods of an API server join and drain, the port answers, and SIGTERM ends in order."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest
import pytest_asyncio
from prometheus_client.parser import text_string_to_metric_families

from harness import limits
from hetserve_twin.main import read_loads
from hetserve_twin.settings import TwinSettings
from hetserve_twin.twin import NOT_SYNCED, Twin
from http_clients import plain_client
from testing import builders
from testing.cluster import gpu_node, serving_pod
from testing.kit.apiserver import FakeApiServer
from testing.kit.reviews import ReviewingApi

SERVICE = {"namespace": "default", "service": "rm2", "model": "rm2"}
TYPE = "g4dn.xlarge"


@dataclass
class Clock:
    """Time that passes where a test says so. due: ends of the sleeps under way."""

    now: float = 100.0
    due: list[tuple[float, asyncio.Event]] = field(default_factory=list)

    def __call__(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        over = asyncio.Event()
        self.due.append((self.now + seconds, over))
        await over.wait()

    async def passes(self, seconds: float) -> None:
        """Lets time pass, sleep by sleep."""
        end = self.now + seconds
        while True:
            for _ in range(20):  # whoever was woken goes to sleep again
                await asyncio.sleep(0)
            self.due.sort(key=lambda entry: entry[0])
            if not self.due or self.due[0][0] > end:
                self.now = end
                return
            at, over = self.due.pop(0)
            self.now = at
            over.set()


@dataclass
class Scene:
    api: FakeApiServer
    clock: Clock
    twin: Twin
    stop: asyncio.Event
    running: asyncio.Task[None]

    async def get(self, path: str, token: str = "") -> httpx.Response:
        assert self.twin.address is not None
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        async with plain_client() as client:
            return await client.get("http://{}:{}{}".format(*self.twin.address, path), headers=headers)

    async def samples(self) -> Callable[..., float | None]:
        """Value of the sample with this name and these labels; empty labels count as absent ones."""
        text = (await self.get("/metrics")).text
        found = {
            (sample.name, frozenset((k, v) for k, v in sample.labels.items() if v)): sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
        }
        return lambda name, **labels: found.get((name, frozenset(labels.items())))


def a_cluster() -> FakeApiServer:
    api = FakeApiServer()
    api.add(gpu_node("n0"))
    api.add(builders.instance_type())
    api.add(builders.model_profile())
    api.add(builders.service())
    return api


def settings(folder: Path, text: str = "time_s,qps\n0,20\n", **given: Any) -> TwinSettings:
    (folder / "load.csv").write_text(text)
    loads = [{"service": "rm2", "trace": str(folder / "load.csv")}]
    common = {"host": "127.0.0.1", "port": 0, "probeAuthorization": "none", "loads": loads, "policy": "fcfs"}
    return TwinSettings.model_validate({**common, **given})


@pytest_asyncio.fixture
async def scene(tmp_path: Path) -> AsyncIterator[Scene]:
    api, clock, stop = a_cluster(), Clock(), asyncio.Event()
    options = settings(tmp_path)
    twin = Twin(options, read_loads(options), api, clock, clock.sleep)
    running = asyncio.create_task(twin.run(stop))
    await asyncio.wait_for(twin.playing.wait(), limits.ROLLOUT)
    yield Scene(api, clock, twin, stop, running)
    stop.set()
    while not running.done():
        await clock.passes(1.0)
    await running


async def test_zeros_are_there_before_the_first_query(scene: Scene) -> None:
    assert (await scene.get("/readyz")).status_code == 200
    value = await scene.samples()
    for outcome in ("received", "served", "dropped"):
        assert value("hetserve_requests_total", **SERVICE, outcome=outcome) == 0
    assert value("hetserve_request_duration_seconds_bucket", **SERVICE, le="0.35") == 0
    assert value("hetserve_request_batch_size_count", **SERVICE) == 0
    assert value("hetserve_requests_in_flight", **SERVICE) == 0
    assert value("hetserve_twin_target_qps", **SERVICE) == 0


async def test_queries_wait_until_a_pod_is_ready_and_are_served_then(scene: Scene) -> None:
    scene.api.add(serving_pod("a", "rm2", TYPE, ready=False, gpu="0"))
    await scene.clock.passes(2.0)
    value = await scene.samples()
    received = value("hetserve_requests_total", **SERVICE, outcome="received")
    assert received
    assert value("hetserve_requests_in_flight", **SERVICE) == received
    scene.api.add(serving_pod("a", "rm2", TYPE, gpu="0"))
    await scene.clock.passes(10.0)
    value = await scene.samples()
    of_pod = {**SERVICE, "pod": "a", "instance_type": TYPE}
    served = value("hetserve_requests_total", **of_pod, outcome="served")
    assert served
    assert served > 100
    assert value("hetserve_request_duration_seconds_count", **of_pod) == served
    assert value("hetserve_request_duration_seconds_bucket", **of_pod, le="+Inf") == served
    assert value("hetserve_instance_busy_seconds_total", **of_pod) == pytest.approx(served * 0.055, rel=0.3)
    gpu = {"gpu": "0", "UUID": "0", "device": "nvidia0", "modelName": "V100", "Hostname": "n0"}
    percent = value("DCGM_FI_DEV_GPU_UTIL", **gpu)
    assert percent
    assert 50 < percent <= 100
    assert value("DCGM_FI_DEV_FB_USED", **gpu) == 4096
    assert value("DCGM_FI_DEV_GPU_UTIL", **{**gpu, "gpu": "1", "UUID": "1", "device": "nvidia1"}) == 0


async def test_what_arrived_is_served_under_way_or_dropped(scene: Scene) -> None:
    for name in "ab":
        scene.api.add(serving_pod(name, "rm2", TYPE))
    await scene.clock.passes(5.0)
    scene.api.remove("/api/v1/namespaces/default/pods/a")
    await scene.clock.passes(5.0)
    text = (await scene.get("/metrics")).text
    counts: dict[str, float] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            if sample.name in ("hetserve_requests_total", "hetserve_requests_in_flight"):
                name = sample.labels.get("outcome", "in flight")
                counts[name] = counts.get(name, 0) + sample.value
    assert counts["received"] == counts["served"] + counts["dropped"] + counts["in flight"] > 100


async def test_a_terminating_pod_gets_no_more_queries(scene: Scene) -> None:
    scene.api.add(serving_pod("a", "rm2", TYPE))
    await scene.clock.passes(3.0)
    scene.api.add(serving_pod("a", "rm2", TYPE, terminating=True))
    await scene.clock.passes(2.0)
    of_pod = {**SERVICE, "pod": "a", "instance_type": TYPE, "outcome": "served"}
    before = (await scene.samples())("hetserve_requests_total", **of_pod)
    await scene.clock.passes(5.0)
    assert (await scene.samples())("hetserve_requests_total", **of_pod) == before
    await scene.clock.passes(70.0)
    assert (await scene.samples())("hetserve_requests_total", **of_pod) is None


async def test_a_signal_ends_arrivals_and_lets_the_rest_be_served(scene: Scene) -> None:
    scene.api.add(serving_pod("a", "rm2", TYPE))
    await scene.clock.passes(3.0)
    scene.stop.set()
    await asyncio.sleep(0)
    await scene.clock.passes(0.5)
    received = scene.twin.engine.services["default", "rm2"].received
    await scene.clock.passes(10.0)
    await asyncio.wait_for(scene.running, limits.ANSWER)
    assert scene.twin.engine.in_flight == 0
    assert scene.twin.engine.services["default", "rm2"].received == received


async def test_a_play_that_is_behind_says_by_how_much(scene: Scene) -> None:
    scene.clock.now += 3.0
    assert (await scene.samples())("hetserve_twin_lag_seconds") == 3.0
    await scene.clock.passes(1.0)
    assert (await scene.samples())("hetserve_twin_lag_seconds") == pytest.approx(0.0, abs=0.2)


async def test_it_is_not_ready_before_the_cluster_is_listed(tmp_path: Path) -> None:
    options = settings(tmp_path)
    twin = Twin(options, read_loads(options), FakeApiServer())
    assert twin.not_ready() == NOT_SYNCED


async def test_metrics_are_for_whom_the_api_server_lets(tmp_path: Path) -> None:
    api, clock, stop = a_cluster(), Clock(), asyncio.Event()
    reviewing = ReviewingApi(users={"t": {"username": "prometheus"}}, rights={("prometheus", "/metrics")})
    options = settings(tmp_path, probeAuthorization="kubernetes")
    twin = Twin(options, read_loads(options), api, clock, clock.sleep, review_api=reviewing)
    running = asyncio.create_task(twin.run(stop))
    await asyncio.wait_for(twin.playing.wait(), limits.ROLLOUT)
    scene = Scene(api, clock, twin, stop, running)
    assert (await scene.get("/metrics")).status_code == 401
    assert (await scene.get("/metrics", "t")).status_code == 200
    assert (await scene.get("/readyz")).status_code == 200
    stop.set()
    while not running.done():
        await clock.passes(1.0)
