"""The placement log of a large cluster keeps no verb waiting: neither its checkpoints, its lists nor its being read."""

from __future__ import annotations

import asyncio
import functools
import gc
import json
import weakref
from collections.abc import Awaitable, Callable
from typing import Any

import orjson
import pytest

from extender_bench import reply_of
from harness import limits
from hetserve.base.units import Seconds
from hetserve.placement.event_handlers import NodeEventHandler, PodEventHandler
from hetserve.placement.log.journal import JournaledPlacer
from hetserve.placement.log.replay import replay
from hetserve_extender.extender import Extender
from hetserve_extender.leader.fence import listed_pod
from hetserve_extender.observe import placement_log
from hetserve_extender.observe.ledger_view import placement_routes
from hetserve_extender.observe.placement_log import PlacementLog
from hetserve_extender.settings import Settings
from hetserve_shell.tasks.slices import SLICE, Slices
from http_clients import plain_client, until
from testing.cluster import gpu_node, gpu_pod
from testing.kit.apiserver import FakeApiServer

STEP = 50_000
"""Bytes of JSON that a verb may wait for; a list of the pods here has ten times as many."""


def crowded(limit: int = 1 << 20, pods: int = 1000) -> tuple[PlacementLog, JournaledPlacer]:
    log = PlacementLog(limit, wall=lambda: 1.8e9)
    placer = log.placer(lambda: Seconds(5.0), Seconds(30.0))
    NodeEventHandler(placer).replace([gpu_node(f"n{n:03d}", gpus=8) for n in range(200)])
    bound = [gpu_pod(f"p{n}", node=f"n{n % 200:03d}", gpu=str(n // 200 % 8), model=None) for n in range(pods)]
    PodEventHandler(placer).replace([listed_pod(pod) for pod in bound])
    return log, placer


def decide(placer: JournaledPlacer, number: int) -> None:
    pod = gpu_pod(f"new{number}", memory_mib=100, model=f"m{number}")
    assert placer.filter(pod, ["n000", "n001"]).passed
    placer.forget(f"uid-new{number}")


def whole(log: PlacementLog) -> bytes:
    return b"".join(log.pieces())


def replayed_pods(text: bytes) -> int:
    """Decisions of a log that is fed again and comes out the same."""
    found = replay([json.loads(line) for line in text.splitlines()])
    assert found.difference is None
    return found.decisions


def booked_at_first(text: bytes) -> list[Any]:
    found: list[Any] = json.loads(text.splitlines()[1])["args"]["bookings"]
    return found


@pytest.fixture
def longest(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Bytes of the JSON texts that are made in one piece."""
    made, real = list[int](), orjson.dumps

    def dumps(value: Any, *, option: int | None = None) -> bytes:
        text = real(value, option=option)
        made.append(len(text))
        return text

    monkeypatch.setattr(orjson, "dumps", dumps)
    return made


def always_over(monkeypatch: pytest.MonkeyPatch, sleep: Callable[[float], Awaitable[object]]) -> None:
    """Every step of the log ends a slice, and `sleep` is what happens then."""
    ticks = iter(range(10_000_000))
    made = functools.partial(Slices, sleep, lambda: next(ticks) * SLICE * 1.5)
    monkeypatch.setattr(placement_log, "Slices", made)


async def test_no_verb_waits_for_the_text_of_a_whole_cluster(longest: list[int]) -> None:
    log, placer = crowded(limit=100_000)
    for number in range(200):
        decide(placer, number)
    assert max(longest) < STEP, "a verb, or a list, waits for the text of every pod"
    await log.text()
    assert max(longest) < STEP, "who reads the log keeps the verbs waiting"
    text = whole(log)
    assert len(text) > 2 * STEP
    assert replayed_pods(text) >= 40
    assert len(booked_at_first(text)) >= 1000, "begins with the whole state"


async def test_what_is_written_while_the_log_is_read_is_not_half_in_it(monkeypatch: pytest.MonkeyPatch) -> None:
    log, placer = crowded(limit=40_000)
    decide(placer, 0)
    before, number = whole(log), iter(range(1, 1_000_000))

    async def meddle(_seconds: float) -> None:
        decide(placer, next(number))
        placer.forget(f"uid-p{next(number)}")

    always_over(monkeypatch, meddle)
    assert b"".join(await log.text()) == before, "half of one moment and half of another"
    assert next(number) > 50, "others have their turn between the steps"
    assert len(booked_at_first(whole(log))) < 1000, "the segment has changed meanwhile"
    assert replayed_pods(whole(log)) > 20


async def test_a_list_of_the_cluster_is_kept_as_text_when_there_was_time(monkeypatch: pytest.MonkeyPatch) -> None:
    log, placer = crowded()
    pods = [listed_pod(gpu_pod(f"q{n}", node="n000", gpu="0", model=None)) for n in range(500)]
    kept, turns = weakref.ref(pods[7]), list[float]()
    PodEventHandler(placer).replace(pods)
    before = whole(log)
    del pods
    gc.collect()
    assert kept() is not None

    async def sleep(seconds: float) -> None:
        turns.append(seconds)
        await asyncio.sleep(0)

    always_over(monkeypatch, sleep)
    task = asyncio.create_task(log.run())
    for _ in range(1000):
        await asyncio.sleep(0)
    task.cancel()
    assert kept() is None, "the objects of a list stay beside its text, and take several times its memory"
    steps = (200 + 1000 + 500) // 50
    assert len(turns) >= 2 * steps, "verbs have their turn between two steps of writing and of dropping"
    assert whole(log) == before
    assert replayed_pods(before) == 0


async def test_lists_count_towards_the_limit_when_they_are_written() -> None:
    log, placer = crowded(limit=1 << 20)
    task = asyncio.create_task(log.run())
    for _ in range(6):
        PodEventHandler(placer).replace([listed_pod(gpu_pod(f"q{n}", node="n000", gpu="0")) for n in range(1000)])
        await until(lambda: log.settled)
        decide(placer, 0)
    task.cancel()
    lists = whole(log).count(b'"observe_all"')
    assert 1 <= lists < 6, "lists beyond the limit are kept for ever"
    assert replayed_pods(whole(log)) >= 1


async def test_the_probe_sends_the_log_block_by_block() -> None:
    log, placer = crowded()
    reply = await reply_of(placement_routes(placer, log), b"/log")
    assert b"".join(reply.blocks) == whole(log)
    assert len(reply.blocks) > 2, "a verb waits until megabytes are sent"
    assert max(map(len, reply.blocks)) < 2 * (64 << 10)
    assert reply.media_type == "application/jsonl"


async def test_the_process_writes_the_lists_and_serves_a_log_that_replays() -> None:
    api = FakeApiServer()
    for number in range(120):
        api.add(gpu_node(f"n{number}"))
        api.add(gpu_pod(f"p{number}", node=f"n{number}", gpu="0"))
    given = {"host": "127.0.0.1", "port": 0, "probePort": 0, "probeAuthorization": "none", "placementLog": "1Mi"}
    extender = Extender(Settings.model_validate(given | {"scheduler": {"leaseName": ""}}), api)
    assert extender.log is not None
    stop = asyncio.Event()
    running = asyncio.create_task(extender.run(stop))
    async with asyncio.timeout(limits.ANSWER):
        while extender.refusal() or not extender.log.settled:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        async with plain_client() as client:
            offered = {"Pod": gpu_pod("new"), "Nodes": None, "NodeNames": ["n7"]}
            verbs, probes = ("http://{}:{}".format(*extender.addresses[what]) for what in ("verbs", "probes"))
            assert (await client.post(f"{verbs}/filter", json=offered)).json()["NodeNames"] == ["n7"]
            text = (await client.get(f"{probes}/log")).content
    stop.set()
    await asyncio.wait_for(running, limits.ANSWER)
    assert replayed_pods(text) >= 1
    assert text.count(b'"uid-p7"') >= 1
