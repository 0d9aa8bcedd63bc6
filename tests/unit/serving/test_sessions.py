"""Sessions in which instances fail, clients wait for answers, and services have different policies."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from hetserve.dispatch import make_policy
from hetserve.dispatch.kernel import Floats, Integers
from hetserve.serving.services import ComputeUse, GpuInstance, Service
from hetserve.serving.session import Session
from hetserve.serving.state import LOST, WAITING
from hetserve.serving.system import System
from testing.dispatching import AUXILIARY, BASE, BATCHES, system, table

TIMES = (0.2, 0.25, 0.4, 0.6)


def session(*gpus: str, policy: str = "fcfs") -> Session:
    """Service s with an instance on each GPU; 0.2, 0.25, 0.4, 0.6 s at batches 1, 2, 5, 10, without spread."""
    found = Session(
        [Service("s", System.of({"a": table(TIMES)}, BATCHES, 1.0), make_policy(policy), {"a": ComputeUse()})]
    )
    found.join_all(GpuInstance("s", "a", gpu) for gpu in gpus)
    return found


def arrive(run: Session, *times: float, size: int = 3) -> range:
    n = len(times)
    return run.arrive("s", np.array(times), np.full(n, size), np.full(n, 0.5))


def test_a_failed_instance_loses_what_it_served_and_nothing_else() -> None:
    run = session("g0", "g1")
    arrive(run, 0.0, 0.0, 0.1)
    run.until(0.3)
    assert run.fail(0, requeue=False).tolist() == [0]
    run.until()
    outcome = run.outcome()
    assert outcome.instance.tolist() == [LOST, 1, 1]
    assert outcome.finish.tolist() == pytest.approx([np.nan, 0.6, 1.2], nan_ok=True)
    assert run.fail(0, requeue=False).tolist() == []


def test_a_query_of_a_failed_instance_waits_again_at_the_place_of_its_arrival() -> None:
    run = session("g0", "g1")
    arrive(run, 0.0, 0.05, 0.1)
    run.until(0.3)
    run.fail(0, requeue=True)
    run.until()
    assert run.outcome().start.tolist() == pytest.approx([0.65, 0.05, 1.25])
    assert run.outcome().arrival.tolist() == [0.0, 0.05, 0.1]


def test_a_line_is_requeued_with_the_query_that_is_served() -> None:
    run = session("g0", policy="clockwork-earliest")
    arrive(run, 0.0, 0.1, 0.2)
    run.until(0.3)
    assert run.fail(0, requeue=True).tolist() == [0, 1, 2]
    run.join(GpuInstance("s", "a", "g1"))
    run.until()
    assert run.outcome().start.tolist() == pytest.approx([0.3, 0.9, 1.5])


def test_the_neighbour_of_a_failed_instance_goes_on_at_full_speed() -> None:
    run = session("g", "g")
    arrive(run, 0.0, 0.0)
    run.until(0.3)
    run.fail(0, requeue=False)
    run.until()
    assert run.outcome().finish[1] == pytest.approx(0.3 + 0.45)


def test_requeued_queries_are_those_of_their_service_alone() -> None:
    """Where the others of another service wait, up to the end of their place, and none of its own do."""
    given = System.of({"a": table(TIMES)}, BATCHES, 1.0)
    run = Session([Service(name, given, make_policy("fcfs")) for name in ("waits", "s")])
    run.join(GpuInstance("s", "a", "g0"))
    for name in ("waits", "s"):
        run.arrive(name, np.array([0.0]), np.array([3]), np.array([0.5]))
    run.until(0.1)
    run.join(GpuInstance("s", "a", "g1"))
    run.until(0.2)
    run.fail(0, requeue=True)
    assert run.waiting().tolist() == [1, 1]
    run.until()
    assert run.outcome().instance.tolist() == [WAITING, 1]


@pytest.mark.parametrize("requeue", [True, False])
def test_a_late_query_of_a_failed_instance_counts_once(requeue: bool) -> None:
    """The first is in time; the second, which the instance holds as it fails, and the third are late."""
    run = session("g0")
    arrive(run, 0.0, 0.0, 0.0)
    run.stop_when_late("s", 2)
    run.until(0.7)
    run.fail(0, requeue=requeue)
    run.join(GpuInstance("s", "a", "g1"))
    run.until()
    assert not run.stopped
    assert np.isfinite(run.outcome().finish).sum() == (3 if requeue else 2)


@pytest.mark.parametrize("end", [lambda run: run.drain(1), lambda run: run.fail(1, requeue=False)])
def test_what_waits_for_an_instance_goes_to_another_once_it_drains_or_fails(end: Callable[[Session], object]) -> None:
    """Under a policy that keeps small queries for the slower type as long as an instance of it is there."""
    run = Session([Service("s", system(BASE, AUXILIARY), make_policy("threshold"))])
    run.join_all(GpuInstance("s", kind, kind) for kind in "ab")
    arrive(run, 0.0, 0.0, size=0)
    run.until(0.1)
    end(run)
    run.until()
    assert (run.outcome().instance[1], run.outcome().start[1]) == (0, 0.1)


def test_instances_join_and_drain_until_those_stand_that_are_wanted() -> None:
    run = session()
    wanted = {gpu: GpuInstance("s", "a", gpu) for gpu in ("g0", "g1", "g2")}
    assert run.stand({"g0": wanted["g0"], "g1": wanted["g1"]}) == {"g0": 0, "g1": 1}
    assert run.copy().stand(wanted) == {"g2": 2}
    assert run.stand({"g1": wanted["g1"], "g2": wanted["g2"]}) == {"g2": 2}
    with pytest.raises(ValueError, match="no instance type b"):
        run.stand({"g3": GpuInstance("s", "b", "g3")})
    arrive(run, 0.0, 0.0)
    run.until()
    assert run.outcome().instance.tolist() == [1, 2]


def test_a_client_sends_its_next_query_after_the_answer_and_thinks_before() -> None:
    run = session("g0")
    ids = run.attend("s", np.array([[0.0, 0.1, 0.2]]), np.full((1, 3), 0), np.full((1, 3), 0.5))
    run.until()
    assert (len(ids), run.outcome().arrival.tolist()) == (3, pytest.approx([0.0, 0.3, 0.7]))


def test_a_client_goes_on_after_earlier_queries_are_forgotten() -> None:
    run = session("g0", "g1")
    arrive(run, 0.0, size=0)
    run.attend("s", np.array([[0.0, 0.1]]), np.array([[3, 0]]), np.full((1, 2), 0.5))
    run.until(0.3)
    assert run.forget().tolist() == [1, 2]
    run.until()
    assert run.outcome().arrival.tolist() == [0.0, pytest.approx(0.7)]
    assert run.outcome().finish[1] == pytest.approx(0.9)


def test_a_client_may_go_on_after_the_last_query_that_it_was_given() -> None:
    run = session("g0")
    arrive(run, 0.0, size=0)
    last = [run.attend("s", np.array([[0.0, think]]), *_same(2))[1] for think in (0.0, 0.3)]
    run.until(0.3)
    assert run.forget().tolist() == [1, 2, 3, 4]
    last = [number - 1 for number in last]
    more = run.attend("s", np.array([[0.4], [0.1]]), *_same(1, clients=2), after=np.array(last))
    run.until()
    outcome = run.outcome()
    assert (outcome.arrival[list(more)] - outcome.finish[last]).tolist() == pytest.approx([0.4, 0.1])


@pytest.mark.parametrize("after", [[0], [1, 1], [4], [-1]])
def test_a_client_goes_on_after_its_last_query_alone(after: list[int]) -> None:
    run = session("g0")
    run.attend("s", np.zeros((1, 2)), *_same(2))
    run.attend("s", np.zeros((1, 2)), *_same(2))
    run.until(0.7)
    with pytest.raises(ValueError, match=r"s: (query -?[0-9]+|last queries of 2 clients): must be"):
        run.attend("s", np.zeros((len(after), 1)), *_same(1, clients=len(after)), after=np.array(after))


def _same(turns: int, clients: int = 1) -> tuple[Integers, Floats]:
    """Sizes and draws of queries of 0.2 s."""
    return np.zeros((clients, turns), np.int64), np.full((clients, turns), 0.5)


def test_a_client_that_gives_up_sends_its_next_query() -> None:
    run = session()
    run.attend("s", np.array([[0.0, 0.5]]), np.full((1, 2), 0), np.full((1, 2), 0.5))
    run.until(0.9)
    run.give_up(patience=0.5)
    assert run.outcome().instance.tolist() == [WAITING, WAITING], "it waits for its SLO at least"
    run.until(1.6)
    run.give_up(patience=0.5)
    run.until(3.0)
    assert run.outcome().arrival.tolist() == [0.0, 2.1]


@pytest.mark.parametrize("thinks", [[[-0.1]], [[np.nan]]])
def test_a_time_to_think_that_is_none_is_refused(thinks: list[list[float]]) -> None:
    with pytest.raises(ValueError, match=r"s: think .*: must be at least 0"):
        session("g").attend("s", np.array(thinks), np.zeros((1, 1), np.int64), np.zeros((1, 1)))


def test_time_goes_on_to_where_a_run_ends_though_no_query_is_left() -> None:
    run = session("g0")
    arrive(run, 0.0)
    run.until(9.0)
    assert run.now == 9.0


def test_the_neighbour_of_a_failed_instance_is_at_full_speed_though_another_joins_before_time_passes() -> None:
    run = session("g", "g")
    arrive(run, 0.0, 0.0)
    run.until(0.3)
    run.fail(0, requeue=False)
    run.drain(1)
    arrive(run, 0.3)
    run.until(0.3)
    run.join(GpuInstance("s", "a", "h"))
    run.until()
    assert run.outcome().finish[1:].tolist() == pytest.approx([0.75, 0.9])


def test_a_revision_of_what_instances_take_changes_the_speed_of_what_is_served() -> None:
    run = session("g", "g")
    arrive(run, 0.0, 0.0)
    run.until(0.3)
    run.revise([replace(run.services[0], uses={"a": ComputeUse(0.5)})])
    run.until()
    assert run.outcome().finish.tolist() == pytest.approx([0.75, 0.75])


def test_queries_that_do_not_count_as_late_are_the_same_after_others_are_forgotten() -> None:
    run = session("g0")
    arrive(run, 0.0, 0.0, 0.0)
    run.stop_when_late("s", 0, first=2)
    run.until(0.7)
    assert run.forget().tolist() == [1, 2]
    run.until(1.1)
    assert not run.stopped
    run.until()
    assert run.stopped


def test_a_run_ends_once_too_many_queries_of_a_service_are_late() -> None:
    run = session("g0")
    arrive(run, *(0.0 for _ in range(9)))
    run.stop_when_late("s", 2, first=1)
    assert len(run.until()) < 9
    assert run.stopped
    outcome = run.outcome()
    assert outcome.finish[3] == pytest.approx(2.4)
    assert np.isnan(outcome.finish[4:]).all()
    assert outcome.late.tolist() == [False, True, True, True, *[False] * 5]


def test_types_that_have_no_instances_only_take_time() -> None:
    given = system(TIMES, (0.25, 0.45, 0.9, 1.6), (0.1, 0.2, 0.3, 0.4))
    found = given.present({"b": 2, "c": 1})
    assert found.types == ("b", "c")
    assert found.order.tolist() == [1, 0]
    assert found.predicted.arrays.coefficients.tolist() == given.predicted.arrays.coefficients[1:].tolist()


def test_clients_whose_first_queries_come_in_order_are_served() -> None:
    run = session("g")
    run.attend("s", np.zeros((3, 2)), np.zeros((3, 2), np.int64), np.full((3, 2), 0.5))
    assert run.until().tolist() == [0, 2, 4, 1, 3, 5]


def test_whole_numbers_for_what_an_instance_takes_are_numbers_like_others() -> None:
    def finish(harm: float) -> list[float]:
        of = System.of({"a": table(TIMES)}, BATCHES, 1)
        run = Session([Service("s", of, make_policy("fcfs"), {"a": ComputeUse(1, {}, harm)})])
        run.join_all([GpuInstance("s", "a", "g")] * 2)
        arrive(run, 0.0, 0.0)
        run.until()
        return list(run.outcome().finish)

    assert finish(1) == finish(1.0)
