"""Pools measured by several processes, with a line for each and what is left."""

from __future__ import annotations

import multiprocessing
import os
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing.process import BaseProcess

from benchmarks.flow import measure, store
from benchmarks.flow.judge import SEARCH, Judge
from benchmarks.flow.pools import pools
from benchmarks.reporting import Json

from hetserve.planning import Problem


def measure_all(asked: Sequence[Problem], jobs: int, *, of_any_code: bool = False) -> None:
    """Measures those without a valid record; of_any_code: as in `store.is_measured`."""
    left = [given for given in asked if not store.is_measured(given, of_any_code=of_any_code)]
    print(f"{len(asked) - len(left)} of {len(asked)} pools are kept, {len(left)} to measure with {jobs} processes")
    if not left:
        return
    # A pool's work is sequential: another thread of the linear algebra would only take another pool's processor.
    os.environ["OPENBLAS_NUM_THREADS"] = "1"
    with ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn"), _begin) as workers:
        # The first compiles; the others find it in the cache.
        workers.submit(warm_up).result()
        _run(workers, left)


def warm_up() -> None:
    """Compiles what measuring needs, if no cache holds it."""
    given = pools(1, seed=0)[0]
    measure.plans_of(given, measure.MOST_PLANNERS)
    numbers = tuple(1 for _ in given.types)
    for policy in measure.POLICIES:
        judge = Judge(given, policy=policy)
        judge.passes(numbers, judge.ceiling(numbers) / 2, SEARCH)


def _begin() -> None:
    """A worker is silent (SciPy's HiGHS writes lines of its own to file descriptor 1) and ends with its parent."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    threading.Thread(target=_end_with, args=(multiprocessing.parent_process(),), daemon=True).start()


def _end_with(parent: BaseProcess | None) -> None:
    if parent is not None:
        parent.join()
        os._exit(1)


def _run(workers: ProcessPoolExecutor, left: Sequence[Problem]) -> None:
    started = time.perf_counter()
    # The largest first: the last ones are short then.
    order = sorted(left, key=lambda given: -len(given.types) * len(given.mix.batches))
    running = {workers.submit(measure.measured, given): given.service for given in order}
    failed = []
    for done, future in enumerate(as_completed(running), 1):
        name, error, spent = running[future], future.exception(), time.perf_counter() - started
        if error is not None:
            failed.append(name)
        told = f"{type(error).__name__}: {error}" if error else _told(future.result())
        rest = spent / done * (len(order) - done)
        print(f"{done}/{len(order)} {name}: {told}; {spent:.0f} s, about {rest:.0f} s left", flush=True)
    if failed:
        raise SystemExit(f"{len(failed)} pools failed: {', '.join(failed)}")


def _told(record: Json) -> str:
    return f"{record['seconds']:.1f} s of a processor, {record['trials']} trials"
