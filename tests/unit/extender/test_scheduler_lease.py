"""When the extender leads: the rules by which it reads its scheduler's Lease, by clocks that only the test moves."""

from __future__ import annotations

from typing import Any

import pytest

from hetserve_extender.leader.lease_reader import SHARE, LeaseReader, SchedulerLease
from hetserve_shell.leader.lease import Lease, parse_lease
from scheduler_double import NAME, PATH, Scheduler
from testing.kit.apiserver import FakeApiServer

TERM = 4.0 * SHARE


def lease(holder: str, renewal: int, *, transitions: int = 1, version: str = "", **spec: Any) -> Lease:
    given = {
        "holderIdentity": holder,
        "leaseDurationSeconds": 4,
        "leaseTransitions": transitions,
        "renewTime": str(renewal),
        **spec,
    }
    return parse_lease({"metadata": {"uid": "u", "resourceVersion": version or str(renewal)}, "spec": given})


def read(me: SchedulerLease, found: Lease | None, sent: float, took: float = 0.1) -> None:
    me.observe(found, sent, sent + took, sent)


def test_a_renewal_counts_from_when_the_read_before_it_was_sent() -> None:
    """It may have been written right after that read was answered, and another scheduler may have seen it then."""
    me = SchedulerLease("me")
    read(me, lease("me_u1", 1), 10.0)
    assert not me.leads(10.2), "nothing tells how old the first renewal is that we see"
    read(me, lease("me_u1", 1), 10.5)
    assert not me.leads(10.7), "no renewal was seen"
    read(me, lease("me_u1", 2), 11.0)
    assert me.leads(11.1)
    assert me.leads(10.5 + TERM - 0.01)
    assert not me.leads(10.5 + TERM)
    assert TERM < 4.0


def test_an_annotation_is_no_renewal() -> None:
    """Another scheduler looks at the spec alone, and takes the Lease whatever somebody writes beside it."""
    me = SchedulerLease("me")
    read(me, lease("me_u1", 1), 10.0)
    read(me, lease("me_u1", 2), 10.5)
    read(me, lease("me_u1", 2, version="annotated"), 12.0)
    assert not me.leads(10.0 + TERM)


@pytest.mark.parametrize("holder", ["other_u1", "", "me-2_u1", "not_me_u1", "me"])
def test_only_the_scheduler_of_our_host_is_ours(holder: str) -> None:
    me = SchedulerLease("me")
    read(me, lease(holder, 1), 10.0)
    read(me, lease(holder, 2), 10.5)
    assert not me.ours
    assert not me.leads(10.7)


def test_a_lease_that_another_holds_ends_the_term_at_once() -> None:
    me = SchedulerLease("me")
    read(me, lease("me_u1", 1), 10.0)
    read(me, lease("me_u1", 2), 10.5)
    assert me.leads(10.7)
    read(me, lease("other_u1", 3, transitions=2), 11.0)
    assert not me.leads(11.2)
    read(me, None, 11.5)
    assert me.holder == ""


@pytest.mark.parametrize(
    ("next_holder", "transitions", "continues"),
    [("me_u1", 1, True), ("me_u2", 2, False), ("me_u1", 3, False)],
    ids=["the same process renews again", "it was started anew", "another led between, and we have not seen it"],
)
def test_a_term_goes_on_only_where_nobody_else_can_have_led(
    next_holder: str, transitions: int, continues: bool
) -> None:
    me = SchedulerLease("me")
    read(me, lease("me_u1", 1), 10.0)
    read(me, lease("me_u1", 2), 10.5)
    first = me.term
    read(me, lease("me_u1", 2), 19.0)
    read(me, lease(next_holder, 3, transitions=transitions), 20.0)
    assert me.leads(20.2)
    assert me.term == first + 1
    assert me.continues(first) is continues


def test_an_answer_that_comes_after_the_lapse_begins_a_new_term() -> None:
    """In between we have said that we do not lead: a bind of before must not be sent any more."""
    me = SchedulerLease("me")
    read(me, lease("me_u1", 1), 10.0)
    read(me, lease("me_u1", 2), 10.5)
    read(me, lease("me_u1", 3), 12.0, took=1.6)
    assert not me.leads(13.6), "it may have been written right after the read of 10.5: too old by now"
    read(me, lease("me_u1", 4), 13.7)
    assert (me.leads(13.9), me.term, me.continues(1)) == (True, 2, True)


def test_who_holds_a_new_lease_waits_for_as_long_as_one_of_before_may_lead() -> None:
    """Somebody deleted it under a leader, who has not read that yet."""
    for acquired, waits in ((100.0, 4.0), (97.0, 1.0), (50.0, 0.0), (200.0, 4.0)):
        me = SchedulerLease("me")
        stamp = f"1970-01-01T00:{int(acquired) // 60:02}:{acquired % 60:09.6f}Z"
        me.observe(None, 9.5, 9.5, 99.5)
        for step in range(1, 10):
            found = lease("me_u1", step, transitions=0, acquireTime=stamp)
            me.observe(found, 9.5 + step / 2, 9.5 + step / 2, 100.0)
            assert me.leads(9.5 + step / 2) is (step / 2 - 0.5 >= waits)


def test_what_is_doubted_is_taken_over_anew_with_the_next_renewal() -> None:
    me = SchedulerLease("me")
    read(me, lease("me_u1", 1), 10.0)
    read(me, lease("me_u1", 2), 10.5)
    first = me.term
    me.doubt()
    assert not me.leads(10.7)
    read(me, lease("me_u1", 3), 11.0)
    assert me.leads(11.2)
    assert not me.continues(first)


async def test_it_says_on_the_lease_of_its_scheduler_what_earlier_and_later_operators_ask() -> None:
    api, now = FakeApiServer(), [0.0]

    async def pause(_seconds: float) -> None:
        now[0] += 0.5
        scheduler.renew()
        await reader.step()
        if now[0] > 3.0:
            raise InterruptedError

    scheduler = Scheduler(api)
    reader = LeaseReader(api, "hetserve-system", NAME, SchedulerLease("me"), lambda: now[0], lambda: 0.0, pause)
    scheduler.renew()
    await reader.step()
    with pytest.raises(InterruptedError):
        await reader.sign()
    annotations = api.objects[PATH]["metadata"]["annotations"]
    assert annotations == {"hetserve.io/books-compute": "me_u1", "hetserve.io/counts-pairs": "me_u1"}
    assert [method for method, _, _ in api.calls].count("PATCH") == 1
    assert reader.leads()


async def test_who_does_not_lead_says_why() -> None:
    api, now = FakeApiServer(), [0.0]
    scheduler = Scheduler(api)
    reader = LeaseReader(api, "hetserve-system", NAME, SchedulerLease("me"), lambda: now[0], lambda: 0.0)

    async def step(at: float) -> str:
        now[0] = at
        await reader.step()
        return reader.why_not()

    assert await step(0.0) == "not the leader (the scheduler that leads is nobody yet)"
    Scheduler(api, "other").renew()
    assert await step(0.5) == "not the leader (the scheduler that leads is other_u1)"
    scheduler.renew()
    await step(1.0)
    assert reader.leads()
    assert "no renewal of it was seen in time" in await step(5.0)
    reader.ending = True
    assert "this process is ending" in reader.why_not()
    api.remove(PATH)
    reader.ending = False
    assert "nobody yet" in await step(6.0)
