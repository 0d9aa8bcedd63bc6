"""Attack on high availability: two extenders, each with a ledger of its own, asked at random by the scheduler.

Filters and binds of a pod reach either; watches lag; the leader is paused in the middle of a bind, loses its
Lease and goes on. With the election off the same requests book GPUs twice, so the attack can succeed.
"""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass, field

import pytest

from hetserve.api.names import SYSTEM_NAMESPACE
from hetserve.base.units import Seconds
from hetserve.placement.check import violations
from hetserve.placement.event_handlers import NodeEventHandler, PodEventHandler
from hetserve.placement.placer import Placer
from hetserve_extender.leader.fence import Revisions
from hetserve_extender.leader.leader import Leader
from hetserve_extender.leader.lease_reader import LeaseReader, SchedulerLease
from hetserve_extender.verbs.bind_sender import BindSender
from hetserve_extender.verbs.binding import BindStateMachine
from hetserve_extender.verbs.wire import BindArgs
from hetserve_shell.kube.client import ApiServer
from hetserve_shell.kube.informer import UNFINISHED_PODS, Reflector
from hetserve_shell.leader.elector import Elector
from hetserve_shell.leader.lease import Candidate, Terms
from leases import released_lease
from scheduler_double import NAME
from testing.cluster import gpu_node, gpu_pod
from testing.extender import Unfenced
from testing.kit.apiserver import FakeApiServer

NODES = 10
GPUS = 4
PODS = 60  # more than the GPUs hold: 40 of a whole GPU's memory


class Attack:
    """The cluster, its clock, and two replicas."""

    def __init__(self, seed: int, *, election: bool) -> None:
        self.random = random.Random(seed)  # noqa: S311
        self.now = 0.0
        self.api = FakeApiServer()
        self.api.add(released_lease(name=NAME))
        for number in range(NODES):
            self.api.add(gpu_node(f"n{number}", gpus=GPUS, memory_mib=16384))
        self.nodes = [f"n{number}" for number in range(NODES)]
        self.replicas = [Replica(self, name, election=election) for name in ("a", "b")]
        self.election = election

    async def settle(self) -> None:
        """Whoever may lead steps, and takes over where it leads anew."""
        for replica in self.replicas:
            if not replica.paused:
                await replica.step()

    async def schedule(self, name: str) -> str:
        """One pod's way through the scheduler: filter at one replica, bind at another or the same."""
        pod = gpu_pod(name, memory_mib=16384, model=None)
        self.api.add(pod)
        for replica in self.replicas:
            if self.random.random() < 0.5:
                replica.watch()
        node = self.random.choice(self.replicas).filter(self.api.pod(name), self.nodes)
        return await self.random.choice(self.replicas).bind(name, node) if node else "nowhere"

    def double_booked(self) -> tuple[str, ...]:
        return violations(self.api.listing("/api/v1/pods"), self.api.listing("/api/v1/nodes"))

    def bound(self) -> int:
        return sum("nodeName" in raw["spec"] for raw in self.api.listing("/api/v1/pods"))


@dataclass
class Replica:
    attack: Attack
    name: str
    election: bool
    paused: bool = False
    term: int | None = None
    binder: BindSender = field(init=False)

    def __post_init__(self) -> None:
        api: ApiServer = self.attack.api
        clock = lambda: Seconds(self.attack.now)  # noqa: E731
        self.placer = Placer(clock=clock, hold=Seconds(30.0))
        self.revisions = Revisions(PodEventHandler(self.placer))
        self.pods = Reflector(api, "/api/v1/pods", self.revisions, UNFINISHED_PODS)
        about = (api, SYSTEM_NAMESPACE, NAME)
        # Our scheduler contends as kube-scheduler does.
        self.scheduler = Elector(*about, Candidate(f"{self.name}_u1", Terms()), clock, clock)
        reader = LeaseReader(*about, SchedulerLease(self.name), clock, lambda: 0.0)
        self.leader = Leader(reader, self.name, api, self.pods, self.revisions, self.placer)
        fence = self.leader.fence() if self.election else Unfenced()
        self.binder = BindSender(api, BindStateMachine(self.placer, fence))
        self.watch()

    def watch(self) -> None:
        """The watch catches up."""
        NodeEventHandler(self.placer).replace(self.attack.api.listing("/api/v1/nodes"))
        self.revisions.replace(self.attack.api.listing("/api/v1/pods"))

    def refusal(self) -> str:
        return self.leader.refusal() if self.election else ""

    def filter(self, pod: dict[str, object], nodes: list[str]) -> str:
        passed = () if self.refusal() else self.placer.filter(pod, nodes).passed
        return passed[0] if passed else ""

    async def bind(self, name: str, node: str) -> str:
        return self.refusal() or await self.binder.bind(BindArgs(name, "default", f"uid-{name}", node))

    async def step(self) -> None:
        await self.scheduler.step()
        await self.leader.reader.step()
        term = self.leader.reader.term()
        if term is not None and term != self.term:
            watch = asyncio.create_task(self.pods.run())  # at other times it lags
            await self.leader.take_over(term)
            watch.cancel()
            await asyncio.wait([watch])
        self.term = term


async def storm(attack: Attack) -> None:
    """Pods one after another; every tenth is caught in the middle of its bind by a change of leader."""
    for number in range(PODS):
        attack.now += 0.4
        await attack.settle()
        if number % 10 == 9:
            await change_leader_during_a_bind(attack, f"p{number}")
        else:
            await attack.schedule(f"p{number}")


async def change_leader_during_a_bind(attack: Attack, name: str) -> None:
    """The leader is paused with a bind on its way; the other places pods; then the bind lands and it wakes."""
    leader = next((r for r in attack.replicas if not r.refusal()), attack.replicas[0])
    other = next(r for r in attack.replicas if r is not leader)
    pod = gpu_pod(name, memory_mib=16384, model=None)
    attack.api.add(pod)
    leader.watch()
    node = leader.filter(attack.api.pod(name), attack.nodes)
    if not node:
        return
    attack.api.hold_binds, attack.api.bind_arrived = asyncio.Event(), asyncio.Event()
    late = asyncio.create_task(leader.bind(name, node))
    await attack.api.bind_arrived.wait()
    held, attack.api.hold_binds = attack.api.hold_binds, None
    leader.paused = True
    for _ in range(12):
        attack.now += 0.4
        await attack.settle()
    for extra in range(3):
        rival = gpu_pod(f"{name}-{extra}", memory_mib=16384, model=None)
        attack.api.add(rival)
        if chosen := other.filter(attack.api.pod(f"{name}-{extra}"), attack.nodes):
            await other.bind(f"{name}-{extra}", chosen)
    held.set()
    await late
    leader.paused = False


@pytest.mark.parametrize("seed", range(5))
async def test_two_extenders_never_book_a_gpu_twice(seed: int) -> None:
    attack = Attack(seed, election=True)
    await storm(attack)
    assert not attack.double_booked(), "two active ledgers: GPUs were given to two pods that need all of them"
    assert attack.bound() > NODES * GPUS // 4, "hardly anything was placed: the attack shows nothing"


async def test_the_same_attack_succeeds_where_nobody_is_elected() -> None:
    attack = Attack(0, election=False)
    await storm(attack)
    assert len(attack.double_booked()) >= 5
