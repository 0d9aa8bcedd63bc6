"""A router in a cluster: which pods are asked, and what ends, changes or starts its serving."""

from __future__ import annotations

import asyncio
import copy
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx
import pytest
import pytest_asyncio

from hetserve.api import names
from hetserve.api.service.dispatch import DispatchPorts
from hetserve.base.units import Millionths
from hetserve.reconcile.deployments.build import deployment_name
from hetserve_router.cluster import ClusterRouter, Namespaces, ServingCluster
from hetserve_router.settings import RouterSettings
from http_clients import plain_client
from leases import released_lease
from router_scene import HOST, Instance, until
from sharing_scene import terms
from testing import builders
from testing.cluster import serving_pod
from testing.kit.apiserver import FakeApiServer

TYPE = "g4dn.xlarge"
KEY = ("default", "rm2")


def replica_set(deployment: str, name: str = "rs", uid: str = "uid-rs") -> dict[str, Any]:
    owner = {"kind": "Deployment", "name": deployment, "uid": "uid-d", "controller": True, "apiVersion": "apps/v1"}
    metadata = {"name": name, "namespace": "default", "uid": uid, "ownerReferences": [owner]}
    return {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": metadata}


def pod(
    name: str, *, ip: str = "10.0.0.1", ready: bool = True, owner: str = "rs", leaves: bool = False
) -> dict[str, Any]:
    raw = serving_pod(name, "rm2", TYPE, ready=ready)
    raw["status"]["podIP"] = ip
    if owner:
        raw["metadata"]["ownerReferences"] = [
            {"kind": "ReplicaSet", "name": owner, "uid": f"uid-{owner}", "controller": True, "apiVersion": "apps/v1"}
        ]
    if leaves:
        raw["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    return raw


def api_server() -> FakeApiServer:
    api = FakeApiServer()
    dispatch = {"spec.dispatch": {"ports": {"http": 8000}, "policy": "fcfs"}}
    for one in (
        builders.service(overrides=dispatch),
        builders.instance_type(),
        builders.model_profile(),
        replica_set(deployment_name("rm2", TYPE)),
        replica_set("another", "rs2", "uid-rs2"),
        released_lease(name="default"),
    ):
        api.add(one)
    return api


@asynccontextmanager
async def seen(api: FakeApiServer, *others: str) -> AsyncIterator[ServingCluster]:
    cluster = ServingCluster(api, Namespaces(frozenset("*"), frozenset(others)), Millionths(1_250_000))
    tasks = [asyncio.create_task(each.run()) for each in cluster.reflectors]
    await cluster.synced()
    await cluster.find_owners()
    yield cluster
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def test_pods_of_our_deployments_are_asked_and_those_that_end_finish_what_they_have() -> None:
    api = api_server()
    for one in (
        pod("ready"),
        pod("starts", ready=False),
        pod("ends", leaves=True),
        pod("nowhere", ip=""),
        pod("alone", owner=""),
        pod("foreign", owner="rs2"),
    ):
        api.add(one)
    async with seen(api) as cluster:
        found = cluster.instances({KEY: DispatchPorts(http=8000, grpc=8001)})
        assert [(one.name, one.host, one.port, one.grpc_port) for one in found.ready[KEY]] == [
            ("ready", "10.0.0.1", 8000, 8001)
        ]
        uids = {str(api.pod(name)["metadata"]["uid"]) for name in ("starts", "ends")}
        assert found.draining == uids
        assert not cluster.instances({}).ready


async def test_another_routers_namespace_is_not_seen() -> None:
    async with seen(api_server(), "default") as cluster:
        assert not list(cluster.specs())


async def test_a_plan_that_tolerates_more_is_followed_and_no_other_status_is() -> None:
    api = api_server()
    entry = {"instanceType": TYPE, "count": 1, "sharing": "Shared", "gpuCompute": 100, "gpuSharing": terms("0.5")}
    plan = {"counts": [entry], "summary": f"1x{TYPE}", "hourlyCost": "0.5", "qps": "1", "planner": "p", "inputs": "i"}
    async with seen(api) as cluster:
        for status, slowdowns, is_told in (
            ({"plan": plan}, {TYPE: 1.75}, True),
            ({"plan": {**plan, "qps": "2"}, "observedGeneration": 2}, {TYPE: 1.75}, False),
            ({"plan": {**plan, "counts": [{**entry, "count": 2}], "summary": f"2x{TYPE}"}}, {TYPE: 1.75}, False),
            ({"plan": {**plan, "counts": [{**entry, "gpuSharing": terms("0.5", "3.84")}]}}, {TYPE: 3.84}, True),
            ({}, {}, True),
        ):
            cluster.redeclared.clear()
            api.put(SERVICE_PATH, {**api.objects[SERVICE_PATH], "status": status})
            version = int(api.objects[SERVICE_PATH]["metadata"]["resourceVersion"])
            await until(lambda at=version: any(known[0] == at for known in cluster.services._known.values()))  # type: ignore[misc]
            assert [spec.facts.slowdowns for spec in cluster.specs()] == [slowdowns]
            assert cluster.redeclared.is_set() == is_told


async def test_owners_that_cannot_be_read_are_asked_for_again() -> None:
    api = api_server()
    api.add(replica_set(deployment_name("rm2", TYPE), "rs3", "uid-rs3"))
    api.add(pod("a"))
    api.add(pod("b", owner="rs3"))
    async with seen(api) as cluster:
        cluster._deployments.clear()
        api.faults["GET"] = deque(["lost before"])
        before = len(api.calls)
        await cluster.find_owners()
        assert len(api.calls) == before + 1, "the next would take as long"
        assert not cluster.instances({KEY: DispatchPorts(http=8000)}).ready
        await cluster.find_owners()
        assert len(cluster.instances({KEY: DispatchPorts(http=8000)}).ready[KEY]) == 2


@dataclass
class Led:
    api: FakeApiServer
    router: ClusterRouter
    running: asyncio.Task[None]
    stop: asyncio.Event
    client: httpx.AsyncClient

    async def ask(self) -> httpx.Response:
        body = {"inputs": [{"name": "x", "shape": [1], "datatype": "FP32", "data": [0]}]}
        return await self.client.post("/v2/models/rm2/infer", json=body, headers=HOST)


@asynccontextmanager
async def led(api: FakeApiServer) -> AsyncIterator[Led]:
    settings = RouterSettings.model_validate({"port": 0, "probePort": 0, "probeAuthorization": "none"})
    router, stop = ClusterRouter(settings, api, lease_api=api, review_api=api, pod=None), asyncio.Event()
    running = asyncio.create_task(router.run(stop))
    served = router.router.services
    await until(lambda: running.done() or (router.leadership.serves() and KEY in served))
    async with plain_client("http://{}:{}".format(*router.router.addresses["queries"])) as client:
        yield Led(api, router, running, stop, client)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


SERVICE_PATH = "/apis/hetserve.io/v1alpha1/namespaces/default/inferenceservices/rm2"
LEASE_PATH = f"/apis/coordination.k8s.io/v1/namespaces/{names.SYSTEM_NAMESPACE}/leases/default"


@pytest_asyncio.fixture
async def instance(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Instance]:
    monkeypatch.setattr("hetserve_router.cluster.ASK_AGAIN", 0.01)
    one = Instance("a")
    await one.start()
    yield one
    await one.stop()


def with_instance(instance: Instance) -> FakeApiServer:
    api = api_server()
    dispatch = {"ports": {"http": instance.port}, "policy": "fcfs"}
    api.put(SERVICE_PATH, builders.service(overrides={"spec.dispatch": dispatch}))
    api.add(pod("a", ip="127.0.0.1"))
    return api


async def test_a_leader_answers_from_its_pods_and_follows_what_is_declared(instance: Instance) -> None:
    api = with_instance(instance)
    async with led(api) as scene:
        asking = asyncio.create_task(scene.ask())
        (await instance.next()).answer()
        assert (await asking).status_code == 200
        api.remove(SERVICE_PATH)
        await until(lambda: KEY not in scene.router.router.services)
        assert (await scene.ask()).status_code == 404


async def test_who_is_deposed_answers_what_it_has_taken_and_takes_no_more(
    instance: Instance, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hetserve_router.leadership.HANDOVER", 0.0)
    api = with_instance(instance)
    async with led(api) as scene:
        computed, waiting = asyncio.create_task(scene.ask()), asyncio.create_task(scene.ask())
        held = await instance.next()
        await until(lambda: scene.router.router.services[KEY].core.waiting == 1)
        lease = copy.deepcopy(api.objects[LEASE_PATH])
        lease["spec"] |= {"holderIdentity": "another", "leaseTransitions": 9}
        api.put(LEASE_PATH, lease)
        await until(lambda: not scene.router.leadership.serves())
        assert (await scene.ask()).status_code == 503
        held.answer()
        (await instance.next()).answer()
        assert [(await each).status_code for each in (computed, waiting)] == [200, 200]


async def test_who_cannot_contend_any_more_ends_with_the_error() -> None:
    async with led(api_server()) as scene:

        async def fail(_seconds: float) -> None:
            raise RuntimeError("no more")

        scene.router.leadership.sleep = fail
        with pytest.raises(ExceptionGroup, match="unhandled"):
            await scene.running
