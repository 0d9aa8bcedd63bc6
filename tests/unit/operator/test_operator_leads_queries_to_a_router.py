"""The address of a service with spec.dispatch: made, corrected and deleted, and what the status says of it."""

from __future__ import annotations

from typing import Any

import pytest

from hetserve.api import names
from hetserve.api.service.dispatch import MOST_INSTANCES
from hetserve.reconcile.snapshot import RouterFact
from hetserve_operator.memory import FREE_REPAIRS, LONGEST_HOLD, Interests
from hetserve_operator.watch.handlers import EventHandlers
from hetserve_operator.workqueue import Key
from hetserve_shell.kube.client import ApiStatusError
from operator_scene import SERVICE, converged
from testing.operator import SimulatedOperator
from testing.scenes import rm2_scene

Json = dict[str, Any]
ADDRESS = "/api/v1/namespaces/default/services/rm2"
HOST = "hetserve-router-default.hetserve-system.svc.cluster.local"
ROUTER = RouterFact("hetserve-router-default", HOST)
OTHER = RouterFact("other", "other.hetserve-system.svc.cluster.local")
FOREIGN: Json = {
    "apiVersion": "v1",
    "kind": "Service",
    "metadata": {"name": "rm2", "namespace": "default"},
    "spec": {"type": "ClusterIP", "selector": {"app": "theirs"}, "ports": [{"port": 80}]},
}


def dispatching(**more: Any) -> dict[str, Any]:
    return {"policy": "hetserve", "ports": {"http": 8000}, **more}


def dispatch(raw: Json) -> None:
    raw["spec"]["dispatch"] = dispatching()


async def dispatched(router: RouterFact | None = ROUTER, **scene: Any) -> SimulatedOperator:
    sim = SimulatedOperator()
    sim.router = router
    sim.add(*rm2_scene(**scene))
    sim.edit(SERVICE, dispatch)
    await sim.converge()
    return sim


def told(sim: SimulatedOperator) -> tuple[str, str]:
    found = sim.condition("Serving")
    return found["status"], found["reason"]


def conditions(sim: SimulatedOperator) -> dict[str, str]:
    return {one["type"]: one["status"] for one in sim.service()["status"]["conditions"]}


async def test_a_service_that_is_dispatched_to_gets_an_address_and_is_ready_by_it() -> None:
    sim = await dispatched()
    address = sim.api.objects[ADDRESS]
    assert address["spec"] == {
        "type": "ExternalName",
        "externalName": HOST,
        "ports": [
            {"name": "http", "port": 80, "protocol": "TCP", "targetPort": 80},
            {"name": "grpc", "port": 8001, "protocol": "TCP", "targetPort": 8001, "appProtocol": "kubernetes.io/h2c"},
        ],
    }
    assert address["metadata"]["labels"] == {names.LABEL_SERVICE: "rm2", names.LABEL_MANAGED_BY: "hetserve"}
    (owner,) = address["metadata"]["ownerReferences"]
    assert (owner["uid"], owner["controller"]) == (sim.service()["metadata"]["uid"], True)
    assert told(sim) == ("True", "QueriesServed")
    assert sim.service()["status"]["dispatch"] == {
        "address": "http://rm2.default",
        "router": "hetserve-router-default",
        "policy": "hetserve",
    }
    assert sim.condition("Ready")["status"] == "True"


async def test_without_dispatch_no_service_is_read_or_written_and_nothing_is_said_of_it() -> None:
    sim = await converged()
    sim.router = ROUTER
    sim.api.calls.clear()
    await sim.converge()
    assert not [path for _, path, _ in sim.api.calls if path == ADDRESS]
    assert "Serving" not in conditions(sim)
    assert sim.service()["status"].get("dispatch") is None


async def test_the_address_goes_with_dispatch() -> None:
    sim = await dispatched()
    sim.edit(SERVICE, lambda raw: raw["spec"].pop("dispatch"))
    await sim.converge()
    assert ADDRESS not in sim.api.objects
    assert "Serving" not in conditions(sim)
    assert sim.service()["status"].get("dispatch") is None
    assert sim.condition("Ready")["status"] == "True"


async def test_an_address_that_a_lost_process_left_is_found_by_its_label() -> None:
    """It had not yet told of it in the status; the watch does."""
    sim = await dispatched()

    def forgotten(raw: Json) -> None:
        del raw["spec"]["dispatch"], raw["status"]["dispatch"]

    sim.edit(SERVICE, forgotten)
    sim.restart()
    ignore: list[Key] = []
    feed = EventHandlers(sim.cache, Interests(), ignore.append, ignore.append, ignore.append)
    feed.address(sim.api.objects[ADDRESS], deleted=False)
    await sim.converge()
    assert ADDRESS not in sim.api.objects


