"""Joint runs that go on for ever: what has ended is forgotten, clients give up, services are revised."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from effort import examples
from hetserve.dispatch import make_policy
from hetserve.serving.services import ComputeUse, GpuInstance, Service
from hetserve.serving.session import Session
from hetserve.serving.system import System
from testing.dispatching import AUXILIARY, BASE, BATCHES, system, table
from testing.sharing import SMALL_ONLY, SharingScene, sharing_scenes

FCFS, EARLIEST = make_policy("fcfs"), make_policy("clockwork-earliest")
TIMES = (0.2, 0.25, 0.4, 0.6)


def service(name: str, times: tuple[float, ...] = TIMES, batches: tuple[int, ...] = BATCHES) -> Service:
    system = System.of({"a": table(times, batches)}, batches, 1.0)
    return Service(name, system, FCFS, {"a": ComputeUse(1.0)})


def arrive(run: Session, name: str, times: list[float], size: int = 0) -> range:
    n = len(times)
    return run.arrive(name, np.array(times), np.full(n, size), np.full(n, 0.5))


@settings(max_examples=examples(50))
@given(sharing_scenes(FCFS), st.lists(st.floats(0.01, 40.0), min_size=1, max_size=5))
def test_a_revision_that_changes_nothing_changes_nothing(scene: SharingScene, stops: list[float]) -> None:
    whole, pieces = scene.run(), scene.run()
    whole.until()
    for stop in sorted(stops):
        pieces.until(stop)
        pieces.revise(pieces.services)
    pieces.until()
    # First come decides the same whenever it is asked. At a revision policies are asked once more, and others may then
    # see that an instance is later than they had expected.
    np.testing.assert_array_equal(pieces.outcome().finish, whole.outcome().finish)


def test_what_is_revised_holds_from_the_next_query_on() -> None:
    run = Session([service("s")])
    run.join(GpuInstance("s", "a", "g"))
    arrive(run, "s", [0.0, 0.0], size=1)
    run.until(0.1)
    run.revise([service("s", (9.0, 0.1, 0.5, 0.7, 0.9), (1, 2, 3, 5, 10))])
    run.until()
    assert run.outcome().finish.tolist() == pytest.approx([0.25, 0.35])


def test_services_join_a_run_and_share_gpus_with_those_that_are_there() -> None:
    run = Session([service("s")])
    run.join(GpuInstance("s", "a", "g"))
    arrive(run, "s", [0.0], size=3)
    run.until(0.3)
    run.revise([service("s"), service("t")])
    run.join(GpuInstance("t", "a", "g"))
    arrive(run, "t", [0.3], size=3)
    run.until()
    assert run.outcome().finish.tolist() == pytest.approx([0.9, 1.2])


@pytest.mark.parametrize(
    ("services", "message"),
    [
        ([], "no service given"),
        ([service("t")], "t: in the place of s with a, which must stay, first"),
        ([service("s", (0.3,), (2,))], "its batch sizes must stay: 1, 2, 5, 10"),
    ],
)
def test_a_revision_that_loses_something_is_refused(services: list[Service], message: str) -> None:
    run = Session([service("s")])
    arrive(run, "s", [0.0])
    run.until(0.1)
    with pytest.raises(ValueError, match=message):
        run.revise(services)


def test_clients_give_up_queries_that_wait_and_not_those_that_are_served() -> None:
    run = Session([service("s"), service("t")])
    run.join(GpuInstance("s", "a", "g"))
    arrive(run, "s", [0.0, 0.01, 0.02, 0.05], size=3)
    arrive(run, "t", [0.0])
    run.until(0.1)
    run.give_up(0.0)
    assert run.waiting().tolist() == [3, 1], "they wait for their SLO at least"
    run.until(1.04)
    run.give_up(0.0)
    assert run.waiting().tolist() == [1, 0]
    run.until()
    ended = run.tally()
    assert ended.instance.tolist() == [0, -2, -2, 0, 0]
    assert ended.late.tolist() == [False, True, True, True, True]


def test_who_gives_up_lets_go_who_stands_behind_it() -> None:
    small = Service("s", system(BASE, AUXILIARY, SMALL_ONLY), FCFS, {"a": ComputeUse(1.0), "c": ComputeUse(1.0)})
    run = Session([small])
    run.join(GpuInstance("s", "c", "g"))
    arrive(run, "s", [0.0], size=3)
    arrive(run, "s", [0.5])
    run.until(1.2)
    run.give_up(0.0)
    run.until(1.3)
    assert run.waiting().tolist() == [0]


def test_standing_says_what_each_instance_does() -> None:
    run = Session([Service("s", service("s").system, EARLIEST)])
    run.join(GpuInstance("s", "a", "g0"))
    run.join(GpuInstance("s", "a", "g1"))
    arrive(run, "s", [0.0, 0.05, 0.06, 0.07, 0.08], size=3)
    run.until(0.1)
    standing = run.standing()
    assert sorted(standing.since.tolist()) == [0.0, 0.05]
    assert int((standing.serving >= 0).sum() + standing.in_line.sum() + run.waiting().sum()) == 5
    run.drain(0)
    run.drain(1)
    run.until()
    assert len(run.standing().id) == 0


def test_instances_stand_idle_in_a_run_without_queries() -> None:
    run = Session([service("s")])
    assert len(run.standing().id) == 0
    number = run.join(GpuInstance("s", "a", "g"))
    standing = run.standing()
    assert (standing.id.tolist(), standing.serving.tolist(), standing.in_line.tolist()) == ([number], [-1], [0])
    assert np.isnan(standing.since).all()
