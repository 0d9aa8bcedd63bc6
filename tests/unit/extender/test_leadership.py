"""Two extenders together: one serves and is found, the other says who does, and takes over when it ends."""

from __future__ import annotations

import asyncio
import socket

import pytest

from hetserve.api import names
from hetserve_extender.extender import Extender
from hetserve_extender.leader import leader, shared_port
from hetserve_extender.leader.label import LeaderLabel
from hetserve_extender.settings import LeaderElectionOptions
from hetserve_shell.http.listener import listen
from hetserve_shell.leader.elector import Elector, boot_clock
from hetserve_shell.leader.lease import Candidate, Terms
from leadership_scene import BIND, FILTER, LEASE, SYSTEM, cluster, free_port, leads, running, settings, until
from testing.cluster import gpu_pod
from testing.extender import released_lease
from testing.kit.apiserver import FakeApiServer


async def test_of_two_pods_one_leads_and_the_other_says_so_at_every_verb() -> None:
    api = cluster()
    for name in ("pod-a", "pod-b"):
        api.add({"metadata": {"name": name, "namespace": SYSTEM, "uid": name}, "spec": {"nodeName": "x"}, "status": {}})
    api.add(gpu_pod())
    async with running(Extender(settings(), api, "pod-a")) as a, running(Extender(settings(), api, "pod-b")) as b:
        await until(lambda: leads(a.extender) or leads(b.extender))
        leading, other = (a, b) if leads(a.extender) else (b, a)
        await until(lambda: other.extender.ready() and "verbs" in other.extender.addresses)
        name = api.objects[LEASE]["spec"]["holderIdentity"]
        await until(lambda: name in other.extender.refusal())
        said = f"not the leader (leader is {name})"

        for verb, body, status in (("filter", FILTER, 200), ("bind", BIND, 200), ("prioritize", FILTER, 503)):
            refused = await other.ask(verb, body)
            assert (refused.status_code, refused.json()["Error"]) == (status, said)
            assert refused.headers["connection"] == "close", "the scheduler would keep it, and ask nobody else"
        assert (await leading.ask("filter", FILTER)).json()["NodeNames"] == ["n0"]
        assert (await leading.ask("bind", BIND)).json() == {"Error": ""}

        def labelled() -> list[str]:
            pods = api.listing(f"/api/v1/namespaces/{SYSTEM}/pods")
            return [p["metadata"]["name"] for p in pods if names.LABEL_LEADER in (p["metadata"].get("labels") or {})]

        first = "pod-a" if leading is a else "pod-b"
        await until(lambda: labelled() == [first])
        await leading.end()
        assert labelled() != [first], "calls would go on to a pod that has ended"
        await until(lambda: leads(other.extender) and labelled() == [{"pod-a": "pod-b", "pod-b": "pod-a"}[first]])


async def test_of_two_processes_only_the_leader_listens_and_the_other_takes_the_port() -> None:
    api, port = cluster(), free_port()
    async with running(Extender(settings(port), api)) as a:
        await until(lambda: "verbs" in a.extender.addresses)
        async with running(Extender(settings(port), api)) as b:
            await until(b.extender.ready)
            assert "verbs" not in b.extender.addresses
            await a.end()
            await until(lambda: "verbs" in b.extender.addresses)
            assert b.extender.addresses["verbs"][1] == port
            assert (await b.ask("filter", FILTER)).json()["NodeNames"] == ["n0"]


