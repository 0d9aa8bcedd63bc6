"""Laws of every single write while users edit objects and the cluster moves between writes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from effort import examples
from hetserve.api import names
from hetserve.base.units import parse_money
from hetserve.reconcile.deployments.build import deployment_name
from hetserve_operator.revisions import DEPLOYMENTS
from operator_scene import CPU_DEPLOYMENT, GPU_DEPLOYMENT, PLANNED, SERVICE, deployment_path
from testing.builders import service
from testing.operator import SimulatedOperator
from testing.scenes import CPU_TYPE, GPU_TYPE, rm2_scene

Json = dict[str, Any]
PRICES = {GPU_TYPE: 526_000, CPU_TYPE: 149_000}
KIND_OF = {GPU_DEPLOYMENT: GPU_TYPE, CPU_DEPLOYMENT: CPU_TYPE}
MIX = {"spec.load.batchSizes": [{"batch": 20, "weight": 98}, {"batch": 500, "weight": 2}]}


def _service(change: Callable[[Json], object]) -> Callable[[SimulatedOperator], None]:
    return lambda sim: sim.edit(SERVICE, change) if SERVICE in sim.api.objects else None


def _deployment(name: str, change: Callable[[Json], object]) -> Callable[[SimulatedOperator], None]:
    path = deployment_path(name)
    return lambda sim: sim.edit(path, change) if path in sim.api.objects else None


def _delete(orphan: bool) -> Callable[[SimulatedOperator], None]:
    def act(sim: SimulatedOperator) -> None:
        sim.api.remove(SERVICE)
        for path, raw in list(sim.api.items("deployments")) if orphan else ():
            raw["metadata"].pop("ownerReferences", None)
            sim.api.touch(path)

    return act


def _declare(**overrides: Any) -> Callable[[SimulatedOperator], None]:
    return lambda sim: sim.add(service("rm2", {**MIX, "spec.planner": "kairos", **overrides}))


def _container(raw: Json) -> Json:
    found: Json = raw["spec"]["template"]["spec"]["containers"][0]
    return found


HANDS: dict[str, Callable[[SimulatedOperator], None]] = {
    "a small budget": _service(lambda s: s["spec"]["budget"].update(hourly="1.0")),
    "the whole budget": _service(lambda s: s["spec"]["budget"].update(hourly="2.5")),
    "another image": _service(lambda s: _container(s).update(image="b:2")),
    "a misspelled field": _service(lambda s: _container(s).update(imagee="c")),
    "a correction": _service(lambda s: _container(s).pop("imagee", None)),
    "the service is deleted": _delete(orphan=False),
    "the service is deleted, its Deployments are not": _delete(orphan=True),
    "a service": _declare(),
    "a service on GPUs": _declare(**{"spec.instanceTypes": {"names": [GPU_TYPE]}}),
    "a service of small batches": _declare(**{"spec.load.batchSizes": [{"batch": 20, "weight": 1}]}),
    "a service with a small budget": _declare(**{"spec.budget.hourly": "1.0"}),
    "a Deployment is deleted": lambda sim: sim.api.remove(deployment_path(CPU_DEPLOYMENT)),
    "more replicas": _deployment(CPU_DEPLOYMENT, lambda d: d["spec"].update(replicas=12)),
    "fewer replicas": _deployment(GPU_DEPLOYMENT, lambda d: d["spec"].update(replicas=1)),
    "no labels": _deployment(CPU_DEPLOYMENT, lambda d: d["metadata"].update(labels={})),
    "no label of the service": _deployment(
        GPU_DEPLOYMENT, lambda d: d["metadata"]["labels"].pop(names.LABEL_SERVICE, None)
    ),
    "no owner": _deployment(CPU_DEPLOYMENT, lambda d: d["metadata"].pop("ownerReferences", None)),
    "no record": _deployment(CPU_DEPLOYMENT, lambda d: d["metadata"]["annotations"].clear()),
    "nobody manages a field": _deployment(GPU_DEPLOYMENT, lambda d: d["metadata"].update(managedFields=[])),
    "the operator restarts": lambda sim: sim.restart(),
}


def _serves(pod: Json) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return "deletionTimestamp" not in pod["metadata"] and any(
        (one["type"], one["status"]) == ("Ready", "True") for one in conditions
    )


class Judge:
    """Looks at the Deployments before and after every write of the operator; moves the cluster after it.

    sees: the operator sees what has ended by now; else it may take more than it must.
    """

    def __init__(self, sim: SimulatedOperator, *, moves: bool, sees: bool = True) -> None:
        self._sim = sim
        self._moves = moves
        self._sees = sees
        self._before: tuple[int, dict[str, int], dict[str, int]] = (0, {}, {})
        sim.api.before.append(self._look)
        sim.api.after.append(self._judge)

    def _look(self, *_: Any) -> None:
        self._before = self._paid(), self._sim.replicas(), self._ready()

    def _judge(self, method: str, path: str, query: Any) -> None:
        if "/deployments" in path and not query.get("dryRun") and SERVICE in self._sim.api.objects:
            self._no_write_costs_more()
            if method != "DELETE" and self._sees:
                self._no_write_takes_what_the_plan_holds()
        if self._moves:
            self._sim.cluster.tick()

    def _no_write_costs_more(self) -> None:
        budget, paid = self._budget(), self._paid()
        assert paid <= max(budget, self._before[0]), f"{paid} of {budget}, before {self._before[0]}"

    def _no_write_takes_what_the_plan_holds(self) -> None:
        plan = (self._sim.service().get("status") or {}).get("plan") or {}
        held = {deployment_name("rm2", row["instanceType"]): row["count"] for row in plan.get("counts", ())}
        _, before, ready = self._before
        # What was asked for beyond the budget goes; what serves goes last.
        asked = sum(PRICES[KIND_OF[name]] * count for name, count in before.items())
        stays = ready if asked > self._budget() else before
        for name, count in self._sim.replicas().items():
            least = min(held.get(name, 0), before.get(name, 0), stays.get(name, 0))
            assert count >= least, f"{name}: an outage for nothing"

    def _ready(self) -> dict[str, int]:
        """Instances that serve, by Deployment."""
        deployments = [(raw["metadata"]["name"], raw) for _, raw in self._sim.api.items("deployments")]
        return {name: sum(_serves(pod) for _, pod in self._sim.cluster.pods(raw)) for name, raw in deployments}

    def _budget(self) -> int:
        return parse_money(self._sim.service()["spec"]["budget"]["hourly"])

    def _paid(self) -> int:
        """By type: what lives or is asked for, and what terminates, of all Deployments that are there."""
        sim, total = self._sim, 0
        for _, raw in sim.api.items("deployments"):
            pods = [pod for _, pod in sim.cluster.pods(raw)]
            gone = sum("deletionTimestamp" in pod["metadata"] for pod in pods)
            kind = raw["spec"]["selector"]["matchLabels"][names.LABEL_INSTANCE_TYPE]
            total += PRICES[kind] * (max(raw["spec"]["replicas"], len(pods) - gone) + gone)
        return total


@settings(max_examples=examples(30), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.lists(st.tuples(st.sampled_from(sorted(HANDS)), st.integers(0, 3)), max_size=6), st.booleans(), st.integers(1, 4)
)
@example([("a service of small batches", 1), ("more replicas", 1)], True, 1)
@example([("a Deployment is deleted", 0), ("another image", 1)], True, 1)
def test_no_write_breaks_the_budget_or_an_instance_and_all_ends_as_declared(
    hands: list[tuple[str, int]], moves: bool, terminating: int
) -> None:
    async def story() -> None:
        sim = SimulatedOperator()
        sim.cluster.terminating_ticks = terminating
        sim.add(*rm2_scene())
        await sim.converge()
        Judge(sim, moves=moves)
        for name, rounds in hands:
            HANDS[name](sim)
            for _ in range(rounds):
                await sim.round()
        sim.add(*rm2_scene())
        for _ in range(3):
            sim.clock += 100  # past every hold and every remembered refusal
            await sim.converge(200)
        assert (sim.condition("Ready")["status"], sim.replicas()) == ("True", PLANNED)
        assert {e["operation"] for _, d in sim.api.items("deployments") for e in d["metadata"]["managedFields"]} <= {
            "Apply"
        }
        sim.api.writes.clear()
        sim.restart()
        await sim.round()
        assert sim.api.writes == [], "at rest the operator writes nothing"

    asyncio.run(story())


TELLS = "a watch tells of Deployments"
TAKING = (
    TELLS,
    "a small budget",
    "the whole budget",
    "more replicas",
    "fewer replicas",
    "a Deployment is deleted",
    "no label of the service",
    "another image",
)
"""What takes instances, or lets what was taken be missed."""


@settings(max_examples=examples(30), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.lists(st.tuples(st.sampled_from(TAKING), st.integers(0, 2)), min_size=3, max_size=10),
    st.booleans(),
    st.integers(1, 20),
)
def test_no_write_breaks_the_budget_where_lists_show_as_little_as_they_may(
    hands: list[tuple[str, int]], moves: bool, terminating: int
) -> None:
    async def story() -> None:
        sim = SimulatedOperator()
        sim.cluster.terminating_ticks = terminating
        sim.add(*rm2_scene())
        await sim.converge()
        sim.lag()
        Judge(sim, moves=moves, sees=False)
        for name, rounds in hands:
            if name == TELLS:
                sim.cache.heard.reach(DEPLOYMENTS, sim.api.revision)
            else:
                HANDS[name](sim)
            for _ in range(rounds):
                await sim.round()

    asyncio.run(story())
