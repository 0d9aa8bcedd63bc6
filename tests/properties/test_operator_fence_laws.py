"""Laws of the operator's fence: whatever a deposed leader still has under way, no budget is exceeded by it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from importlib import import_module
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from effort import examples
from hetserve.api import names
from operator_scene import CPU_DEPLOYMENT, GPU_DEPLOYMENT, PLANNED, SERVICE, deployment_path
from slow_network import Hold, Succession
from testing.scenes import CPU_TYPE, GPU_TYPE, rm2_scene

Json = dict[str, Any]
BUDGET = 2_500_000
ROUNDS = 10
"""In which a change of plan comes to its end."""
STEP = import_module("hetserve.reconcile.step")


def _service(change: Callable[[Json], object]) -> Callable[[Succession], None]:
    return lambda sim: sim.edit(SERVICE, change)


def _deployment(name: str, change: Callable[[Json], object]) -> Callable[[Succession], None]:
    path = deployment_path(name)
    return lambda sim: sim.edit(path, change) if path in sim.api.objects else None


only_gpus = _service(lambda s: s["spec"].update(instanceTypes={"names": [GPU_TYPE]}))
both_types = _service(lambda s: s["spec"].update(instanceTypes={"names": [GPU_TYPE, CPU_TYPE]}))
# No new template: a rollout exceeds the budget by an instance at any time, by itself (decision 0012).
HANDS: dict[str, Callable[[Succession], None]] = {
    "only GPUs": only_gpus,
    "both types": both_types,
    "a Deployment is deleted": lambda sim: sim.api.remove(deployment_path(CPU_DEPLOYMENT)),
    "fewer replicas": _deployment(GPU_DEPLOYMENT, lambda d: d["spec"].update(replicas=1)),
    "no label of the service": _deployment(
        CPU_DEPLOYMENT, lambda d: d["metadata"]["labels"].pop(names.LABEL_SERVICE, None)
    ),
    "no owner": _deployment(CPU_DEPLOYMENT, lambda d: d["metadata"].pop("ownerReferences", None)),
    "nothing": lambda _: None,
}
STAGE = st.tuples(
    st.sampled_from((*["only GPUs", "both types"] * 4, *HANDS)),
    st.sampled_from((Hold.GROWTH, Hold.NOTHING, Hold.CHANGE)),
    st.sampled_from((400, 30, 1)),  # by how many requests the write is late
    st.booleans(),  # whether its sender waits for it, and is deposed
    st.sampled_from((0, 0, 2)),  # rounds after that
)


@settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(STAGE, min_size=2, max_size=6), st.integers(1, 3))
def test_no_late_write_breaks_the_budget_or_undoes_the_next_leaders_and_all_ends_as_declared(
    stages: list[tuple[str, Hold, int, bool, int]], terminating: int
) -> None:
    async def story() -> None:
        sim = await _running(terminating)
        for hand, hold, delay, answered, rounds in stages:
            HANDS[hand](sim)
            sim.line.hold, sim.line.delay, sim.line.answered = hold, delay, answered
            count = len(sim.network.sent_late)
            for _ in range(ROUNDS):
                await sim.round_or_depose()
                if len(sim.network.sent_late) > count:
                    break
            sim.line.hold = Hold.NOTHING
            for _ in range(rounds):
                await sim.round_or_depose()
        sim.add(*rm2_scene())
        for _ in range(3):
            sim.clock += 100
            await sim.converge(200)
        await sim.end()
        await sim.converge(200)
        assert (sim.condition("Ready")["status"], sim.replicas()) == ("True", PLANNED)
        sim.api.writes.clear()
        sim.restart()
        await sim.round()
        assert sim.api.writes == [], "at rest the operator writes nothing, no fence either"

    asyncio.run(story())


async def test_a_deposed_leaders_growth_is_refused_once_the_next_leader_has_changed_anything() -> None:
    await _late_growth()


async def test_without_the_fence_the_same_growth_breaks_the_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(STEP, "fence_first", lambda _snapshot, work: work)
    with pytest.raises(AssertionError, match=f"of {BUDGET}"):
        await _late_growth()


async def test_a_growth_without_an_answer_is_refused_once_its_sender_has_changed_anything_else() -> None:
    await _late_growth(answered=False)


async def test_without_the_fence_a_growth_without_an_answer_breaks_the_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(STEP, "fence_first", lambda _snapshot, work: work)
    with pytest.raises(AssertionError, match=f"of {BUDGET}"):
        await _late_growth(answered=False)


async def _late_growth(*, answered: bool = True) -> None:
    """The fourth GPU instance is on its way while the plan goes back to three and six of the other type."""
    sim = await _running()
    only_gpus(sim)
    sim.line.answered = answered
    while sim.replicas() != {GPU_DEPLOYMENT: 3, CPU_DEPLOYMENT: 2} or len(sim.cluster.pods()) != 5:
        await sim.round_or_depose()
    sim.line.hold, sim.line.delay = Hold.GROWTH, 10_000
    while not sim.network.late:
        await sim.round_or_depose()
    (late,) = sim.network.late
    assert (late.path, late.body["spec"]["replicas"]) == (deployment_path(GPU_DEPLOYMENT), 4)
    both_types(sim)
    while sim.replicas() != PLANNED:
        await sim.round_or_depose()
    await sim.end()
    assert [answer.status for _, answer in sim.network.landed] == [409]


async def _running(terminating: int = 1) -> Succession:
    sim = Succession()
    sim.cluster.terminating_ticks = terminating
    sim.add(*rm2_scene())
    await sim.converge()
    sim.budget = BUDGET
    return sim
