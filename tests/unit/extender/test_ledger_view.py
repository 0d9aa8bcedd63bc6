"""The ledger as JSON: of one moment, whole, and made in little steps between which verbs are answered."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import orjson
import pytest

from extender_bench import reply_of
from hetserve.base.units import Seconds
from hetserve.placement.event_handlers import NodeEventHandler, PodEventHandler
from hetserve.placement.ledger.problems import LedgerProblem, problem_lines
from hetserve.placement.placer import Placer
from hetserve_extender.observe import ledger_view
from hetserve_extender.observe.ledger_view import LedgerView, placement_routes
from hetserve_shell.tasks.slices import SLICE, Shared, Slices
from testing.cluster import gpu_node, gpu_pod, plugin_pod


def placer_with(nodes: Sequence[object], pods: Sequence[object]) -> Placer:
    placer = Placer(clock=lambda: Seconds(0.0), hold=Seconds(30.0))
    NodeEventHandler(placer).replace(nodes)  # type: ignore[arg-type]
    PodEventHandler(placer).replace(pods)  # type: ignore[arg-type]
    return placer


def odd() -> Placer:
    """Everything that can be wrong with a ledger, once at least."""
    placer = placer_with(
        [gpu_node("n1", gpus=1), gpu_node("n0"), gpu_node("broken", memory_mib=0), gpu_node("idle")],
        [
            gpu_pod("a", node="n0", gpu="1", memory_mib=20000, model="m"),
            gpu_pod("b", node="n0", gpu="1", memory_mib=20000, model="m"),
            gpu_pod("both", node="n0", gpu="0,1", memory_mib=1024, gpus=2, model=None),
            gpu_pod("lost", node="n9", gpu="0"),
            gpu_pod("beyond", node="n1", gpu="7"),
            gpu_pod("unsaid", node="n1"),
            gpu_pod("odd", memory_mib="much"),
            gpu_pod("odd too", node="n1", memory_mib="much"),
            plugin_pod(node="n1"),
        ],
    )
    placer.filter(gpu_pod("waits", memory_mib=1024, model="w"), ["n0", "n1", "idle"])
    return placer


async def shown(placer: Placer) -> bytes:
    return b"".join(await LedgerView.of(placer).text())


async def test_it_shows_every_gpu_with_its_pods_and_all_that_does_not_add_up() -> None:
    placer = odd()
    view = orjson.loads(await shown(placer))
    assert [(gpu["node"], gpu["gpu"], gpu["freeMiB"]) for gpu in view["gpus"]] == [
        (use.node, use.gpu.id, use.free_mib) for use in placer.ledger.gpus()
    ]
    held = {(gpu["node"], gpu["gpu"]): [pod["name"] for pod in gpu["pods"]] for gpu in view["gpus"] if gpu["pods"]}
    assert held == {("n0", "0"): ["both"], ("n0", "1"): ["a", "b", "both"], ("idle", "0"): ["waits"]}
    assert view["gpus"][0]["pods"][0] == {
        "namespace": "default",
        "name": "waits",
        "uid": "uid-waits",
        "model": "w",
        "memoryMiB": 1024,
        "computePercent": None,
        "state": "reserved",
        "sharing": None,
    }
    assert {gpu["node"] for gpu in view["gpus"] if not gpu["open"]} == {"n1"}
    assert view["problems"] == list(problem_lines(placer.problems()))
    assert len(view["problems"]) >= 6


@pytest.mark.parametrize("placer", [odd(), placer_with([], []), placer_with([gpu_node()], [])])
async def test_it_is_written_as_people_read_json(placer: Placer) -> None:
    text = await shown(placer)
    assert text == orjson.dumps(orjson.loads(text), option=orjson.OPT_INDENT_2)


def crowded() -> Placer:
    pods = [gpu_pod(f"p{n}", node=f"n{n % 20:02d}", gpu=str(n // 20 % 8), model=None) for n in range(400)]
    return placer_with([gpu_node(f"n{n:02d}", gpus=8) for n in range(20)], pods)


async def test_what_happens_while_it_is_made_is_not_half_in_it() -> None:
    placer = crowded()
    before = await shown(placer)

    async def meddle(_seconds: float) -> None:
        if booked := list(placer.ledger.bookings()):
            placer.forget(booked[-1])
        NodeEventHandler(placer).apply("MODIFIED", gpu_node("n19", gpus=1))
        placer.unreadable["x/y"] = LedgerProblem("cannot be read", "x/y")

    ticks = iter(range(1_000_000))
    during = await LedgerView.of(placer).text(Slices(meddle, clock=lambda: float(next(ticks))))
    assert b"".join(during) == before, "half of one moment and half of another"
    assert len(placer.ledger.bookings()) < 400


async def test_others_have_their_turn_after_every_slice_of_it() -> None:
    """One step of a thousand nodes with ten thousand pods takes under a millisecond, all of them 80."""
    slept = list[float]()

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    ticks = iter(range(1_000_000))
    await LedgerView.of(crowded()).text(Slices(sleep, clock=lambda: next(ticks) * SLICE * 1.5))
    assert set(slept) == {SLICE}
    assert len(slept) > 20 * 8 + 20, "many GPUs, or a node and its GPUs, are one step"


async def test_a_slice_that_is_not_over_goes_on() -> None:
    slept = list[float]()

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    now = [0.0]
    slices = Slices(sleep, clock=lambda: now[0])
    for now[0] in (SLICE / 2, SLICE, SLICE * 1.1, SLICE * 2, SLICE * 2.2):
        await slices.turn()
    assert len(slept) == 2, "at 1.1, where the next begins, and at 2.2"


async def test_it_is_made_once_for_all_who_ask_meanwhile_and_never_older_than_the_question(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    placer, made = crowded(), list[int]()
    real = LedgerView.text

    async def text(view: LedgerView, slices: Slices | None = None) -> list[bytes]:
        made.append(len(view.bookings))
        await asyncio.sleep(0)
        return await real(view, slices)

    monkeypatch.setattr(ledger_view.LedgerView, "text", text)
    texts = Shared(lambda: LedgerView.of(placer).text())
    early = [asyncio.create_task(texts.answer()) for _ in range(5)]
    for _ in range(3):
        await asyncio.sleep(0)
    assert made == [400]
    placer.forget("uid-p0")
    late = [asyncio.create_task(texts.answer()) for _ in range(5)]
    late[0].cancel()
    await asyncio.gather(*early, *late, return_exceptions=True)
    assert made == [400, 399], "each of ten made its own, or a later one was told the past"
    assert b'"uid-p0"' in b"".join(early[0].result())
    assert b'"uid-p0"' not in b"".join(late[1].result())


async def test_the_probe_sends_it_block_by_block(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hetserve_shell.tasks.slices.BLOCK", 1000)
    placer = crowded()
    reply = await reply_of(placement_routes(placer), b"/ledger")
    assert len(reply.blocks) > 50, "a verb waits until megabytes are sent"
    assert b"".join(reply.blocks) == await shown(placer)
    assert (reply.status, reply.media_type) == (200, "application/json")
