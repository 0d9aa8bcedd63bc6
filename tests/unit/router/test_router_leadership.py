"""Which replica of a router takes queries: it serves on without the API server, and stops once another leads."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from hetserve.api.names import SYSTEM_NAMESPACE
from hetserve_router.leadership import HANDOVER, RouterLeadership
from hetserve_shell.kube.client import Answer
from hetserve_shell.kube.connection import ApiUnreachableError
from hetserve_shell.leader.elector import Elector
from hetserve_shell.leader.lease import Candidate, Terms
from leases import released_lease
from testing.kit.apiserver import FakeApiServer


class CuttableApi(FakeApiServer):
    """An API server that is not reached while it is cut off."""

    is_cut = False

    async def request(self, *arguments: Any, **named: Any) -> Answer:
        if self.is_cut:
            raise ApiUnreachableError("cut off")
        return await super().request(*arguments, **named)


@dataclass
class Replica:
    api: CuttableApi
    now: list[float]
    identity: str
    said: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        elector = Elector(
            self.api, SYSTEM_NAMESPACE, "lease", Candidate(identity=self.identity, terms=Terms()), lambda: self.now[0]
        )
        self.leadership = RouterLeadership(elector, None, lambda: self.said.append("parts"))

    async def step(self) -> bool:
        """One turn of its election; returns whether it takes queries."""
        await self.leadership.elector.step()
        self.leadership.look()
        return self.leadership.serves()


def replicas() -> tuple[Replica, Replica]:
    api, now = CuttableApi(), [0.0]
    api.add(released_lease())
    return Replica(api, now, "a"), Replica(api, now, "b")


async def turns(seconds: float, *each: Replica) -> list[bool]:
    """Lets time pass; returns who takes queries at its end."""
    end, found = each[0].now[0] + seconds, [False] * len(each)
    while each[0].now[0] < end:
        each[0].now[0] += 0.25
        found = [await one.step() for one in each]
    return found


async def test_one_of_two_takes_queries() -> None:
    assert sorted(await turns(5.0, *replicas())) == [False, True]


async def test_a_leader_without_the_api_server_serves_on() -> None:
    a, b = replicas()
    assert await turns(1.0, a, b) == [True, False]
    a.api.is_cut = True
    assert await turns(600.0, a, b) == [True, False]
    a.api.is_cut = False
    assert await turns(2.0, a, b) != [False, False], "queries come until the label leads them elsewhere"
    assert sorted(await turns(10.0, a, b)) == [False, True]


async def test_a_leader_stops_once_it_reads_that_another_leads() -> None:
    a, b = replicas()
    await turns(1.0, a, b)
    await turns(5.0, b)  # the first stands still meanwhile
    assert b.leadership.serves()
    assert not a.leadership.serves(), "it reads its Lease before it takes queries again"
    assert await turns(1.0, a, b) == [False, True]
    assert (a.said, b.said) == (["parts"], [])


async def test_who_reads_that_another_leads_takes_what_comes_until_the_label_has_moved() -> None:
    a, b = replicas()
    await turns(1.0, a, b)
    a.api.is_cut = True
    for _ in range(20):
        a.now[0] += 0.25
        await a.step()
    a.api.is_cut = False
    assert await turns(HANDOVER - 0.25, b, a) == [True, True]
    assert await turns(1.0, b, a) == [True, False]
    assert len(a.said) > 1, "whoever comes by a new connection is asked to go too"


async def test_a_leader_that_stood_still_and_leads_yet_goes_on() -> None:
    a, _ = replicas()
    await turns(1.0, a)
    a.now[0] += 10.0
    assert not a.leadership.serves()
    assert await turns(1.0, a) == [True]
    assert not a.said


async def test_who_gives_up_lets_another_lead_and_still_takes_what_comes() -> None:
    a, b = replicas()
    await turns(1.0, a, b)
    await a.leadership.give_up()
    assert await turns(1.0, a, b) == [True, True]