EDITS: dict[str, Any] = {
    "its type": lambda raw: raw["spec"].update(type="ClusterIP"),
    "where it leads": lambda raw: raw["spec"].update(externalName="evil.example.com"),
    "a port": lambda raw: raw["spec"]["ports"][0].update(port=81),
    "a port more": lambda raw: raw["spec"]["ports"].append({"name": "x", "port": 9, "protocol": "TCP"}),
    "no ports": lambda raw: raw["spec"].pop("ports"),
    "the protocol": lambda raw: raw["spec"]["ports"][1].pop("appProtocol"),
    "a selector": lambda raw: raw["spec"].update(selector={"app": "theirs"}),
    "addresses of its own": lambda raw: raw["spec"].update(externalIPs=["192.0.2.1"]),
    "its label": lambda raw: raw["metadata"]["labels"].pop(names.LABEL_SERVICE),
}


@pytest.mark.parametrize("edit", EDITS.values(), ids=EDITS)
async def test_an_edited_address_is_corrected(edit: Any) -> None:
    sim = await dispatched()
    before = sim.api.objects[ADDRESS]
    sim.edit(ADDRESS, edit)
    await sim.converge()
    found = sim.api.objects[ADDRESS]
    assert (found["spec"], found["metadata"]["labels"]) == (before["spec"], before["metadata"]["labels"])
    assert found["metadata"]["uid"] == before["metadata"]["uid"]


async def test_who_edits_an_address_again_and_again_is_answered_ever_later() -> None:
    sim = await dispatched()
    for _ in range(FREE_REPAIRS):
        sim.edit(ADDRESS, EDITS["where it leads"])
        await sim.look(Key("default", "rm2"))
    assert sim.api.objects[ADDRESS]["spec"]["externalName"] == HOST
    sim.edit(ADDRESS, EDITS["where it leads"])
    await sim.look(Key("default", "rm2"))
    assert sim.api.objects[ADDRESS]["spec"]["externalName"] != HOST
    assert told(sim) == ("False", "WriteRefused")
    assert "again and again" in sim.condition("Serving")["message"]
    sim.clock += LONGEST_HOLD
    await sim.converge()
    assert sim.api.objects[ADDRESS]["spec"]["externalName"] == HOST
    assert told(sim) == ("True", "QueriesServed")


async def test_what_others_add_to_an_address_stays_where_it_leads_nowhere_else() -> None:
    sim = await dispatched()
    sim.edit(ADDRESS, lambda raw: raw["metadata"]["labels"].update(team="serving"))
    sim.edit(ADDRESS, lambda raw: raw["spec"].update(sessionAffinity="None"))
    sim.api.writes.clear()
    await sim.converge()
    assert sim.api.writes == []


async def test_a_deleted_address_is_made_anew() -> None:
    sim = await dispatched()
    sim.api.remove(ADDRESS)
    await sim.converge()
    assert sim.api.objects[ADDRESS]["spec"]["externalName"] == HOST


async def test_a_service_of_that_name_that_is_not_ours_is_never_touched() -> None:
    sim = SimulatedOperator()
    sim.router = ROUTER
    sim.add(*rm2_scene(), FOREIGN)
    sim.edit(SERVICE, dispatch)
    before = sim.api.objects[ADDRESS]
    await sim.converge()
    sim.edit(SERVICE, lambda raw: raw["spec"].pop("dispatch"))
    await sim.converge()
    sim.edit(SERVICE, dispatch)
    await sim.converge()
    assert sim.api.objects[ADDRESS] == before
    assert told(sim) == ("False", "NameTaken")
    assert (conditions(sim)["Stalled"], sim.condition("Ready")["reason"]) == ("True", "NameTaken")
    assert sim.service()["status"].get("dispatch") is None
    sim.api.remove(FOREIGN)
    await sim.converge()
    assert told(sim) == ("True", "QueriesServed")


async def test_the_name_that_is_taken_is_looked_at_again() -> None:
    """Nobody tells of a Service without our label."""
    sim = SimulatedOperator()
    sim.router = ROUTER
    sim.add(*rm2_scene(), FOREIGN)
    sim.edit(SERVICE, dispatch)
    await sim.converge()
    ((key),) = sim.cache.keys()
    assert await sim.controller.reconcile(key) == 30.0


async def test_a_namespace_without_a_router_has_no_address() -> None:
    sim = await dispatched(router=None)
    assert ADDRESS not in sim.api.objects
    assert told(sim) == ("False", "NoRouter")
    assert "no router serves namespace default; add it" in sim.condition("Serving")["message"]
    assert conditions(sim)["Stalled"] == "True"
    sim.router = ROUTER
    await sim.converge()
    assert told(sim) == ("True", "QueriesServed")
    sim.router = OTHER
    await sim.converge()
    assert sim.api.objects[ADDRESS]["spec"]["externalName"] == OTHER.host
    assert sim.service()["status"]["dispatch"]["router"] == "other"
    sim.router = None
    await sim.converge()
    assert ADDRESS not in sim.api.objects, "the router would refuse what it leads there"


