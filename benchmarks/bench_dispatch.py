"""Time of a matching decision, of an event of a dispatcher and a router, and simulated queries/s on one core.

Run: .venv/bin/python -m benchmarks.bench_dispatch
"""

from __future__ import annotations

import heapq
import math
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np
from benchmarks.kairos.evaluation.measure import bound_of
from benchmarks.kairos.paper.setting import Case, counts_of, system
from benchmarks.reporting import RESULTS, machine
from scipy.optimize import linear_sum_assignment

from hetserve.dispatch import Policy, make_policy
from hetserve.dispatch.kairos import PENALTY, XI
from hetserve.dispatch.kernel import Flags, Floats, Integers
from hetserve.routing.actions import Action, Send
from hetserve.routing.router import QueueLimits, ServiceRouter
from hetserve.serving.dispatcher import Actions, Dispatcher
from hetserve.serving.services import GpuInstance, Service
from hetserve.serving.session import Session
from hetserve.simulation.run import run_alone
from hetserve.simulation.workload import draw_sizes, draw_workload
from testing.deciding import flat_kernel

ROUNDS = 200
REPORT = RESULTS / "dispatch.md"


@dataclass(frozen=True, slots=True, eq=False)
class DispatchScene:
    """Queries of RM2 from the last half SLO, and instances of all types, some busy."""

    sizes: Integers
    arrivals: Floats
    types: Integers
    busy: Flags
    free_at: Floats


def a_scene(queries: int, workers: int, seed: int, idle: float = 0.5) -> DispatchScene:
    rng = np.random.default_rng(seed)
    model = system(Case("RM2")).predicted
    half = 0.5 * model.arrays.slo
    busy = rng.random(workers) >= idle
    busy[0] = False
    return DispatchScene(
        rng.integers(0, len(model.batches), queries),
        np.sort(rng.uniform(-half, 0.0, queries)),
        np.sort(rng.integers(0, len(model.types), workers)),
        busy,
        np.where(busy, rng.uniform(0.0, half, workers), 0.0),
    )


def a_call(policy: Policy, scene: DispatchScene) -> Callable[[], object]:
    """A decision on prepared arrays."""
    model = system(Case("RM2")).predicted
    queries, workers = len(scene.sizes), len(scene.types)
    floats, integers = policy.scratch(workers, queries)
    arguments = (
        0.0,
        scene.sizes,
        scene.arrivals,
        scene.arrivals + model.arrays.slo,
        scene.types,
        scene.busy,
        scene.free_at,
        *model.arrays,
        np.array(policy.parameters, dtype=np.float64),
        np.zeros(floats),
        np.zeros(integers, np.int64),
        np.zeros((workers, 2), np.int64),
        np.zeros(workers, np.int64),
    )
    kernel = flat_kernel(policy.name, policy.kernel)
    return lambda: kernel(*arguments)


def cost_matrix(scene: DispatchScene) -> Floats:
    """Kairos's costs (Eq. 2 and 8) of a scene, for SciPy."""
    arrays = system(Case("RM2")).predicted.arrays
    finish = scene.free_at[None, :] + arrays.mean[scene.types][:, scene.sizes].T
    late = finish - scene.arrivals[:, None] > XI * arrays.slo
    costs: Floats = arrays.coefficients[scene.types][None, :] * np.where(late, PENALTY * arrays.slo, finish)
    return costs


def microseconds(calls: list[Callable[[], object]]) -> tuple[float, float]:
    """Median and p99 over the calls; each the least of five timings."""
    taken = []
    for call in calls:
        call()
        least = math.inf
        for _ in range(5):
            start = time.perf_counter()
            call()
            least = min(least, time.perf_counter() - start)
        taken.append(least * 1e6)
    return statistics.median(taken), statistics.quantiles(taken, n=100)[98]


def matching(size: int, goal: float) -> str:
    policy = make_policy("kairos", window=1.0)
    scenes = [a_scene(size, size, seed) for seed in range(ROUNDS)]
    ours = microseconds([a_call(policy, scene) for scene in scenes])
    matrices = [cost_matrix(scene) for scene in scenes]
    scipy_us = microseconds([partial(linear_sum_assignment, matrix) for matrix in matrices])
    return (
        f"matching {size:3d}x{size:<3d} with its matrix built: {ours[0]:7.1f} us median, {ours[1]:7.1f} p99 "
        f"(goal {goal:g}: {_verdict(ours[0] < goal)}); SciPy's solver alone on the same matrices {scipy_us[0]:.1f} us"
    )


def stepped(name: str, waiting: int, goal: float) -> str:
    taken = event_times(name, waiting, is_routed=False)
    median, answers = statistics.median(taken), statistics.median(taken[::2])
    return (
        f"{name}: an event of a dispatcher, 14 instances, {waiting} waiting: {median:.1f} us median, "
        f"{answers:.1f} of answers, each of which starts a query (goal {goal:g} median: {_verdict(median < goal)})"
    )


def routed(name: str, waiting: int, goal: float = 3.0, rounds: int = 9) -> str:
    """What a router adds to a query's answer and arrival: medians, the least of rounds in turn."""
    least = [math.inf, math.inf]
    for _ in range(rounds):
        for is_routed in (False, True):
            taken = event_times(name, waiting, is_routed=is_routed)
            both = statistics.median(taken[::2]) + statistics.median(taken[1::2])
            least[is_routed] = min(least[is_routed], both / 2)
    more = least[True] - least[False]
    return (
        f"{name}: an event of a router, 14 instances, {waiting} waiting: {least[True]:.1f} us, mean of answers and "
        f"arrivals, {more:+.1f} to the dispatcher's (goal {goal:g} more: {_verdict(more <= goal)})"
    )


