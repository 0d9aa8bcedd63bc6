"""The bound on waiting in seconds, against an adversary who makes pods with and without the gate as he likes.

The real controller over an API server in memory; the adversary is its users and its scheduler, which binds or
refuses what it has in hand within `JUDGED_WITHIN`, and never says anything of pods that came without our gate.
"""

from __future__ import annotations

import asyncio
import math
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

from hypothesis import given, settings
from hypothesis import strategies as st

from effort import examples
from hetserve.api import names
from hetserve.base.units import Seconds
from hetserve.placement.event_handlers import PodEventHandler
from hetserve.placement.placer import Placer
from hetserve.placement.queues.rounds import QueueSettings
from hetserve_extender.queue.controller import QueueController
from queue_scene import release_round
from testing.cluster import gpu_pod
from testing.kit.apiserver import FakeApiServer

START: Final = 1_800_000_000
JUDGED_WITHIN: Final = 4
UNSCHEDULABLE_AFTER: Final = 7
FATES: Final = ("bound", "refused", "refused, then not", "deleted")


@dataclass
class Town:
    """Users, scheduler and controller, second by second; `late` is who waited past his bound."""

    beta: int
    fates: list[tuple[str, int]]
    """What becomes of each released pod, and after how many seconds; again from the first after the last."""
    api: FakeApiServer = field(default_factory=FakeApiServer)
    now: int = 0
    born: int = 0
    direct: list[str] = field(default_factory=list)
    bounds: dict[str, float] = field(default_factory=dict)
    """Until when each pod at the gate must be let through."""
    out: dict[str, tuple[str, int]] = field(default_factory=dict)
    """What becomes of each pod that was let through, and when."""

    def __post_init__(self) -> None:
        self._begin()

    def _begin(self) -> None:
        """A new leader, which knows what the API server shows."""
        clock = lambda: Seconds(float(self.now))  # noqa: E731
        self.placer = Placer(clock=clock, hold=Seconds(30.0))
        self.controller = QueueController(
            api=self.api,
            placer=self.placer,
            settings=QueueSettings(beta=self.beta),
            unschedulable_after=UNSCHEDULABLE_AFTER,
            debounce=0.0,
            clock=clock,
            wall=lambda: Seconds(float(START + self.now)),
        )
        self._show()
        self.controller.queue.take_over()

    def lead_anew(self) -> None:
        self.bounds = {name: until + UNSCHEDULABLE_AFTER for name, until in self.bounds.items()}
        self._begin()

    def arrive(self, count: int) -> None:
        """Pods with the gate, each with the bound of docs/queues.md."""
        for _ in range(count):
            older = len(self.bounds)
            places = math.ceil(2 * (older + 1) / self.beta)
            name = self._add("gated", (names.QUEUE_GATE,))
            self.bounds[name] = self.now + places * (JUDGED_WITHIN + UNSCHEDULABLE_AFTER)

    def come_directly(self, count: int, *, unschedulable: bool) -> None:
        self.direct += [self._add("direct", (), unschedulable=unschedulable) for _ in range(count)]

    def direct_again(self) -> None:
        """The pods without the gate are made anew, as a CronJob or a rolled Deployment does."""
        gone, self.direct = self.direct, []
        for name in gone:
            self.api.remove(self.api.pod(name))
        self.come_directly(len(gone), unschedulable=False)

    def leave(self, which: int) -> None:
        if self.bounds:
            name = sorted(self.bounds)[which % len(self.bounds)]
            del self.bounds[name]
            self.api.remove(self.api.pod(name))

    async def second(self) -> None:
        self.now += 1
        self._schedule()
        self._show()
        await release_round(self.controller)
        self._show()
        for name in [name for name in self.bounds if not self.api.pod(name)["spec"].get("schedulingGates")]:
            del self.bounds[name]
            fate, after = self.fates[len(self.out) % len(self.fates)]
            self.out[name] = fate, self.now + after
        late = [name for name, until in self.bounds.items() if until < self.now]
        assert not late, f"second {self.now}: {late} wait past their bounds, whoever else makes pods"

    def _schedule(self) -> None:
        for name, (fate, at) in list(self.out.items()):
            if at <= self.now and f"/api/v1/namespaces/default/pods/{name}" in self.api.objects:
                raw = self.api.pod(name)
                if fate == "deleted":
                    self.api.remove(raw)
                elif fate == "bound":
                    self.api.add(raw | {"spec": raw["spec"] | {"nodeName": "n0"}})
                else:
                    says = fate == "refused" or (self.now - at) % 2 == 0
                    self.api.add(raw | {"status": gpu_pod(unschedulable=says)["status"]})

    def _add(self, kind: str, gates: tuple[str, ...], **how: Any) -> str:
        self.born += 1
        name = f"{kind}{self.born:05d}"
        created = datetime.fromtimestamp(START + self.now, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        self.api.add(gpu_pod(name, uid=name, model=f"m{self.born % 7}", gates=gates, created=created, **how))
        return name

    def _show(self) -> None:
        PodEventHandler(self.placer).replace(self.api.listing("/api/v1/pods"))


STEPS = st.one_of(
    st.tuples(st.just("arrive"), st.sampled_from([1, 1, 3, 9])),
    st.tuples(st.just("direct"), st.sampled_from([1, 8, 20]), st.booleans()),
    st.tuples(st.just("direct again")),
    st.tuples(st.just("leave"), st.integers(0, 20)),
    st.tuples(st.just("lead anew")),
    st.tuples(st.just("seconds"), st.sampled_from([1, 2, 5, 12])),
    st.tuples(st.just("seconds"), st.sampled_from([1, 2, 5, 12])),
)


@settings(max_examples=examples(60), deadline=None)
@given(
    beta=st.integers(1, 5),
    fates=st.lists(st.tuples(st.sampled_from(FATES), st.integers(0, JUDGED_WITHIN)), min_size=1, max_size=8),
    steps=st.lists(STEPS, min_size=5, max_size=30),
)
def test_nobody_waits_longer_than_the_bound_in_time_whatever_others_make(
    beta: int, fates: list[tuple[str, int]], steps: list[tuple[object, ...]]
) -> None:
    async def play() -> None:
        town = Town(beta, fates)
        for step in [*steps, ("seconds", 60)]:
            await _play(town, step)

    asyncio.run(play())


async def _play(town: Town, step: tuple[object, ...]) -> None:
    match step:
        case ("arrive", int(count)):
            town.arrive(count)
        case ("direct", int(count), bool(unschedulable)):
            town.come_directly(count, unschedulable=unschedulable)
        case ("direct again",):
            town.direct_again()
        case ("leave", int(which)):
            town.leave(which)
        case ("lead anew",):
            town.lead_anew()
        case ("seconds", int(count)):
            for _ in range(count):
                await town.second()


def test_a_stream_of_pods_without_the_gate_does_not_delay_those_with_it() -> None:
    async def play() -> None:
        town = Town(3, [("refused", JUDGED_WITHIN)])
        town.come_directly(3, unschedulable=False)
        town.arrive(9)
        for _ in range(20):
            town.direct_again()
            for _ in range(5):
                await town.second()
        assert not town.bounds

    asyncio.run(play())


def test_pods_without_the_gate_that_a_new_leader_finds_delay_once() -> None:
    async def play() -> None:
        town = Town(3, [("bound", 0)])
        town.come_directly(20, unschedulable=False)
        town.lead_anew()
        town.arrive(9)
        for _ in range(UNSCHEDULABLE_AFTER + 4):
            await town.second()
        assert not town.bounds, "they hold the places for good"

    asyncio.run(play())
