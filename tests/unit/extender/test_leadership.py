"""Two extenders together: one serves beside the scheduler that leads, the other says who does, and takes over."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack

import pytest

from hetserve.api import names
from hetserve_extender.extender import Extender
from hetserve_extender.leader import leader
from hetserve_shell.leader.elector import boot_clock
from leadership_scene import BIND, FILTER, cluster, leader_of, leads, running, settings, until
from scheduler_double import PATH, Scheduler
from testing.cluster import gpu_pod


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leader, "HELD", 0.02)


async def test_of_two_pairs_one_leads_and_the_other_says_so_at_every_verb() -> None:
    api = cluster()
    api.add(gpu_pod())
    async with running(Extender(settings("a"), api)) as a, running(Extender(settings("b"), api)) as b:
        async with Scheduler(api, "a").renewing():
            await until(lambda: leads(a.extender) and b.extender.ready())
            await until(lambda: "a_u1" in b.extender.refusal())
            said = "not the leader (the scheduler that leads is a_u1)"
            for verb, body in (("filter", FILTER), ("bind", BIND)):
                refused = await b.ask(verb, body)
                assert (refused.status_code, refused.json()["Error"]) == (200, said)
            refused = await b.ask("prioritize", FILTER)
            assert (refused.status_code, refused.json()) == (503, {"error": said})
            assert (await a.ask("filter", FILTER)).json()["NodeNames"] == ["n0"]
            assert (await a.ask("bind", BIND)).json() == {"Error": ""}
        async with Scheduler(api, "b").renewing():
            await until(lambda: leads(b.extender) and not leads(a.extender))


async def test_nobody_outside_of_the_pod_reaches_the_verbs_whatever_the_host() -> None:
    """Another address of this machine stands for that of the pod."""
    wide = settings().model_copy(update={"host": "0.0.0.0"})  # noqa: S104
    async with running(Extender(wide, cluster())) as a:
        await until(lambda: "verbs" in a.extender.addresses)
        ports = {what: address[1] for what, address in a.extender.addresses.items()}
        _, writer = await asyncio.open_connection("127.0.0.2", ports["probes"])
        writer.close()
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection("127.0.0.2", ports["verbs"])
        assert a.extender.addresses["verbs"][0] == "127.0.0.1"


async def test_a_verb_waits_for_the_end_of_a_take_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """The scheduler that has won calls before we have read that it has: refused, its pod would wait for a second."""
    monkeypatch.setattr(leader, "HELD", 60.0)
    api = cluster()
    api.add(gpu_pod())
    async with running(Extender(settings(), api)) as a:
        await until(a.extender.ready)
        asked = asyncio.create_task(a.ask("filter", FILTER))
        async with Scheduler(api).renewing():
            assert (await asked).json()["NodeNames"] == ["n0"]
            assert (await a.ask("bind", BIND)).json() == {"Error": ""}


async def test_a_leader_whose_scheduler_lost_the_lease_stops_and_comes_back() -> None:
    api = cluster()
    async with running(Extender(settings(), api)) as a, AsyncExitStack() as stack:
        await stack.enter_async_context(Scheduler(api).renewing())
        await until(lambda: leads(a.extender))
        await stack.aclose()
        async with Scheduler(api, "usurper").renewing():
            await until(lambda: a.extender.refusal() == "not the leader (the scheduler that leads is usurper_u1)")
        async with Scheduler(api).renewing():
            await until(lambda: leads(a.extender))
            assert (await a.ask("filter", FILTER)).json()["NodeNames"] == ["n0"]


async def test_who_follows_a_killed_leader_lists_the_pods_once() -> None:
    """And again only where the watch does not show the fence: of a large cluster a list takes seconds."""
    api = cluster()
    api.add(gpu_pod())
    async with running(Extender(settings(), api)) as a, Scheduler(api).renewing():
        await until(lambda: leads(a.extender))
        asked = [(method, path) for method, path, _ in api.calls if path.startswith("/api/v1/") and "pods" in path]
    assert asked[:2] == [("GET", "/api/v1/pods")] * 2, "its own first list, and one that began when it led"
    assert asked[2][0] == "PATCH"
    assert ("GET", "/api/v1/pods") not in asked[2:]


async def test_after_a_lapse_in_which_nobody_led_nothing_is_fenced_or_listed_again() -> None:
    api = cluster()
    api.add(gpu_pod())
    async with running(Extender(settings(), api)) as a, Scheduler(api).renewing():
        await until(lambda: leads(a.extender))
        reader = leader_of(a.extender).reader
        a.extender.placer.filter(api.pod("p0"), ["n0"])
        a.extender.placer.ledger.begin_bind("uid-p0")
        before, asked = reader.lease.term, len(api.calls)
        # As if no renewal had been seen for a while.
        reader.clock = leader_of(a.extender).leadership.clock = lambda: boot_clock() + 4.0
        await until(lambda: reader.lease.term > before and leads(a.extender))
        later = [path for method, path, _ in api.calls[asked:] if "/pods" in path]
        assert later == [], "a moment of a busy machine would cost a whole change of leader"
        assert a.extender.placer.ledger.booking("uid-p0") is not None, "a bind under way lost its GPU"


async def test_who_sees_the_fence_of_another_leader_binds_nothing_and_takes_over_anew() -> None:
    """A scheduler that ends in order releases its Lease, and the next leader may fence before we have read that."""
    api = cluster()
    api.add(gpu_pod())
    async with running(Extender(settings(), api)) as a, Scheduler(api).renewing():
        await until(lambda: leads(a.extender))
        assert (await a.ask("filter", FILTER)).json()["NodeNames"] == ["n0"]
        term = leader_of(a.extender).leadership.term
        fenced = api.pod("p0")
        fenced["metadata"]["labels"][names.LABEL_FENCE] = "of-the-next-leader"
        api.add(fenced)
        a.extender.revisions.apply("MODIFIED", api.pod("p0"))
        assert "no renewal of it was seen" in (await a.ask("bind", BIND)).json()["Error"]
        assert not [method for method, path, _ in api.calls if path.endswith("/binding")]
        await until(lambda: leads(a.extender) and leader_of(a.extender).leadership.term > term)
        assert api.pod("p0")["metadata"]["labels"][names.LABEL_FENCE] != "of-the-next-leader"
        assert (await a.ask("filter", FILTER)).json()["NodeNames"] == ["n0"]
        assert (await a.ask("bind", BIND)).json() == {"Error": ""}


@pytest.mark.parametrize("lost", [0, 1, 2], ids=["none is lost", "the first is lost", "every one is lost"])
async def test_background_tasks_that_do_not_end_are_cancelled_again_and_then_end_the_process(
    lost: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the elector would win the Lease again, nobody would serve, and nothing would be seen to be wrong."""
    monkeypatch.setattr(leader, "ENDS_WITHIN", 0.02)
    came = list[asyncio.CancelledError]()

    async def stubborn() -> None:
        while len(came) <= lost:
            try:
                await asyncio.sleep(3600)
            except asyncio.CancelledError as error:
                came.append(error)
        raise came[-1]

    leading, over = asyncio.create_task(stubborn()), asyncio.create_task(asyncio.sleep(0))
    await asyncio.sleep(0)
    if lost < 2:
        await leader.end_both(leading, over)
    else:
        with pytest.raises(RuntimeError, match="does not end"):
            await leader.end_both(leading, over)
        leading.cancel()
        await asyncio.wait([leading])
    assert leading.cancelled()


async def test_who_ends_answers_what_it_has_begun_and_leads_no_more() -> None:
    api = cluster()
    async with running(Extender(settings(), api)) as a, Scheduler(api).renewing():
        await until(lambda: leads(a.extender))
        await a.end()
        assert "this process is ending" in a.extender.refusal()
    assert api.objects[PATH]["spec"]["holderIdentity"] == "me_u1", "it is the scheduler's to release"


async def test_nothing_is_released_from_its_queue_by_who_does_not_lead() -> None:
    api = cluster()
    api.add(gpu_pod(gates=(names.QUEUE_GATE,)))
    async with running(Extender(settings(), api)) as a, Scheduler(api, "other").renewing():
        await until(a.extender.ready)
        await until(lambda: "other" in a.extender.refusal())
        await asyncio.sleep(0.2)  # several rounds of a queue that runs
    assert not [call for call in api.calls if call[0] == "PATCH"]
