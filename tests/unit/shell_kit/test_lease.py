"""Who may lead, and until when: the rules of the election, by clocks that only the test moves."""

from __future__ import annotations

from hetserve_shell.leader.lease import Candidate, Lease, Terms


def lease(holder: str, version: str, *, used: bool = True) -> Lease:
    return Lease(holder, version, 3.0, 1, used, {})


def test_a_renewal_that_created_the_lease_anew_waits_as_if_nothing_were_known() -> None:
    """Somebody deleted it: another may have led and been deleted too."""
    me = Candidate("me", Terms())
    me.observe(lease("", "1"), 0.0)
    me.wrote(lease("me", "2"), 0.0, 0.1)
    assert me.leads(0.2)
    me.wrote(lease("me", "3"), 0.5, 0.6, created=True)
    assert not me.leads(0.7)
    me.wrote(lease("me", "4"), 2.0, 2.1)
    me.wrote(lease("me", "5"), 3.5, 3.55)
    assert not me.leads(3.59)
    assert me.leads(3.61)


def test_an_answer_that_comes_after_the_lapse_begins_a_new_term() -> None:
    """In between we have said that we do not lead: a bind of before must not be sent any more."""
    me = Candidate("me", Terms())
    me.observe(lease("", "1"), 0.0)
    me.wrote(lease("me", "2"), 0.0, 0.1)
    me.wrote(lease("me", "3"), 1.5, 2.5)
    assert me.leads(2.6)
    assert (me.term, me.origin) == (2, 1), "nobody else led: the ledger is still known"
    me.observe(lease("other", "4"), 3.0)
    me.observe(lease("", "5"), 3.1)
    me.wrote(lease("me", "6"), 3.1, 3.2)
    assert (me.term, me.origin) == (3, 3)


def test_a_lapsed_leader_reads_before_it_writes() -> None:
    me = Candidate("me", Terms())
    me.observe(lease("", "1"), 0.0)
    me.wrote(lease("me", "2"), 0.0, 0.1)
    assert me.fresh(1.9)
    assert not me.fresh(2.0)
    assert not me.leads(2.0)


def test_the_first_holder_of_a_lease_waits_a_whole_duration() -> None:
    me = Candidate("me", Terms())
    assert me.next_write(0.0) is None, "nothing has been read yet"
    me.observe(None, 0.0)
    assert me.next_write(0.0) == "create"
    me.wrote(lease("me", "1"), 0.0, 0.1, created=True)
    me.wrote(lease("me", "2"), 1.5, 1.6)
    me.wrote(lease("me", "3"), 3.0, 3.05)
    assert not me.leads(3.09)
    assert me.leads(3.11)
