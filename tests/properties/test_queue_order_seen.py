"""The bound on waiting in the order in which the API server takes the patches, not that of decisions.

The real controller in virtual time. The adversary is the API server, which answers any patch of those under way first,
and the scheduler, which binds as fast or as slowly as it likes.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import cycle
from typing import Any, Final

from hypothesis import example, given, settings
from hypothesis import strategies as st

from effort import examples
from harness import limits
from hetserve.api import names
from hetserve.base.units import Seconds
from hetserve.placement.event_handlers import PodEventHandler
from hetserve.placement.placer import Placer
from hetserve.placement.queues.rounds import QueueSettings
from hetserve_extender.queue.controller import QueueController
from hetserve_extender.queue.patch_order import HELD_UP_AT_MOST
from hetserve_shell.kube.client import Answer
from hetserve_shell.kube.connection import ApiUnreachableError
from testing.cluster import gpu_pod
from testing.kit.apiserver import FakeApiServer
from virtual_time import virtually

START: Final = 1_800_000_000
ENOUGH: Final = 600.0


@dataclass(frozen=True)
class Pace:
    """Seconds until a patch is carried out, then until it is answered (if it is), then until its pod is bound."""

    carried_out: float
    answered: float
    bound: float
    lost: bool = False


@dataclass
class Town:
    """API server and scheduler in one; `older` counts, for each pod at the gate, whom it may see go before it."""

    paces: Iterator[Pace]
    rules: QueueSettings
    pods: FakeApiServer = field(default_factory=FakeApiServer)
    older: dict[str, int] = field(default_factory=dict)
    priority: dict[str, int] = field(default_factory=dict)
    start: dict[str, int] = field(default_factory=dict)
    taken: Counter[int] = field(default_factory=Counter)
    """Releases by priority, as the API server took them."""
    late: list[str] = field(default_factory=list)
    binds: set[asyncio.Task[None]] = field(default_factory=set)

    def __post_init__(self) -> None:
        loop = asyncio.get_running_loop()
        self.placer = Placer(clock=lambda: Seconds(loop.time()), hold=Seconds(30.0))
        self.controller = QueueController(
            api=self,
            placer=self.placer,
            settings=self.rules,
            unschedulable_after=30.0,
            debounce=0.05,
            clock=lambda: Seconds(loop.time()),
            wall=lambda: Seconds(START + loop.time()),
        )
        self.placer.on_change = self.controller.wake

    def arrive(self, model: int, priority: int) -> None:
        """A pod comes, younger than all others of its priority."""
        name = f"p{len(self.priority):04d}"
        now = START + asyncio.get_running_loop().time()
        created = datetime.fromtimestamp(now, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        self.older[name] = sum(self.priority[other] == priority for other in self.older)
        self.priority[name], self.start[name] = priority, self.taken[priority]
        gates = (names.QUEUE_GATE,)
        self._show("ADDED", gpu_pod(name, model=f"m{model}", priority=priority, gates=gates, created=created))

    async def request(self, method: str, path: str, **rest: Any) -> Answer:
        assert method == "PATCH"
        pace, name = next(self.paces), path.rsplit("/", 1)[-1]
        await asyncio.sleep(pace.carried_out)
        answer = await self.pods.request(method, path, **rest)
        assert answer.ok, answer
        self._count(name)
        self.binds.add(asyncio.create_task(self._bind(name, pace.bound)))
        self._show("MODIFIED", self.pods.pod(name))
        await asyncio.sleep(pace.answered)
        if pace.lost:
            raise ApiUnreachableError("the connection ended")
        return answer

    def watch(self, path: str, query: Mapping[str, str]) -> Any:
        raise NotImplementedError

    def _count(self, name: str) -> None:
        priority = self.priority[name]
        self.taken[priority] += 1
        waited, bound = self.taken[priority] - self.start[name], self.rules.oldest_every * (self.older.pop(name) + 1)
        if waited > bound:
            self.late.append(f"{name} was seen to go as the {waited}. since it came; its bound is {bound}")

    async def _bind(self, name: str, after: float) -> None:
        await asyncio.sleep(after)
        raw = self.pods.pod(name)
        self._show("MODIFIED", raw | {"spec": raw["spec"] | {"nodeName": "n0"}})

    def _show(self, event: str, raw: dict[str, Any]) -> None:
        self.pods.add(raw)
        PodEventHandler(self.placer).apply(event, raw)


PACES: Final = st.builds(
    Pace,
    carried_out=st.sampled_from([0.0, 0.001, 0.003, 0.1, HELD_UP_AT_MOST * 0.6]),
    answered=st.sampled_from([0.0, 0.002, 0.05, HELD_UP_AT_MOST * 0.3]),
    bound=st.sampled_from([0.0, 0.001, 0.01, 3.0]),
    lost=st.sampled_from([False, False, False, True]),
)
ARRIVALS: Final = st.lists(
    st.tuples(st.sampled_from([0.0, 0.0, 0.002, 0.06, 0.45, 1.1]), st.integers(0, 5), st.sampled_from([0, 0, 7])),
    min_size=1,
    max_size=40,
)


QUICK: Final = Pace(0.001, 0.0, 0.0)
SLOW: Final = Pace(HELD_UP_AT_MOST * 0.9, 0.0, 0.0)


@settings(max_examples=examples(120), deadline=None)
@given(
    paces=st.lists(PACES, min_size=1, max_size=12),
    arrivals=ARRIVALS,
    rules=st.builds(QueueSettings, beta=st.integers(1, 9), oldest_every=st.sampled_from([1, 2, 2, 2, 3])),
)
@example(  # all in one round
    paces=[Pace(0.1, 0.0, 0.0), Pace(0.1, 0.0, 0.0), QUICK],
    arrivals=[(0.0, number % 3, 0) for number in range(9)],
    rules=QueueSettings(),
)
@example(  # between the first patch and its answer there is a look at a line in which nobody waits
    paces=[SLOW, *[QUICK] * 11], arrivals=[(0.7, 0, 0), (0.45, 1, 0), (0.03, 1, 0)], rules=QueueSettings()
)
@example(  # the same with rounds for another priority
    paces=[SLOW, *[QUICK] * 11],
    arrivals=[(0.02, 0, 7), *[(0.06, number, 7 * (number % 2)) for number in range(12)]],
    rules=QueueSettings(),
)
def test_the_bound_holds_in_the_order_that_the_api_server_shows(
    paces: list[Pace], arrivals: list[tuple[float, int, int]], rules: QueueSettings
) -> None:
    async def play() -> None:
        town = Town(cycle(paces), rules)
        running = asyncio.create_task(town.controller.run())
        for pause, model, priority in arrivals:
            await asyncio.sleep(pause)
            town.arrive(model, priority)
        await asyncio.wait({running}, timeout=ENOUGH)
        running.cancel()
        await asyncio.wait({running})
        assert not town.older, "not all were released"
        assert not town.late, town.late

    virtually(play())


def test_patches_go_side_by_side_where_no_bound_can_be_passed() -> None:
    """10,000 pods and patches of 20 ms: two at a time would take 100 s."""

    async def play() -> None:
        town = Town(cycle([Pace(0.02, 0.0, 0.003)]), QueueSettings())
        for number in range(1000):
            town.arrive(number % 5, 0)
        running = asyncio.create_task(town.controller.run())
        await asyncio.wait({running}, timeout=limits.ANSWER)
        running.cancel()
        await asyncio.wait({running})
        assert not town.older, f"{len(town.older)} of 1,000 pods still wait after 4 s; 8 side by side take 3 s"
        assert not town.late, town.late

    virtually(play())
