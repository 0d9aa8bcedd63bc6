"""How long refusals wait, in virtual time."""

from __future__ import annotations

from http import HTTPStatus
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hetserve.routing.pace import AT_ONCE, LONGEST, RATE, RefusalPace
from hetserve_router.served import slow
from hetserve_shell.http.limits import HttpError

GAPS = st.lists(st.sampled_from([0.0, 0.0001, 0.004, 0.006, 0.1, 2.0]), min_size=1, max_size=300)


def spinning(clients: int, seconds: float) -> list[float]:
    """When refusals are said to clients that ask again as soon as they are answered."""
    pace, said = RefusalPace(), list[float]()
    asking = [0.0] * clients
    while (now := min(asking)) < seconds:
        said.append(now + pace.pause(now))
        asking[asking.index(now)] = said[-1] + 1e-4
    return said


@pytest.mark.law
@given(gaps=GAPS)
def test_refusals_keep_their_order_and_none_waits_longer_than_a_client_is_asked_to(gaps: list[float]) -> None:
    pace, now, said = RefusalPace(), 0.0, list[float]()
    for gap in gaps:
        now += gap
        pause = pace.pause(now)
        assert 0.0 <= pause <= LONGEST
        said.append(now + pause)
    assert all(one <= other + 1e-9 for one, other in pairwise(said))


@pytest.mark.law
@given(number=st.integers(1, AT_ONCE), since=st.floats(0.0, 1e6))
def test_a_few_are_said_at_once(number: int, since: float) -> None:
    pace = RefusalPace()
    assert [pace.pause(since) for _ in range(number)] == pytest.approx([0.0] * number, abs=1e-6)


@pytest.mark.parametrize("clients", [1, 20, 100, 180])
def test_clients_that_spin_get_no_more_refusals_than_the_rate(clients: int) -> None:
    assert len(spinning(clients, 10.0)) <= AT_ONCE + RATE * 10.0 + clients


def test_of_more_clients_each_is_refused_once_in_the_longest_pause() -> None:
    clients = 1000
    assert len(spinning(clients, 10.0)) <= AT_ONCE + RATE * LONGEST + clients * (10.0 / LONGEST + 1)


@pytest.mark.parametrize("clients", [1, 50, 150])
def test_clients_that_come_again_when_they_are_told_never_wait(clients: int) -> None:
    pace = RefusalPace()
    pauses = [pace.pause(turn + client / clients) for turn in range(20) for client in range(clients)]
    assert pauses == pytest.approx([0.0] * len(pauses), abs=1e-6)


def test_who_was_slowed_down_is_refused_at_once_after_a_rest() -> None:
    pace = RefusalPace()
    for _ in range(1000):
        pace.pause(0.0)
    assert pace.pause(0.0) == LONGEST
    assert pace.pause(LONGEST + AT_ONCE / RATE + 0.01) == 0.0


def test_a_refusal_that_closes_its_connection_is_not_slowed_down() -> None:
    pace = RefusalPace()
    errors = [HttpError(HTTPStatus.SERVICE_UNAVAILABLE, "another leads", closes=True) for _ in range(AT_ONCE + 9)]
    for error in errors:
        slow(error, pace, 0.0)
    assert {error.pause for error in errors} == {0.0}
    assert pace.pause(0.0) == 0.0