async def test_a_port_that_a_paused_leader_keeps_is_complained_of_once_and_taken_when_it_is_free(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    tries = []

    def counted(host: str, port: int) -> socket.socket:
        tries.append(port)
        return listen(host, port)

    monkeypatch.setattr("hetserve_extender.extender.listen", counted)
    monkeypatch.setattr(shared_port, "PORT_PAUSE", 0.001)
    monkeypatch.setattr(shared_port, "PORT_PAUSE_AT_MOST", 0.01)
    paused = listen("127.0.0.1", 0)
    port: int = paused.getsockname()[1]
    async with running(Extender(settings(port), cluster())) as a:
        await until(lambda: tries.count(port) >= 10)
        said = [record.getMessage() for record in caplog.records if f":{port}" in record.getMessage()]
        assert len(said) == 1, "a log line ten times a second, for as long as the pause lasts"
        assert "we lead, and serve nothing" in said[0]
        paused.close()
        await until(lambda: "verbs" in a.extender.addresses)
        assert (await a.ask("filter", FILTER)).json()["NodeNames"] == ["n0"]


async def test_a_leader_whose_lease_another_took_stops_listening_and_comes_back() -> None:
    api, port = cluster(), free_port()
    async with running(Extender(settings(port), api)) as a:
        await until(lambda: leads(a.extender))
        taken = released_lease()
        taken["spec"] |= {"holderIdentity": "usurper"}
        api.add(taken)
        await until(lambda: a.extender.refusal() == "not the leader (leader is usurper)")
        await until(lambda: "verbs" not in a.extender.addresses)
        listen("127.0.0.1", port).close()  # nobody else does
        api.add(released_lease())
        await until(lambda: "verbs" in a.extender.addresses)
        assert (await a.ask("filter", FILTER)).json()["NodeNames"] == ["n0"]


async def test_who_follows_a_killed_leader_lists_the_pods_once() -> None:
    """And again only where the watch does not show the fence: of a large cluster a list takes seconds."""
    api = cluster()
    killed = released_lease()
    killed["spec"] |= {"holderIdentity": "killed", "leaseDurationSeconds": 0}
    api.add(killed)
    api.add(gpu_pod())
    quick = LeaderElectionOptions(lease_duration="60ms", renew_deadline="40ms", retry_period="10ms")
    async with running(Extender(settings().model_copy(update={"leader_election": quick}), api)) as a:
        await until(lambda: leads(a.extender))
        asked = [(method, path) for method, path, _ in api.calls if path.startswith("/api/v1/") and "pods" in path]
    assert asked[:2] == [("GET", "/api/v1/pods")] * 2, "its own first list, and one that began when it led"
    assert asked[2][0] == "PATCH"
    assert ("GET", "/api/v1/pods") not in asked[2:]


async def test_after_a_lapse_in_which_nobody_led_nothing_is_fenced_or_listed_again() -> None:
    api = cluster()
    api.add(gpu_pod())
    async with running(Extender(settings(), api)) as a:
        await until(lambda: leads(a.extender))
        elector = a.extender.leader.elector  # type: ignore[union-attr]
        candidate = elector.candidate
        a.extender.placer.filter(api.pod("p0"), ["n0"])
        a.extender.placer.ledger.begin_bind("uid-p0")
        before, asked = candidate.term, len(api.calls)
        # As if no renewal had been answered for a while.
        elector.clock = a.extender.leader.leadership.clock = lambda: boot_clock() + candidate.terms.renew_deadline  # type: ignore[union-attr]
        await until(lambda: candidate.term > before and leads(a.extender))
        later = [path for method, path, _ in api.calls[asked:] if "/pods" in path]
        assert later == [], "a moment of a busy machine would cost a whole change of leader"
        assert a.extender.placer.ledger.booking("uid-p0") is not None, "a bind under way lost its GPU"


async def test_who_does_not_lead_says_why() -> None:
    now, api = [0.0], FakeApiServer()
    elector = Elector(api, SYSTEM, "hetserve-extender", Candidate("me", Terms()), lambda: now[0], lambda: 0.0)
    assert elector.why_not() == "not the leader (leader is nobody yet)"
    await elector.step()
    assert "nothing tells who led before" in elector.why_not()
    for now[0] in (1.5, 3.1):
        await elector.step()
    assert elector.leads()
    now[0] = 5.2
    assert "could not be renewed in time" in elector.why_not()
    await elector.step()
    await elector.release()
    assert "this process is ending" in elector.why_not()


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


async def test_the_lease_is_kept_where_a_bind_has_no_outcome() -> None:
    api = cluster()
    pod = api.add(gpu_pod())
    async with running(Extender(settings(), api)) as a:
        await until(lambda: leads(a.extender))
        request = a.extender.placer.filter(pod, ["n0"])
        assert request.passed
        a.extender.placer.ledger.begin_bind("uid-p0")
        await a.end()
    assert api.objects[LEASE]["spec"]["holderIdentity"], "the next leader would not fence a bind that can still land"


async def test_the_lease_is_given_up_in_order() -> None:
    api = cluster()
    async with running(Extender(settings(), api)) as a:
        await until(lambda: leads(a.extender))
    assert api.objects[LEASE]["spec"]["holderIdentity"] == ""


async def test_nothing_is_released_from_its_queue_by_who_does_not_lead() -> None:
    api = cluster()
    held = released_lease()
    held["spec"] |= {"holderIdentity": "other"}
    api.add(held)
    api.add(gpu_pod(gates=(names.QUEUE_GATE,)))
    async with running(Extender(settings(), api)) as a:
        await until(a.extender.ready)
        await until(lambda: "other" in a.extender.refusal())
        await asyncio.sleep(0.2)  # several rounds of a queue that runs
    assert not [call for call in api.calls if call[0] == "PATCH"]


async def test_a_label_that_came_late_is_taken_off_the_others() -> None:
    api = cluster()
    for name in ("me", "late"):
        labels = {names.LABEL_LEADER: "true"} if name == "late" else {}
        api.add({"metadata": {"name": name, "namespace": SYSTEM, "uid": name, "labels": labels}, "spec": {}})
    looks = iter(range(1))

    async def once(_seconds: float) -> None:
        if next(looks, None) is None:
            raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        await LeaderLabel(api, SYSTEM, "me", once).keep()
    assert api.pod("me", SYSTEM)["metadata"]["labels"] == {names.LABEL_LEADER: "true"}
    assert api.pod("late", SYSTEM)["metadata"]["labels"] == {}
