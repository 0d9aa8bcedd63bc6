"""Inputs and policies meant to break dispatch or the event loop."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

from hetserve.compiled import njit
from hetserve.demand import BatchMix
from hetserve.dispatch import Policy, make_policy
from hetserve.dispatch.assignment import assign, carve, work_sizes
from hetserve.dispatch.kernel import Kernel, KernelArguments, QueueArrays, WorkerArrays
from hetserve.registry.choices import Arrivals
from hetserve.registry.dispatch_policies import DISPATCH_POLICIES
from hetserve.serving.answers import PolicyContractError
from hetserve.serving.dispatcher import Dispatcher
from hetserve.serving.services import Service
from hetserve.serving.system import System
from hetserve.simulation.run import run_alone, simulate
from hetserve.simulation.workload import draw_workload, record_workload
from testing.deciding import DispatchSnapshot, Query, Worker, decide
from testing.dispatching import EVEN_MIX, latency_model, snapshot, system, table

policies = pytest.mark.parametrize("name", DISPATCH_POLICIES.names)


def _chosen(cost: NDArray[np.float64]) -> list[int]:
    rows, columns = cost.shape[0], cost.shape[1]
    floats, integers = work_sizes(rows, columns)
    work = carve(rows, columns, np.full(floats, np.nan), np.full(integers, 10**9, np.int64))
    assign(np.ascontiguousarray(cost), work)
    return [int(column) for column in work.column_of]


def _staircase(n: int) -> NDArray[np.float64]:
    """Every row wants the columns that the rows before it want: the longest augmenting paths."""
    return np.add.outer(np.arange(n), np.arange(n)).astype(np.float64) ** 2


MATRICES: dict[str, NDArray[np.float64]] = {
    "all zero": np.zeros((5, 9)),
    "all equal": np.full((7, 7), 3.5),
    "one cell": np.array([[4.0]]),
    "one row": np.array([[5.0, 1.0, 1.0, 2.0]]),
    "equal columns": np.tile(np.arange(6.0)[:, None], (1, 6)),
    "equal rows": np.tile(np.arange(8.0), (6, 1)),
    "cheap and dear by 21 orders of magnitude": np.array([[1e-9, 1e12], [2e-9, 1e12]]),
    "long augmenting paths": _staircase(40),
    "differences at the limit of rounding": 1.0 + np.spacing(1.0) * np.arange(36.0).reshape(6, 6) % 5,
    "smallest positive numbers": np.full((4, 4), 5e-324) * np.arange(16).reshape(4, 4),
}


@pytest.mark.parametrize("cost", MATRICES.values(), ids=MATRICES.keys())
def test_degenerate_matrices_are_solved_at_least_cost(cost: NDArray[np.float64]) -> None:
    chosen = _chosen(cost)
    assert len(set(chosen)) == len(cost), "two queries were given one instance"
    best = cost[linear_sum_assignment(cost)].sum()
    assert cost[np.arange(len(cost)), chosen].sum() == pytest.approx(best, rel=1e-12), "a dearer matching was taken"


@policies
def test_ten_thousand_waiting_queries_are_no_trouble(name: str) -> None:
    queue = [(i * 1e-4, (1, 2, 5, 10)[i % 4]) for i in range(10_000)]
    scene = snapshot(queue, [Worker(0), Worker(1), Worker(1, busy=True, free_at=9.0)], now=1.0)
    decision = decide(make_policy(name), scene)
    assert decision.dispatches, "with two idle instances and a long queue nothing was sent"


@policies
def test_queries_that_came_in_one_instant_are_all_served(name: str) -> None:
    work = record_workload([0.0] * 200 + [1.0], [1, 2, 5, 10, 10] * 40 + [1], seed=1)
    report = simulate(system(), {"a": 2, "b": 3}, make_policy(name), work, 200.0)
    assert report.unfinished == 0, "a burst left queries behind for ever"


@policies
def test_an_instance_that_is_late_for_ever_holds_up_nobody_else(name: str) -> None:
    stuck = Worker(0, busy=True, free_at=-1e9)
    scene = snapshot([(0.0, 1)], [stuck, Worker(0)], latency_model((0.2, 0.25, 0.4, 0.6)))
    sent = decide(make_policy(name), scene).dispatches
    waits_on_purpose = name == "kairos"  # overdue counts as free at once: the two instances tie
    assert sent or waits_on_purpose, "an overdue instance blocked an idle one"


@policies
@pytest.mark.parametrize("rate", [0.001, 1e5])
def test_light_load_and_hopeless_overload_both_end(name: str, rate: float) -> None:
    work = draw_workload(EVEN_MIX, 300, seed=2)
    report = simulate(system(variation=0.05), {"a": 1, "b": 2}, make_policy(name), work, rate)
    assert report.unfinished == 0, "queries were left behind"
    if rate < 1:
        assert report.violation_ratio < 0.05, "an idle system missed its SLO"


@policies
def test_a_system_whose_every_type_misses_the_slo_still_serves(name: str) -> None:
    hopeless = system((5.0, 6.0, 7.0, 8.0), (9.0, 9.0, 9.0, 9.0))
    report = simulate(hopeless, {"a": 1, "b": 1}, make_policy(name), draw_workload(EVEN_MIX, 50, seed=1), 0.01)
    assert (report.unfinished, report.violations) == (0, 50), "a query that must be late was lost"


@policies
def test_a_large_batch_is_not_starved_by_small_ones_without_end(name: str) -> None:
    """The one large query comes first, then small ones at 90 % of what both instances can do together."""
    times = [0.0, *np.arange(1, 2000) * 0.12]
    work = record_workload(times, [10] + [1] * 1999, seed=1)
    both = System.of({"a": table((0.2, 0.25, 0.4, 0.6)), "b": table((0.25, 0.45, 0.9, 1.6))}, work.batches, 1.0)
    outcome = run_alone(both, {"a": 1, "b": 1}, make_policy(name), work, 1999 / times[-1]).outcome()
    assert outcome.finish[0] < 60, f"the large query was done only after {outcome.finish[0]:.0f} SLOs"


def test_matching_fewer_queries_than_instances_leaves_no_stale_answer() -> None:
    """Memory of a kernel is undefined at entry: a wide solve must not leak into a narrow one after it."""
    policy, rng = make_policy("kairos"), np.random.default_rng(3)
    for m in (12, 1, 7, 2, 12, 1):
        queue = [(float(t), 1) for t in np.sort(rng.random(m) * 0.1)]
        scene = snapshot(queue, [Worker(0), Worker(1), Worker(1)], now=0.2)
        sent = decide(policy, scene).dispatches
        assert len({d.query for d in sent}) == len(sent) == min(m, 3)


# --- policies that break the contract: the loop must say so rather than count nonsense


@njit
def _twice_the_same(
    now: float, queue: QueueArrays, workers: WorkerArrays, arguments: KernelArguments
) -> tuple[int, int, float]:
    arguments.answer.pairs[:2] = 0
    return 2, 0, math.inf


@njit
def _beyond_the_queue(
    now: float, queue: QueueArrays, workers: WorkerArrays, arguments: KernelArguments
) -> tuple[int, int, float]:
    arguments.answer.pairs[0, 0], arguments.answer.pairs[0, 1] = queue.sizes.shape[0], 0
    return 1, 0, math.inf


@njit
def _to_nobody(
    now: float, queue: QueueArrays, workers: WorkerArrays, arguments: KernelArguments
) -> tuple[int, int, float]:
    arguments.answer.pairs[0, 0], arguments.answer.pairs[0, 1] = 0, -1
    return 1, 0, math.inf


@njit
def _to_the_last(
    now: float, queue: QueueArrays, workers: WorkerArrays, arguments: KernelArguments
) -> tuple[int, int, float]:
    arguments.answer.pairs[0, 0], arguments.answer.pairs[0, 1] = 0, workers.types.shape[0] - 1
    return 1, 0, math.inf


@njit
def _drop_all(
    now: float, queue: QueueArrays, workers: WorkerArrays, arguments: KernelArguments
) -> tuple[int, int, float]:
    arguments.answer.drops[0] = 0
    return 0, 1, math.inf


@njit
def _insomniac(
    now: float, queue: QueueArrays, workers: WorkerArrays, arguments: KernelArguments
) -> tuple[int, int, float]:
    return 0, 0, now + 1e-3


@njit
def _patient(
    now: float, queue: QueueArrays, workers: WorkerArrays, arguments: KernelArguments
) -> tuple[int, int, float]:
    """Serves the head half a second after it came, and relies on being woken for it."""
    if now < queue.arrivals[0] + 0.5:
        return 0, 0, queue.arrivals[0] + 0.5
    arguments.answer.pairs[0] = 0
    return 1, 0, math.inf


def _policy(kernel: Kernel, name: str) -> Policy:
    return Policy(name, kernel)


@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        (_twice_the_same, "answered twice for one query"),
        (_beyond_the_queue, "not in the queue"),
        (_to_nobody, "an instance that does not exist"),
        (_to_the_last, "a type that cannot serve it"),
        (_insomniac, "asks to be woken again and again"),
    ],
)
def test_a_policy_that_breaks_its_contract_is_named(kernel: Kernel, message: str) -> None:
    short = system((0.1, 0.1, 0.1, 0.1), (0.1,))
    work = draw_workload(EVEN_MIX, 20, seed=1)
    policy = _policy(kernel, f"broken_{message.replace(' ', '_')}")
    with pytest.raises(PolicyContractError, match=message):
        simulate(short, {"a": 1, "b": 1}, policy, work, 1.0)


def test_what_is_dropped_violates() -> None:
    report = simulate(system(), {"a": 2}, _policy(_drop_all, "drops"), draw_workload(EVEN_MIX, 20, seed=1), 1.0)
    assert (report.dropped, report.violations, report.unfinished) == (20, 20, 0), "shedding passed for throughput"


def test_a_policy_that_holds_a_query_is_woken_when_it_asked() -> None:
    work = record_workload([0.0, 9.0], [1, 1], seed=1)
    one = System.of({"a": table((0.2, 0.25, 0.4, 0.6))}, work.batches, 1.0)
    trace = run_alone(one, {"a": 1}, _policy(_patient, "patient"), work, 1 / 9)
    assert trace.outcome().start.tolist() == pytest.approx([0.5, 9.5]), "a held query was never looked at again"


def test_recorded_bursts_on_a_grid_of_milliseconds_order_totally() -> None:
    work = draw_workload(EVEN_MIX, 2000, 3, Arrivals.INTEGER_POISSON)
    runs = [simulate(system(), {"a": 3, "b": 3}, make_policy("kairos"), work, 9000.0) for _ in range(2)]
    assert runs[0] == runs[1], "simultaneous events were taken in an order that is not fixed"


@pytest.mark.parametrize("make", [lambda: BatchMix.of([]), lambda: make_policy("kairos", xi=math.nan)])
def test_nonsense_is_refused_where_it_is_said(make: Callable[[], object]) -> None:
    with pytest.raises(ValueError, match=r"empty|need 0 < xi"):
        make()


def test_a_query_id_is_what_comes_back_not_its_position() -> None:
    model = latency_model()
    scene = DispatchSnapshot(0.0, (Query(7, 1, 0.0, 1.0), Query(3, 1, 0.0, 1.0)), (Worker(0), Worker(1)), model)
    assert {d.query for d in decide(make_policy("kairos"), scene).dispatches} == {3, 7}


def test_a_dispatcher_tells_what_its_policy_drops_and_when_it_is_to_be_woken() -> None:
    dropping = Dispatcher(Service("s", system(), _policy(_drop_all, "drops")))
    dropping.joined(0, "a", 0.0)
    assert [dropping.offer(1, 1, 1.0, at).drops for at in (0.5, 0.6)] == [[1], [1]]
    patient = Dispatcher(Service("s", system(), _policy(_patient, "patient")))
    patient.joined(0, "a", 0.0)
    assert patient.offer(1, 1, 1.0, 0.5) == ([], [], 1.0)
    assert patient.wake(1.0) == ([(1, 0)], [], math.inf)


def test_a_dispatcher_names_a_policy_that_breaks_its_contract() -> None:
    run = Dispatcher(Service("s", system(), _policy(_to_nobody, "broken_an_instance_that_does_not_exist")))
    run.joined(0, "a", 0.0)
    with pytest.raises(PolicyContractError, match="an instance that does not exist"):
        run.offer(1, 1, 1.0, 0.5)
