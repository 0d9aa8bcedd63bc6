"""While patches go one after another and are slow, each pod is in one of them at a time, and releases go on."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from hetserve.api import names
from hetserve.base.units import Seconds
from hetserve.placement.event_handlers import PodEventHandler
from hetserve.placement.placer import Placer
from hetserve.placement.queues.rounds import QueueSettings
from hetserve_extender.queue.controller import QueueController
from hetserve_extender.queue.waiting_pod import WaitingState
from hetserve_shell.kube.client import Answer
from hetserve_shell.kube.connection import ApiUnreachableError
from queue_scene import in_state
from testing.cluster import gpu_pod
from testing.kit.apiserver import FakeApiServer
from virtual_time import virtually

GATED = (names.QUEUE_GATE,)
WAITING = 1000
ON_ITS_WAY = (WaitingState.RELEASING, WaitingState.PATCHED)


@dataclass
class Server:
    """An API server that takes `seconds` for a patch, and carries it out or loses it."""

    seconds: float
    lost: bool
    pods: FakeApiServer = field(default_factory=FakeApiServer)
    patched: Counter[str] = field(default_factory=Counter)
    shown: Callable[[str], None] = lambda _name: None
    most_rounds: int = 0
    rounds: Callable[[], int] = lambda: 0

    async def request(self, method: str, path: str, **rest: Any) -> Answer:
        if method != "PATCH":
            return await self.pods.request(method, path, **rest)
        name = path.rsplit("/", 1)[-1]
        self.patched[name] += 1
        self.most_rounds = max(self.most_rounds, self.rounds())
        await asyncio.sleep(self.seconds)
        if self.lost:
            raise ApiUnreachableError("no answer within 10 s")
        answer = await self.pods.request(method, path, **rest)
        self.shown(name)
        return answer

    def watch(self, path: str, query: Mapping[str, str]) -> Any:
        raise NotImplementedError


@dataclass
class Busy:
    """A controller with one released pod that finds no place, so that patches follow one another."""

    server: Server
    beta: int

    def __post_init__(self) -> None:
        clock: Callable[[], Seconds] = lambda: Seconds(asyncio.get_running_loop().time())  # noqa: E731
        self.placer = Placer(clock=clock, hold=Seconds(30.0))
        self.outcomes: Counter[str] = Counter()
        self.controller = QueueController(
            api=self.server,
            placer=self.placer,
            settings=QueueSettings(beta=self.beta),
            unschedulable_after=30.0,
            debounce=0.05,
            clock=clock,
            wall=lambda: Seconds(1_800_000_000.0 + clock()),
            on_lift=lambda outcome: self.outcomes.update([outcome]),
        )
        self.placer.on_change = self.controller.wake
        self.server.shown = self._show
        self.server.rounds = lambda: len(self.controller.tasks)
        self.server.pods.add(gpu_pod("stuck", unschedulable=True))
        for number in range(WAITING):
            self.server.pods.add(gpu_pod(f"p{number:04d}", gates=GATED))
        PodEventHandler(self.placer).replace(self.server.pods.listing("/api/v1/pods"))
        self.controller.queue.take_over()

    def _show(self, name: str) -> None:
        """The scheduler finds no place for it either."""
        raw = self.server.pods.pod(name)
        raw["status"] = gpu_pod(unschedulable=True)["status"]
        PodEventHandler(self.placer).apply("MODIFIED", raw)


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[None]:
    """One entry per round that any controller begins; so many that it spins end the test."""
    counted: list[None] = []
    start_round = QueueController.start_round

    def count(controller: QueueController) -> asyncio.Task[None] | None:
        counted.append(None)
        assert len(counted) < 20_000, "the queue spins"
        return start_round(controller)

    monkeypatch.setattr(QueueController, "start_round", count)
    return counted


async def _run(busy: Busy, seconds: float) -> None:
    task = asyncio.create_task(busy.controller.run())
    await asyncio.wait({task}, timeout=seconds)
    assert not task.done(), "releases have ended"
    task.cancel()
    await asyncio.wait({task})


@pytest.mark.parametrize("beta", [8, pytest.param(64, marks=pytest.mark.deep)])
def test_patches_without_an_answer_do_not_pile_up(looks: list[None], beta: int) -> None:
    server, seconds = Server(10.0, lost=True), 1200

    async def hang() -> None:
        await _run(Busy(server, beta), seconds)

    virtually(hang())
    assert server.most_rounds <= beta, f"{server.most_rounds} rounds under way for {beta} places"
    assert max(server.patched.values()) <= seconds / 20 + 1, "a pod was patched again behind its own patch"
    assert server.patched.total() <= min(beta / 20, 1.0) * seconds + beta, "a place in two patches, or two in a second"
    assert server.patched.total() >= min(beta / 20, 1.0) * seconds - beta, "a patch without an answer stops the others"
    assert len(looks) < 2 * seconds, f"{len(looks)} rounds in {seconds} s"


def test_slow_patches_release_each_pod_once(looks: list[None]) -> None:
    server, seconds = Server(0.3, lost=False), 120
    outcomes: Counter[str] = Counter()

    async def crawl() -> None:
        busy = Busy(server, 64)
        await _run(busy, seconds)
        outcomes.update(busy.outcomes)

    virtually(crawl())
    assert set(outcomes) == {"released"}, "a pod was patched again behind its own patch"
    assert set(server.patched.values()) == {1}
    assert outcomes["released"] >= 200, "releases go on: 64 places, free again after 30 s"
    assert len(looks) < 6 * seconds


def test_what_goes_while_it_waits_for_its_turn_is_not_asked_for() -> None:
    server = Server(1.0, lost=False)

    async def leave() -> None:
        busy = Busy(server, 4)
        patches = busy.controller.start_round()
        assert patches is not None
        await asyncio.sleep(0.5)
        busy.placer.forget("uid-p0001")
        await patches

    virtually(leave())
    assert list(server.patched) == ["p0000", "p0002"]


def _slip(_name: str) -> None:
    raise KeyError("a slip")


@pytest.mark.parametrize("how", ["cancelled", "failed"])
def test_pods_whose_turn_never_comes_are_back_in_line(how: str) -> None:
    server = Server(1.0, lost=False)

    async def end() -> None:
        busy = Busy(server, 4)
        queue = busy.controller.queue
        patches = busy.controller.start_round()
        assert patches is not None
        await asyncio.sleep(0.5)
        assert len(in_state(queue, *ON_ITS_WAY)) == 3
        if how == "cancelled":
            patches.cancel()
        else:
            server.shown = _slip
        await asyncio.wait({patches})
        await asyncio.sleep(11.0)
        queue.elapse(Seconds(asyncio.get_running_loop().time()))
        assert not in_state(queue, *ON_ITS_WAY)
        assert len(queue.line) == WAITING, "nothing but a new list would bring them back"

    virtually(end())


class Slip:
    """The first patch ends at once in a way that nobody foresaw; the others take a minute each."""

    def __init__(self, server: Server) -> None:
        self.server, self.asked = server, 0

    async def request(self, method: str, path: str, **rest: Any) -> Answer:
        self.asked += 1
        if self.asked == 1:
            raise KeyError("a slip")
        return await self.server.request(method, path, **rest)

    def watch(self, path: str, query: Mapping[str, str]) -> Any:
        raise NotImplementedError


def test_one_patch_that_slips_does_not_put_those_beside_it_back_in_line() -> None:
    server = Server(60.0, lost=False)

    async def slip() -> None:
        busy = Busy(server, 4)
        queue = busy.controller.queue
        busy.placer.forget("uid-stuck")  # where all find a place the patches go side by side
        busy.controller.api = Slip(server)
        patches = busy.controller.start_round()
        assert patches is not None
        await asyncio.sleep(30.0)
        queue.elapse(Seconds(asyncio.get_running_loop().time()))
        assert server.patched.total() == 3
        assert len(in_state(queue, *ON_ITS_WAY)) == 4, "they would be patched a second time beside their first patch"
        assert not patches.done()
        with pytest.raises(KeyError, match="a slip"):
            await patches
        assert set(busy.outcomes) == {"released"}
        assert busy.outcomes.total() == 3

    virtually(slip())
