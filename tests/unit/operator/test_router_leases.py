"""Which router serves a namespace, and whether a process of it leads, as its Lease says."""

from __future__ import annotations

import logging
from collections import deque

import pytest

from hetserve.reconcile.snapshot import RouterFact
from hetserve_operator.settings import OperatorSettings
from hetserve_operator.watch.leases import ASK_AGAIN, LOST_AFTER, RouterLeases
from hetserve_shell.leader.elector import Elector
from hetserve_shell.leader.lease import Candidate, Terms
from hetserve_shell.settings import SettingsError, load_settings
from testing.kit.apiserver import FakeApiServer

HOSTS = "hetserve-system.svc.cluster.local"
TERMS = Terms(3.0, 2.0, 0.5)
ROUTERS = [{"name": "a", "namespaces": ["team", "more"]}, {"name": "b", "namespaces": ["*"]}]


def settings(**routing: object) -> OperatorSettings:
    return load_settings(OperatorSettings, None, {"routing": routing})


class Scene:
    """An API server with Leases, and an operator that reads them. now: seconds, advanced only by the test."""

    def __init__(self) -> None:
        self.api = FakeApiServer()
        self.now = 0.0
        self.changes = 0
        self.leases = RouterLeases(self.api, settings(routers=ROUTERS).routing, lambda: self.now, self.changed)

    def changed(self) -> None:
        self.changes += 1

    def process(self, router: str, identity: str = "pod") -> Elector:
        return Elector(self.api, "hetserve-system", router, Candidate(identity, TERMS), lambda: self.now)

    async def passes(self, seconds: float, *electors: Elector) -> None:
        """Processes renew each half second; the operator reads as often as it does."""
        for step in range(int(seconds * 2)):
            for elector in electors:
                await elector.step()
            if step % int(ASK_AGAIN * 2) == 0:
                await self.leases.read()
            self.now += 0.5

    def leads(self, namespace: str) -> bool:
        found = self.leases.router(namespace)
        assert found is not None
        return found.leads


def test_a_namespace_belongs_to_the_router_that_names_it_and_else_to_that_of_all_others() -> None:
    leases = Scene().leases
    assert leases.router("team") == leases.router("more") == RouterFact("a", f"a.{HOSTS}", leads=False)
    assert leases.router("default") == RouterFact("b", f"b.{HOSTS}", leads=False)


def test_without_a_router_for_all_others_they_have_none() -> None:
    assert settings(routers=ROUTERS[:1]).routing.router_of("default") is None
    assert settings().routing.router_of("team") is None


def test_the_host_of_a_router_is_in_the_release_and_the_domain() -> None:
    routing = settings(routers=ROUTERS, namespace="infra", clusterDomain="corp.example").routing
    assert routing.host_of("a") == "a.infra.svc.corp.example"


REFUSED = {
    "a namespace of two routers": (
        [{"name": "a", "namespaces": ["x"]}, {"name": "b", "namespaces": ["y", "x"]}],
        "namespace x is there twice: leave one",
    ),
    "a namespace twice": ([{"name": "a", "namespaces": ["x", "x"]}], "namespace x is there twice"),
    "a name twice": (
        [{"name": "a", "namespaces": ["x"]}, {"name": "a", "namespaces": ["y"]}],
        "name a is there twice",
    ),
    "a router for nobody": ([{"name": "a", "namespaces": []}], "namespaces"),
    "a name that no Service has": ([{"name": "3a", "namespaces": ["x"]}], "name"),
    "a namespace that there cannot be": ([{"name": "a", "namespaces": ["team-*"]}], "namespaces"),
}


@pytest.mark.parametrize(("routers", "words"), REFUSED.values(), ids=REFUSED)
def test_routers_that_contradict_each_other_are_refused(routers: object, words: str) -> None:
    with pytest.raises(SettingsError, match=words):
        settings(routers=routers)


async def test_a_router_leads_while_a_process_of_it_renews_its_lease() -> None:
    scene = Scene()
    await scene.passes(4.0)
    assert (scene.leads("team"), scene.changes) == (False, 0)
    process = scene.process("a")
    await scene.passes(12.0, process)
    assert (scene.leads("team"), scene.leads("default"), scene.changes) == (True, False, 1)
    await scene.passes(LOST_AFTER - ASK_AGAIN)
    assert scene.leads("team"), "another may take over"
    await scene.passes(3 * ASK_AGAIN)
    assert (scene.leads("team"), scene.changes) == (False, 2)


async def test_a_handover_is_no_loss() -> None:
    scene = Scene()
    first, second = scene.process("a", "first"), scene.process("a", "second")
    await scene.passes(12.0, first)
    await first.release()
    await scene.passes(LOST_AFTER, second)
    await scene.passes(LOST_AFTER, second)
    assert (scene.leads("team"), scene.changes) == (True, 1)


@pytest.mark.parametrize("fault", ["lost before", 403, 500])
async def test_without_an_answer_what_was_known_stays_and_is_complained_of_once(
    fault: object, caplog: pytest.LogCaptureFixture
) -> None:
    scene = Scene()
    await scene.passes(12.0, scene.process("a"))
    caplog.clear()
    scene.api.faults["GET"] = deque([fault] * 60)  # type: ignore[list-item]
    with caplog.at_level(logging.WARNING):
        await scene.passes(60.0)
    assert (scene.leads("team"), scene.leads("default"), scene.changes) == (True, False, 1)
    assert sorted(record.message.partition(" ")[0].rsplit("/", 1)[-1] for record in caplog.records) == ["a", "b"]
    await scene.passes(LOST_AFTER + 2 * ASK_AGAIN)
    assert not scene.leads("team")


async def test_a_lease_that_is_gone_leads_to_nobody() -> None:
    scene = Scene()
    await scene.passes(12.0, scene.process("a"))
    scene.api.remove("/apis/coordination.k8s.io/v1/namespaces/hetserve-system/leases/a")
    await scene.passes(LOST_AFTER + 2 * ASK_AGAIN)
    assert not scene.leads("team")


async def test_a_lease_that_nobody_holds_leads_to_nobody_whoever_writes_it() -> None:
    scene = Scene()
    metadata = {"name": "a", "namespace": "hetserve-system"}
    for note in ("first", "second"):
        spec = {"holderIdentity": "", "note": note}
        scene.api.add({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": spec})
        await scene.passes(2 * ASK_AGAIN)
        assert not scene.leads("team")
