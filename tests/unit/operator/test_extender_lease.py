"""What the operator reads on the extender's Lease: whether the one that leads books compute."""

from __future__ import annotations

from collections import deque

import pytest

from hetserve.api.names import ANNOTATION_COUNTS_PAIRS
from hetserve_operator.watch.leases import ASK_AGAIN, ExtenderLease
from hetserve_shell.kube.client import MERGE_PATCH
from hetserve_shell.leader.elector import Elector
from hetserve_shell.leader.lease import Candidate, Terms
from testing.kit.apiserver import FakeApiServer

PATH = "/apis/coordination.k8s.io/v1/namespaces/hetserve-system/leases/hetserve-scheduler"
TERMS = Terms(3.0, 2.0, 0.5)


class Scene:
    """An API server with the Lease, and an operator that reads it. now: seconds, advanced only by the test."""

    def __init__(self, name: str = "hetserve-scheduler") -> None:
        self.api = FakeApiServer()
        self.now = 0.0
        self.changes = 0
        self.lease = ExtenderLease(self.api, "hetserve-system", name, self.changed)

    def changed(self) -> None:
        self.changes += 1

    def scheduler(self, identity: str) -> Elector:
        return Elector(self.api, "hetserve-system", "hetserve-scheduler", Candidate(identity, TERMS), lambda: self.now)

    async def takes(self, scheduler: Elector, *, books: bool) -> None:
        """Lets a scheduler have the Lease, after the earlier one fell silent; books: as its extender says."""
        for _ in range(20):
            await scheduler.step()
            self.now += 0.5
        if books:
            annotations = {ANNOTATION_COUNTS_PAIRS: scheduler.lease.identity}
            patch = {"metadata": {"annotations": annotations}}
            await self.api.request("PATCH", PATH, body=patch, content_type=MERGE_PATCH)

    async def look(self) -> bool:
        await self.lease.read()
        return self.lease.counts_pairs


async def test_a_leader_that_counts_pairs_says_so_and_one_of_before_does_not() -> None:
    scene = Scene()
    assert not await scene.look(), "nobody has said anything yet"
    await scene.takes(scene.scheduler("new"), books=True)
    assert await scene.look()
    assert (scene.changes, scene.lease.pause(60.0)) == (1, 60.0)
    await scene.takes(scene.scheduler("old"), books=False)
    assert scene.api.objects[PATH]["metadata"]["annotations"] == {ANNOTATION_COUNTS_PAIRS: "new"}
    assert not await scene.look(), "the word of an earlier leader counts for an older one that has taken over"
    assert (scene.changes, scene.lease.pause(60.0)) == (2, ASK_AGAIN)
    await scene.takes(scene.scheduler("newer"), books=True)
    assert await scene.look()
    assert scene.changes == 3


async def test_while_nobody_leads_the_last_word_holds() -> None:
    scene = Scene()
    elector = scene.scheduler("new")
    await scene.takes(elector, books=True)
    assert await scene.look()
    await elector.release()
    assert scene.api.objects[PATH]["spec"]["holderIdentity"] == ""
    assert await scene.look()
    assert scene.changes == 1


@pytest.mark.parametrize("fault", ["lost before", 403, 500])
async def test_without_an_answer_the_last_word_holds(fault: object) -> None:
    scene = Scene()
    await scene.takes(scene.scheduler("new"), books=True)
    scene.api.faults["GET"] = deque([fault])  # type: ignore[list-item]
    assert not await scene.look()
    assert await scene.look()
    scene.api.faults["GET"] = deque([fault])  # type: ignore[list-item]
    assert await scene.look()


async def test_an_extender_without_an_election_is_not_asked() -> None:
    scene = Scene(name="")
    assert await scene.look()
    assert scene.api.calls == []
