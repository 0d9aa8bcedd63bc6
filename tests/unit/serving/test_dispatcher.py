"""What the dispatcher does with each event, and what it refuses."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from effort import examples
from hetserve.dispatch import make_policy
from hetserve.serving.dispatcher import Actions, Dispatcher
from hetserve.serving.services import Service
from testing.dispatching import system

TIMES = (0.2, 0.25, 0.4, 0.6)
LINES = "clockwork-earliest"


def dispatcher(instances: int = 2, policy: str = "fcfs") -> Dispatcher:
    """Instances 0, 1, ... of type a; 0.2, 0.25, 0.4, 0.6 s at batches 1, 2, 5, 10."""
    found = Dispatcher(Service("s", system(TIMES), make_policy(policy)))
    for instance in range(instances):
        found.joined(instance, "a", 0.0)
    return found


def offer(to: Dispatcher, *queries: int, now: float = 0.0) -> list[Actions]:
    return [to.offer(query, 10, now + 1.0, now) for query in queries]


def test_a_query_goes_to_an_idle_instance_or_waits_for_an_answer() -> None:
    run = dispatcher()
    assert [actions.sends for actions in offer(run, 7, 8, 9)] == [[(7, 0)], [(8, 1)], []]
    assert run.answered(1, 0.5).sends == [(9, 1)]
    assert run.answered(0, 0.6).sends == []


def test_a_joining_instance_takes_what_waits() -> None:
    run = dispatcher(0)
    offer(run, 7)
    assert run.joined(3, "a", 0.1).sends == [(7, 3)]


def test_what_an_instance_held_waits_again_when_it_has_left() -> None:
    run = dispatcher(1, LINES)
    offer(run, 7, 8)
    assert run.left(0, 0.1).sends == []
    assert run.joined(1, "a", 0.2).sends == [(7, 1)]


def test_a_suspected_instance_takes_nothing_until_it_is_cleared_and_its_line_waits_again() -> None:
    run = dispatcher(1, LINES)
    offer(run, 7, 8)
    assert run.suspected(0, 0.1).sends == []
    assert run.answered(0, 0.6).sends == []
    assert run.cleared(0, 0.7).sends == [(8, 0)]


def test_an_instance_that_is_cleared_while_it_serves_goes_on() -> None:
    run = dispatcher(1)
    offer(run, 7, 8)
    run.suspected(0, 0.1)
    assert run.cleared(0, 0.2).sends == []
    assert run.answered(0, 0.6).sends == [(8, 0)]


def test_an_instance_that_left_while_it_was_suspected_is_a_new_one_when_it_joins_again() -> None:
    run = dispatcher(1)
    run.suspected(0, 0.1)
    run.left(0, 0.2)
    run.joined(0, "a", 0.3)
    assert offer(run, 7, now=0.4)[0].sends == [(7, 0)]


def test_a_line_that_waits_again_is_no_work_of_its_instance_any_more() -> None:
    run = dispatcher(1, "clockwork-least-wait")
    offer(run, 7, 8)
    run.left(0, 0.1)
    assert run.joined(0, "a", 0.1).sends == [(7, 0)]
    run.joined(1, "a", 0.15)
    offer(run, 9, 10, now=0.15)
    assert run.answered(0, 0.7).sends == [(8, 0)]
    offer(run, 11, now=0.7)
    assert run.answered(0, 1.3).sends == [(11, 0)], "free at 1.3, instance 1 at 1.35"


@pytest.mark.parametrize("policy", ["fcfs", LINES])
def test_a_cancelled_query_is_not_served(policy: str) -> None:
    """Neither from the queue nor from the line of an instance, of which the rest keeps its order."""
    run = dispatcher(1, policy)
    offer(run, 7, 8, 9, 10)
    assert run.cancel(9, 0.1) is False
    assert run.answered(0, 0.6).sends == [(8, 0)]
    assert run.answered(0, 1.2).sends == [(10, 0)]
    assert run.answered(0, 1.8).sends == []


def test_a_query_that_is_cancelled_while_an_instance_serves_it_does_not_wait_again() -> None:
    run = dispatcher(1)
    offer(run, 7)
    assert run.cancel(7, 0.1) is True
    assert run.left(0, 0.2).sends == []
    assert run.joined(1, "a", 0.3).sends == []


def test_queries_of_one_instant_keep_the_order_in_which_they_were_offered() -> None:
    run = dispatcher(1, LINES)
    offer(run, 0, 1, 2, 3)
    for query in (1, 2, 3):
        run.cancel(query, 0.5)
    offer(run, 11, 12, 13, now=1.0)
    run.suspected(0, 1.5)
    run.answered(0, 1.6)
    assert [run.cleared(0, 1.7).sends, *(run.answered(0, at).sends for at in (2.0, 3.0))] == [
        [(11, 0)],
        [(12, 0)],
        [(13, 0)],
    ]


def test_a_query_that_arrived_before_it_was_offered_waits_again_at_the_place_of_its_arrival() -> None:
    run = dispatcher(1)
    offer(run, 7)
    offer(run, 8, now=0.5)
    run.offer(9, 10, 1.2, 0.5, arrival=0.2)
    run.left(0, 0.6)
    assert run.joined(1, "a", 0.7).sends == [(7, 1)]
    assert [run.answered(1, at).sends for at in (0.8, 0.9)] == [[(9, 1)], [(8, 1)]]


def test_a_dispatcher_is_not_copied() -> None:
    with pytest.raises(TypeError, match="is not copied"):
        copy.deepcopy(dispatcher())


def test_queries_are_not_limited_in_number() -> None:
    run = dispatcher(1)
    offer(run, *range(1000))
    served = [run.answered(0, 1.0 + k).sends for k in range(1000)]
    assert served == [*([(k, 0)] for k in range(1, 1000)), []]


@pytest.mark.parametrize(
    ("event", "message"),
    [
        (lambda run: run.offer(1, 10, 1.0, 0.5), "query 1: is here already"),
        (lambda run: run.offer(2, 11, 1.0, 0.5), "query 2: batch 11: must be between 1 and 10"),
        (lambda run: run.offer(2, 0, 1.0, 0.5), "query 2: batch 0: must be between 1 and 10"),
        (lambda run: run.offer(2, 1, math.nan, 0.5), "deadline nan"),
        (lambda run: run.offer(2, 1, 1.0, 0.1), "time 0.1: must be at least 0.2"),
        (lambda run: run.offer(2, 1, 1.0, math.nan), "time nan"),
        (lambda run: run.offer(2, 1, 1.0, 0.5, arrival=0.6), "query 2: arrival 0.6: must be finite, and at most 0.5"),
        (lambda run: run.offer(2, 1, 1.0, 0.5, arrival=-math.inf), "query 2: arrival -inf"),
        (lambda run: run.cancel(2, 0.5), "query 2: is not here"),
        (lambda run: run.answered(1, 0.5), "instance 1: serves no query"),
        (lambda run: run.joined(1, "a", 0.5), "instance 1: is here already"),
        (lambda run: run.offer(2, 1, math.inf, 0.5), "query 2: deadline inf: must be finite"),
        (lambda run: run.joined(1 << 63, "a", 0.5), "instance 9223372036854775808: must be a whole number"),
        (lambda run: run.joined(2, "b", 0.5), "instance 2: no instance type b; there are: a"),
        (lambda run: run.left(2, 0.5), "instance 2: is not here"),
        (lambda run: run.suspected(2, 0.5), "instance 2: is not here"),
        (lambda run: run.cleared(2, 0.5), "instance 2: is not here"),
    ],
)
def test_what_cannot_be_is_refused_and_changes_nothing(event: Callable[[Dispatcher], object], message: str) -> None:
    run = dispatcher()
    run.offer(1, 10, 1.0, 0.2)
    with pytest.raises(ValueError, match=message):
        event(run)
    assert run.offer(2, 10, 1.0, 0.2).sends == [(2, 1)]


@settings(max_examples=examples(400))
@pytest.mark.parametrize("policy", ["hetserve", "kairos", LINES])
@given(data=st.data())
def test_whatever_happens_every_query_is_served_once_and_by_who_may(policy: str, data: st.DataObject) -> None:
    """An instance begins one query at a time; a query that is neither cancelled nor dropped is answered at last."""
    run, plain = dispatcher(0, policy), _Plain()
    for number in range(data.draw(st.integers(1, 40))):
        now = float(number // 2)
        event = data.draw(st.sampled_from(plain.possible()))
        instances = plain.of(event)
        plain.tell(run, event, data.draw(st.sampled_from(instances)) if instances else number, now)
    plain.end(run, 1e6)


class _Plain:
    """What is known of queries and instances by what was told."""

    def __init__(self) -> None:
        self.serving: dict[int, int] = {}
        self.here: set[int] = set()
        self.suspected: set[int] = set()
        self.waits: set[int] = set()
        self.cancelled: set[int] = set()

    def of(self, event: str) -> list[int]:
        """Whom an event may concern; none: something new."""
        may = {
            "answered": self.serving.keys(),
            "left": self.here,
            "suspected": self.here - self.suspected,
            "cleared": self.suspected,
            "cancel": self.waits | (set(self.serving.values()) - self.cancelled),
        }
        return sorted(may.get(event, ()))

    def possible(self) -> list[str]:
        named = ("answered", "left", "suspected", "cleared", "cancel")
        return ["offer", "offer", "joined", *(event for event in named if self.of(event))]

    def tell(self, run: Dispatcher, event: str, subject: int, now: float) -> None:
        if event == "offer":
            self.waits.add(subject)
            self._take(run.offer(subject, 10, now + 1.0, now))
        elif event == "joined":
            self.here.add(subject)
            self._take(run.joined(subject, "a", now))
        elif event == "cancel":
            is_served = run.cancel(subject, now)
            assert is_served == (subject in self.serving.values())
            (self.cancelled.add if is_served else self.waits.remove)(subject)
        else:
            self._before(event, subject)
            self._take(getattr(run, event)(subject, now))

    def _before(self, event: str, instance: int) -> None:
        if event in ("answered", "left"):
            query = self.serving.pop(instance, None)
            if query is not None and event != "answered" and query not in self.cancelled:
                self.waits.add(query)
        if event == "left":
            self.here.remove(instance)
        if event == "suspected":
            self.suspected.add(instance)
        if event in ("cleared", "left"):
            self.suspected.discard(instance)

    def _take(self, actions: Actions) -> None:
        for query, instance in actions.sends:
            assert query in self.waits
            assert instance in self.here - self.suspected
            assert instance not in self.serving
            self.waits.remove(query)
            self.serving[instance] = query
        self.waits -= set(actions.drops)

    def end(self, run: Dispatcher, now: float) -> None:
        """Answers all; nobody waits at the end."""
        self.tell(run, "joined", 10**6, now)
        while self.serving:
            self.tell(run, "answered", min(self.serving), now)
        assert not self.waits