def event_times(name: str, waiting: int, *, is_routed: bool, rounds: int = 3_000) -> list[float]:
    """Answers and offers in turn, at the predicted times, while so many queries wait [us]."""
    case, types = Case("RM2"), counts_of(1, 0, 13, 0)
    of = system(case)
    model, rng = of.predicted, np.random.default_rng(1)
    service = Service("rm2", of, make_policy(name))
    run, router = Dispatcher(service), ServiceRouter(service, QueueLimits(most_waiting=10**6))
    kinds = of.workers(dict(types)).tolist()
    for number, kind in enumerate(kinds):
        (router if is_routed else run).joined(number, of.types[kind], 0.0)
    batches, ends, taken = model.batches.tolist(), list[tuple[float, int, int]](), list[float]()
    sizes = draw_sizes(case.mix, rng, len(kinds) + waiting + rounds).tolist()

    def apart(event: Callable[..., Actions | list[Action]], *arguments: float) -> None:
        start = time.perf_counter()
        actions = event(*arguments)
        taken.append((time.perf_counter() - start) * 1e6)
        sends = actions.sends if isinstance(actions, Actions) else [each for each in actions if isinstance(each, Send)]
        for query, to in sends:
            heapq.heappush(ends, (arguments[-1] + model.arrays.mean[kinds[to], sizes[query]], to, query))

    def offer(query: int, now: float) -> None:
        if is_routed:
            apart(router.arrived, query, batches[sizes[query]], now)
        else:
            apart(run.offer, query, batches[sizes[query]], now + model.arrays.slo, now)

    for query in range(len(kinds) + waiting):
        offer(query, 0.0)
    taken.clear()
    for query in range(len(kinds) + waiting, len(sizes)):
        now, instance, served = heapq.heappop(ends)
        apart(router.answered if is_routed else run.answered, served if is_routed else instance, now)
        offer(query, now)
    return taken


def simulated(name: str, counts: tuple[int, ...], load: float, goal: float | None, queries: int = 100_000) -> str:
    case = Case("RM2")
    configuration = counts_of(*counts)
    policy, rate = make_policy(name), load * bound_of(case, configuration)
    work = draw_workload(case.mix, queries, 11)
    run_alone(system(case), dict(configuration), policy, draw_workload(case.mix, 1000, 1), rate)
    speeds = []
    for _ in range(3):
        start = time.process_time()
        run_alone(system(case), dict(configuration), policy, work, rate)
        speeds.append(queries / (time.process_time() - start))
    best = max(speeds)
    text = "" if goal is None else f" (goal {goal:,.0f}: {_verdict(best > goal)})"
    return (
        f"{name}: {best:,.0f} queries/s simulated on one core, {sum(counts)} instances at {load:.0%} of the bound{text}"
    )


def closed(name: str, clients: int, goal: float, queries: int = 100_000) -> str:
    """Clients that send a query about 0.1 s after the answer to the last one."""
    case, rng = Case("RM2"), np.random.default_rng(1)
    of, turns = system(case), queries // clients
    work = draw_workload(case.mix, turns * clients, 1)
    speeds = []
    for _ in range(4):
        run = Session([Service("rm2", of, make_policy(name))])
        kinds = of.workers(dict(counts_of(1, 0, 13, 0))).tolist()
        run.join_all(GpuInstance("rm2", of.types[kind], f"gpu {place}") for place, kind in enumerate(kinds))
        shape = clients, turns
        run.attend("rm2", rng.exponential(0.1, shape), work.sizes.reshape(shape), work.service_draws.reshape(shape))
        start = time.process_time()
        run.until()
        speeds.append(len(work) / (time.process_time() - start))
    return (
        f"{name}: {max(speeds):,.0f} queries/s of {clients} clients that await answers, on one core, 14 instances "
        f"(goal {goal:,.0f}: {_verdict(max(speeds) > goal)})"
    )


def _verdict(held: bool) -> str:
    return "held" if held else "MISSED"


def lines() -> Iterator[str]:
    yield matching(20, 40)
    yield matching(200, 1500)
    for name, waiting, goal in (("kairos", 30, 6), ("hetserve", 30, 5), ("kairos", 1_000, 20), ("hetserve", 1_000, 20)):
        yield stepped(name, waiting, goal)
    for name in ("kairos", "hetserve"):
        for waiting in (0, 30, 1_000):
            yield routed(name, waiting)
    yield simulated("kairos", (1, 0, 13, 0), 0.88, 200_000)
    yield simulated("kairos", (2, 0, 26, 0), 0.88, None)
    yield simulated("hetserve", (1, 0, 13, 0), 0.97, 300_000)
    yield simulated("hetserve", (2, 0, 26, 0), 0.97, 300_000)
    yield simulated("fcfs", (1, 0, 13, 0), 0.16, None)
    for name in ("kairos", "hetserve", "fcfs"):
        yield closed(name, 28, 300_000)


def main() -> None:
    """Prints each figure beside its goal; keeps all in docs/results/dispatch.md."""
    kept = []
    for line in lines():
        print(line, flush=True)
        kept.append(f"- {line}\n")
    where = machine("numba", "NumPy", "SciPy")
    REPORT.write_text(
        f"# Speed of dispatching and simulation\n\n`.venv/bin/python -m benchmarks.bench_dispatch`; {where}.\n"
        "RM2 at 350 ms; seeds 0 to 199 (scenes), 11 (simulation).\n\n" + "".join(kept),
        encoding="utf-8",
    )


if __name__ == "__main__":
    main()
