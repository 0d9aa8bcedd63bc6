"""What the instances hold is in the status: an operator that starts asks planners nothing that they answered before."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from effort import spread
from hetserve.planning.reach import PlannerJob
from hetserve_operator.plans.queue import PlannerQueue, Ticket
from measured_demand import steady
from testing.builders import REMOVED, instance_type, model_profile, service
from testing.operator import SimulatedOperator, path_of
from testing.operator.planning import worked_out
from testing.scenes import node

Json = dict[str, Any]
KINDS = ("t4", "v100")
NAMES = ("ads", "home", "shop")
EACH = {"intercept": "99.9999ms", "slope": "0.0001ms"}


class Counted(SimulatedOperator):
    """Its questions are answered after each round, and noted. most: of what counts hold, so many are answered."""

    def __init__(self, most: int = 1000) -> None:
        self.asked: list[PlannerJob] = []
        self.most = most
        super().__init__(plans=self.begun())

    def begun(self) -> PlannerQueue:
        """What a new process knows: nothing."""
        self.book = PlannerQueue(lambda: self.clock, lambda _key: None)
        return self.book

    async def round(self) -> bool:
        well = await super().round()
        while (ticket := self._taken()) is not None:
            self.asked.append(ticket.work)
            self.book.settle(ticket, worked_out(ticket.work))
            well = False
        return well

    def _taken(self) -> Ticket | None:
        if sum(work.kind == "Capacity" for work in self.asked) >= self.most:
            return None
        return self.book.take()

    async def restarted(self) -> list[PlannerJob]:
        """What a new process asks until nothing changes."""
        self.restart(self.begun())
        return await self.asks()

    async def asks(self) -> list[PlannerJob]:
        self.asked.clear()
        await self.converge()
        return list(self.asked)


def declared(name: str) -> Json:
    return service(
        name,
        {
            "spec.model.name": "rm2",
            "spec.objective": "MinCost",
            "spec.budget": REMOVED,
            "spec.load": REMOVED,
            "spec.metrics": {"source": "Hetserve"},
            "spec.scaling": {"scaleUp": {"lookAhead": "None"}},
            "spec.slo": {"latency": "500ms", "percentile": "99"},
            "spec.instanceTypes": {"names": list(KINDS)},
        },
    )


def profile(kind: str, intercept: str = "99.9999ms") -> Json:
    latency = {"linear": {**EACH, "intercept": intercept}}
    return model_profile(f"rm2-{kind}", {"spec.instanceType": kind, "spec.latency": latency})


def scene(names: tuple[str, ...]) -> list[Json]:
    return [
        *(node(f"{kind}-{i}", kind, gpus=1) for kind in KINDS for i in range(20)),
        *map(instance_type, KINDS),
        *map(profile, KINDS),
        *map(declared, names),
    ]


async def at_rest(names: tuple[str, ...] = NAMES) -> Counted:
    """Services at 30 queries/s."""
    sim = Counted()
    sim.add(*scene(names))
    sim.demand = steady(30)
    await sim.converge()
    assert any(work.kind == "Capacity" for work in sim.asked)
    return sim


async def test_a_restart_asks_nothing_where_nothing_changed() -> None:
    sim = await at_rest()
    writes = len(sim.api.writes)
    assert await sim.restarted() == []
    assert len(sim.api.writes) == writes


async def test_a_load_that_doubled_during_a_restart_is_followed_by_one_question() -> None:
    sim = await at_rest(("ads",))
    before = sum(sim.replicas().values())
    sim.demand = steady(60)
    (first, *others) = await sim.restarted()
    assert first.kind == "Decision"
    assert float(first.problem.load or 0) == pytest.approx(75, rel=0.03)
    assert all(work.kind == "Capacity" for work in others), "what the new instances hold is asked afterwards"
    assert sum(sim.replicas().values()) > before
    assert await sim.restarted() == []


async def test_a_changed_profile_is_asked_about_again() -> None:
    sim = await at_rest(("ads",))
    held = sim.service("ads")["status"]["capacity"]
    used = sim.service("ads")["status"]["plan"]["counts"][0]["instanceType"]
    sim.restart(sim.begun())
    sim.add(profile(used, "95ms"))
    assert any(work.kind == "Capacity" for work in await sim.asks())
    assert sim.service("ads")["status"]["capacity"]["inputs"] != held["inputs"]
    assert float(sim.service("ads")["status"]["capacity"]["qps"]) > float(held["qps"])


async def test_an_edit_that_changes_no_figure_asks_nothing_again() -> None:
    sim = await at_rest(("ads",))
    sim.edit(path_of(declared("ads")), lambda raw: raw["spec"].update(budget={"hourly": "50"}))
    assert await sim.asks() == []


def _doubled(held: Json) -> None:
    held["qps"] = repr(2 * float(held["qps"]))


def _doubled_of_fewer(held: Json) -> None:
    held["oneFewer"][0]["qps"] = repr(2 * float(held["oneFewer"][0]["qps"]))


def _less_known(held: Json) -> None:
    held["oneFewer"] = []


@pytest.mark.parametrize(
    "forge",
    spread(
        [
            _doubled,
            _doubled_of_fewer,
            _less_known,
            lambda held: held.update(qps="nan"),
            lambda held: held.update(qps="-1"),
            lambda held: held.update(tried="yes"),
            lambda held: held.update(oneFewer=7),
            lambda held: held.update(oneFewer=[7]),
            lambda held: held.update(oneFewer=[{"instanceType": "gone", "qps": "1", "tried": True}]),
            lambda held: held.update(inputs=None),
            dict.clear,
        ],
        4,
    ),
)
async def test_a_figure_that_somebody_edited_is_asked_again_and_mended(forge: Callable[[Json], object]) -> None:
    sim = await at_rest(("ads",))
    known = sim.service("ads")["status"]["capacity"]
    sim.edit(path_of(declared("ads")), lambda raw: forge(raw["status"]["capacity"]))
    assert any(work.kind == "Capacity" for work in await sim.restarted())
    assert sim.service("ads")["status"]["capacity"] == known


async def test_figures_go_with_the_scaling_that_they_are_for() -> None:
    sim = await at_rest(("ads",))

    def declares_its_load(raw: Json) -> None:
        del raw["spec"]["scaling"]
        raw["spec"]["load"] = {"expectedQPS": 30}

    sim.edit(path_of(declared("ads")), declares_its_load)
    await sim.converge()
    assert sim.service("ads")["status"].get("capacity") is None


async def test_figures_are_written_once_all_are_answered_and_never_again() -> None:
    sim = Counted(most=1)
    sim.add(*scene(("ads",)))
    sim.demand = steady(30)
    await sim.converge()
    assert [work.kind for work in sim.asked] == ["Decision", "Capacity"]
    before = sim.service("ads")["status"].get("capacity"), len(sim.api.writes)
    for _ in range(5):
        await sim.round()
    assert (sim.service("ads")["status"].get("capacity"), len(sim.api.writes)) == before, "an answer is awaited"
    sim.most = 1000
    assert [work.kind for work in await sim.asks()] == ["Capacity"]
    assert len(sim.service("ads")["status"]["capacity"]["oneFewer"]) == 1
    assert len(sim.api.writes) == before[1] + 1
    for qps in (31, 29, 30):
        sim.demand = steady(qps)
        await sim.converge()
    assert len(sim.api.writes) == before[1] + 1
