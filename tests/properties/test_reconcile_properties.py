"""Laws of the reconciler over sequences of edits: it converges, then stops writing, and never exceeds the budget."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from effort import examples
from hetserve.base.units import parse_money
from hetserve.reconcile.deployments.build import deployment_name
from kstatus import ONE_OF, kstatus, the_one_that_is_true
from testing.builders import MEASURED, instance_type, model_profile, service
from testing.operator import CrashError, SimulatedOperator, path_of
from testing.scenes import CPU_TYPE, GPU_TYPE, cpu_profile, cpu_type, rm2_scene

Json = dict[str, Any]
SERVICE = path_of(service("rm2"))
PRICES = {GPU_TYPE: 526_000, CPU_TYPE: 149_000}


def _deployment(kind: str) -> str:
    return f"/apis/apps/v1/namespaces/default/deployments/{deployment_name('rm2', kind)}"


def _edit_service(change: Callable[[Json], object]) -> Callable[[SimulatedOperator], None]:
    return lambda sim: sim.edit(SERVICE, change)


def _edit_deployment(kind: str, change: Callable[[Json], object]) -> Callable[[SimulatedOperator], None]:
    def act(sim: SimulatedOperator) -> None:
        if _deployment(kind) in sim.api.objects:
            sim.edit(_deployment(kind), change)

    return act


def _toggle_rival_profile(sim: SimulatedOperator) -> None:
    path = path_of(cpu_profile("rival"))
    sim.api.remove(path) if path in sim.api.objects else sim.add(cpu_profile("rival"))


EDITS: dict[str, Callable[[SimulatedOperator], None]] = {
    "budget 0.3": _edit_service(lambda s: s["spec"]["budget"].update(hourly="0.3")),
    "budget 1.0": _edit_service(lambda s: s["spec"]["budget"].update(hourly="1.0")),
    "budget 2.5": _edit_service(lambda s: s["spec"]["budget"].update(hourly="2.5")),
    "budget not a number": _edit_service(lambda s: s["spec"]["budget"].update(hourly="much")),
    "only the GPU type": _edit_service(lambda s: s["spec"].update(instanceTypes={"names": [GPU_TYPE]})),
    "every type": _edit_service(lambda s: s["spec"].pop("instanceTypes", None)),
    "another image": _edit_service(lambda s: s["spec"]["template"]["spec"]["containers"][0].update(image="b:2")),
    "no image": _edit_service(lambda s: s["spec"]["template"]["spec"]["containers"][0].update(image="")),
    "a misspelled field": _edit_service(lambda s: s["spec"]["template"]["spec"]["containers"][0].update(imagee="c")),
    "a rival profile comes or goes": _toggle_rival_profile,
    "the CPU type goes": lambda sim: sim.api.remove(path_of(cpu_type())),
    "the CPU type comes": lambda sim: sim.add(cpu_type()),
    "the GPU type is shared": lambda sim: sim.add(
        instance_type(GPU_TYPE, {"spec.price": {"hourly": "0.035", "per": "GiB"}})
    ),
    "the profile holds a part of a GPU": lambda sim: sim.add(model_profile(overrides={"spec.gpuMemory": "4Gi"})),
    "the profile is measured": lambda sim: sim.add(model_profile(overrides={"spec.gpuMemory": "4Gi", **MEASURED})),
    "the profile is measured anew": lambda sim: sim.add(
        model_profile(overrides={"spec.gpuMemory": "4Gi", **MEASURED, "spec.computeShare": "0.8"})
    ),
    "the service is exclusive": _edit_service(lambda s: s["spec"].update(sharing="Exclusive")),
    "an older extender leads": lambda sim: setattr(sim.cluster, "counts_pairs", False),
    "an extender leads that books compute": lambda sim: setattr(sim.cluster, "counts_pairs", True),
    "a node goes": lambda sim: sim.api.remove("/api/v1/nodes/gpu-1"),
    "a Deployment is scaled": _edit_deployment(CPU_TYPE, lambda d: d["spec"].update(replicas=1)),
    "a Deployment is scaled beyond the budget": _edit_deployment(CPU_TYPE, lambda d: d["spec"].update(replicas=14)),
    "a Deployment gets a sidecar": _edit_deployment(
        GPU_TYPE, lambda d: d["spec"]["template"]["spec"]["containers"].append({"name": "spy", "image": "x:1"})
    ),
    "a Deployment is deleted": lambda sim: sim.api.remove(_deployment(CPU_TYPE)),
    "the operator restarts": lambda sim: sim.restart(),
}


def _judged(sim: SimulatedOperator) -> SimulatedOperator:
    """The simulated operator, with every status that is written held against the law of the three conditions."""

    def judge(_method: str, path: str, _query: Any) -> None:
        if path == f"{SERVICE}/status":
            assert kstatus(sim.service()) == ONE_OF[the_one_that_is_true(sim.service()["status"])]

    sim.api.after.append(judge)
    return sim


def _good(sim: SimulatedOperator) -> None:
    """Back to the declared state from which all ends alike."""
    sim.add(*rm2_scene())
    sim.cluster.counts_pairs = True
    sim.api.remove(path_of(cpu_profile("rival")))


@settings(max_examples=examples(25), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.tuples(st.sampled_from(sorted(EDITS)), st.integers(0, 3)), max_size=6))
def test_any_sequence_of_edits_can_be_undone_and_ends_silent(edits: list[tuple[str, int]]) -> None:
    async def story() -> None:
        sim = _judged(SimulatedOperator())
        sim.add(*rm2_scene())
        assert kstatus(sim.service()) == "InProgress", "a service that nobody has seen reads as current"
        await sim.converge()
        for name, rounds in edits:
            EDITS[name](sim)
            for _ in range(rounds):
                await sim.round()
        _good(sim)
        sim.clock += 100  # past every hold and every remembered refusal
        await sim.converge()
        assert sim.condition("Ready")["status"] == "True"
        assert sim.replicas() == {deployment_name("rm2", GPU_TYPE): 3, deployment_name("rm2", CPU_TYPE): 6}
        sim.api.writes.clear()
        sim.restart()
        await sim.round()
        assert sim.api.writes == [], "at rest the operator writes nothing"

    asyncio.run(story())


@settings(max_examples=examples(25), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.lists(st.sampled_from(["0.6", "1.0", "1.7", "2.5"]), min_size=1, max_size=4),
    st.lists(st.booleans(), min_size=4, max_size=4),
    st.integers(1, 4),
    st.integers(0, 40),
)
def test_what_exists_never_costs_more_than_the_highest_budget_in_force(
    budgets: list[str], only_gpu: list[bool], terminating: int, crash_at: int
) -> None:
    async def story() -> None:
        sim = SimulatedOperator()
        sim.cluster.terminating_ticks = terminating
        sim.add(*rm2_scene())
        writes = 0

        def crash(*_: Any) -> None:
            nonlocal writes
            writes += 1
            if writes == crash_at:
                raise CrashError

        sim.api.after.append(crash)
        for budget, gpu in zip(budgets, only_gpu, strict=False):
            sim.edit(SERVICE, partial(_declare, budget, [GPU_TYPE] if gpu else [GPU_TYPE, CPU_TYPE]))
            before = _cost(sim)
            seen: deque[dict[str, str]] = deque(maxlen=terminating + 3)
            for _ in range(40):
                try:
                    await sim.round()
                except CrashError:
                    sim.restart()
                seen.append(sim.versions())
                # What was there before may exceed a budget that was lowered; nothing may come on top of it.
                limit = max(parse_money(budget), before)
                assert _cost(sim) <= limit, f"{_cost(sim)} is more than {limit}"
                before = min(before, max(_cost(sim), parse_money(budget)))
                if len(seen) == seen.maxlen and seen[0] == seen[-1]:
                    break  # it is at rest: longer than a pod takes to end, nothing has changed

    asyncio.run(story())


def _declare(budget: str, types: list[str], raw: Json) -> None:
    raw["spec"] |= {"budget": {"hourly": budget}, "instanceTypes": {"names": types}}


def _cost(sim: SimulatedOperator) -> int:
    return sum(PRICES[pod["metadata"]["labels"]["hetserve.io/instance-type"]] for _, pod in sim.cluster.pods())
