"""A Lease is given up though the API server is slow: else the next one waits until it runs out."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

import pytest

from hetserve_shell.kube.connection import ApiUnreachableError
from hetserve_shell.leader.elector import Elector
from hetserve_shell.leader.lease import Candidate, Terms
from leases import released_lease
from testing.kit.apiserver import FakeApiServer, Fault

LEASE = "/apis/coordination.k8s.io/v1/namespaces/hetserve-system/leases/lease"


@dataclass
class Scene:
    """A leader whose next requests meet faults, on a clock that only its sleeps move."""

    api: FakeApiServer = field(default_factory=FakeApiServer)
    now: float = 0.0

    def __post_init__(self) -> None:
        self.api.add(released_lease())
        me = Candidate("me", Terms())
        self.elector = Elector(self.api, "hetserve-system", "lease", me, lambda: self.now, lambda: 0.0, self.sleep)

    async def sleep(self, seconds: float) -> None:
        self.now += seconds

    async def lead(self) -> None:
        await self.elector.step()
        assert self.elector.leads()

    def meet(self, method: str, *faults: Fault) -> None:
        self.api.faults[method] = deque(faults)

    def holder(self) -> str:
        return str(self.api.objects[LEASE]["spec"]["holderIdentity"])

    def puts(self) -> int:
        return sum(method == "PUT" for method, _, _ in self.api.calls)


@pytest.fixture
def scene() -> Scene:
    return Scene()


async def test_a_renewal_that_was_written_and_not_answered_does_not_keep_it(scene: Scene) -> None:
    await scene.lead()
    scene.meet("PUT", "lost after")
    await scene.elector.step()
    await scene.elector.release()
    assert scene.holder() == "", "the next one would wait for as long as the Lease lasts, and then fence"


@pytest.mark.parametrize("fault", ["lost before", "lost after", 429, 500, 504, 409])
async def test_it_is_tried_again_where_another_try_may_help(scene: Scene, fault: Fault) -> None:
    await scene.lead()
    scene.meet("PUT", fault)
    await scene.elector.release()
    assert scene.holder() == ""


async def test_it_is_tried_again_where_the_lease_cannot_be_read_either(scene: Scene) -> None:
    await scene.lead()
    scene.meet("PUT", "lost after", "lost before")
    scene.meet("GET", "lost before", 500)
    await scene.elector.step()
    await scene.elector.release()
    assert scene.holder() == ""


async def test_who_may_not_write_it_any_more_ends_at_once(scene: Scene) -> None:
    """As in an uninstallation, which takes the permissions too."""
    await scene.lead()
    before = scene.puts()
    scene.meet("PUT", *[403] * 9)
    await scene.elector.release()
    assert (scene.puts() - before, scene.now) == (1, 0.0)


async def test_no_try_begins_after_the_time_in_which_we_could_still_lead(scene: Scene) -> None:
    await scene.lead()
    began = list[float]()

    def never_answers(*_: object) -> None:
        began.append(scene.now)
        scene.now += Terms().renew_deadline / 2
        raise ApiUnreachableError("no answer within 1 s")

    scene.api.before.append(never_answers)
    await scene.elector.release()
    assert scene.holder() == "me"
    assert len(began) >= 2
    assert max(began) < Terms().renew_deadline


async def test_a_lease_that_lets_nobody_lead_yet_is_not_given_up(scene: Scene) -> None:
    """Nothing tells who led before: the next would lead at once, beside a leader that has not seen it yet."""
    scene.api.remove(LEASE)
    await scene.elector.step()
    assert scene.holder() == "me"
    await scene.elector.release()
    assert scene.holder() == "me"


async def test_the_lease_of_who_took_it_meanwhile_is_left(scene: Scene) -> None:
    await scene.lead()
    taken = released_lease()
    taken["spec"] |= {"holderIdentity": "other"}
    scene.api.add(taken)
    await scene.elector.release()
    assert scene.holder() == "other"


async def test_a_lease_that_somebody_deleted_is_not_made_again(scene: Scene) -> None:
    await scene.lead()
    scene.api.remove(LEASE)
    await scene.elector.release()
    assert LEASE not in scene.api.objects