async def test_a_service_of_more_instances_than_a_router_chooses_among_is_not_served_until_it_has_fewer() -> None:
    many = {"spec.load.batchSizes": [{"batch": 20, "weight": 1}], "spec.planner": "homogeneous"}
    nodes = MOST_INSTANCES + 1
    sim = await dispatched(gpu_nodes=0, cpu_nodes=nodes, overrides={**many, "spec.budget.hourly": f"{0.149 * nodes}"})
    assert told(sim) == ("False", "TooManyInstances")
    assert f"{nodes} instances are ready" in sim.condition("Serving")["message"]
    assert conditions(sim)["Ready"] == "False"
    sim.edit(SERVICE, lambda raw: raw["spec"]["budget"].update(hourly=f"{0.149 * MOST_INSTANCES}"))
    await sim.converge()
    assert told(sim) == ("True", "QueriesServed")
    assert conditions(sim)["Ready"] == "True"


async def test_a_router_that_nobody_leads_keeps_a_service_from_being_ready() -> None:
    sim = await dispatched(router=RouterFact(ROUTER.name, HOST, leads=False))
    assert ADDRESS in sim.api.objects
    assert told(sim) == ("False", "RouterNotReady")
    assert (conditions(sim)["Ready"], conditions(sim)["Reconciling"]) == ("False", "True")
    assert sim.condition("Ready")["reason"] == "RouterNotReady"
    sim.router = ROUTER
    await sim.converge()
    assert conditions(sim)["Ready"] == "True"


async def test_no_instance_that_is_ready_is_said_though_the_address_stands() -> None:
    sim = SimulatedOperator()
    sim.router = ROUTER
    sim.add(*rm2_scene())
    sim.edit(SERVICE, dispatch)
    sim.cluster.launch_ticks = 10**6
    for _ in range(10):
        await sim.round()
    assert told(sim) == ("False", "NoInstanceReady")
    assert sim.service()["status"]["dispatch"]["address"] == "http://rm2.default"


async def test_a_write_that_is_refused_is_said_and_tried_again() -> None:
    sim = SimulatedOperator()
    sim.router = ROUTER
    sim.add(*rm2_scene())
    sim.edit(SERVICE, dispatch)

    def refuse(_method: str, path: str, _query: Any) -> None:
        if path == ADDRESS:
            raise ApiStatusError(403, "Forbidden", "services is forbidden: exceeded quota")

    sim.api.before.append(refuse)
    await sim.converge()
    assert told(sim) == ("False", "WriteRefused")
    assert "exceeded quota" in sim.condition("Serving")["message"]
    assert conditions(sim)["Stalled"] == "True"
    sim.api.before.remove(refuse)
    sim.clock += 60.0
    await sim.converge()
    assert told(sim) == ("True", "QueriesServed")


async def test_where_only_advice_is_asked_for_no_address_is_written() -> None:
    sim = SimulatedOperator()
    sim.router = ROUTER
    sim.add(*rm2_scene())
    sim.edit(SERVICE, lambda raw: raw["spec"].update(mode="Advise", dispatch=dispatching()))
    await sim.converge()
    assert ADDRESS not in sim.api.objects
    assert told(sim) == ("False", "Advising")


async def test_an_address_stays_while_the_spec_cannot_be_read() -> None:
    sim = await dispatched()
    sim.edit(SERVICE, lambda raw: raw["spec"]["dispatch"].update(policy="unheard-of"))
    await sim.converge()
    assert ADDRESS in sim.api.objects
    assert told(sim) == ("True", "QueriesServed")
    assert sim.condition("Planned")["reason"] == "SpecInvalid"


async def test_a_service_over_grpc_alone_is_asked_at_the_port_of_grpc() -> None:
    sim = SimulatedOperator()
    sim.router = ROUTER
    sim.add(*rm2_scene())
    sim.edit(SERVICE, lambda raw: raw["spec"].update(dispatch={"ports": {"grpc": 8001}}))
    await sim.converge()
    assert sim.service()["status"]["dispatch"]["address"] == "rm2.default:8001"
    assert MOST_INSTANCES == 128


async def test_an_event_tells_once_that_queries_are_not_served() -> None:
    sim = await dispatched(router=None)
    await sim.converge()
    events = [raw for _, raw in sim.api.items("events") if raw["reason"] == "NoRouter"]
    assert [raw["type"] for raw in events] == ["Warning"]
