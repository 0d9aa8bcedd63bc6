"""Pools measured by several processes, with a line for each and what is left."""

from __future__ import annotations

import multiprocessing
import os
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing.process import BaseProcess
from typing import Any

from benchmarks.flow import measure, store
from benchmarks.flow.judge import SEARCH, Judge
from benchmarks.flow.pools import pools
from benchmarks.reporting import Json

from hetserve.planning import Problem


def measure_all(asked: Sequence[Problem], jobs: int, *, of_any_code: bool = False) -> None:
    """Measures those without a valid record; of_any_code: as in `store.is_measured`."""
    left = [given for given in asked if not store.is_measured(given, of_any_code=of_any_code)]
    print(f"{len(asked) - len(left)} of {len(asked)} pools are kept, {len(left)} to measure with {jobs} processes")
    if left:
        run(measure.measured, [(given,) for given in left], jobs)


def run(measured: Callable[..., Json], asked: Sequence[tuple[Any, ...]], jobs: int) -> dict[str, Json]:
    """Answers by pool; the arguments of each begin with the pool. Raises SystemExit, at the end, if any failed."""
    # A pool's work is sequential: another thread of the linear algebra would only take another pool's processor.
    os.environ["OPENBLAS_NUM_THREADS"] = "1"
    with ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn"), _begin) as pool:
        # The first compiles; the others find it in the cache.
        pool.submit(warm_up).result()
        return _collect(pool, measured, asked)


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


def _collect(
    pool: ProcessPoolExecutor, measured: Callable[..., Json], asked: Sequence[tuple[Any, ...]]
) -> dict[str, Json]:
    started = time.perf_counter()
    # The largest first: the last ones are short then.
    order = sorted(asked, key=lambda one: -len(one[0].types) * len(one[0].mix.batches))
    running = {pool.submit(measured, *one): one[0].service for one in order}
    found, failed = dict[str, Json](), list[str]()
    for done, future in enumerate(as_completed(running), 1):
        name, error, spent = running[future], future.exception(), time.perf_counter() - started
        if error is None:
            found[name] = future.result()
        else:
            failed.append(name)
        told = f"{type(error).__name__}: {error}" if error else _told(found[name])
        rest = spent / done * (len(order) - done)
        print(f"{done}/{len(order)} {name}: {told}; {spent:.0f} s, about {rest:.0f} s left", flush=True)
    if failed:
        raise SystemExit(f"{len(failed)} pools failed: {', '.join(failed)}")
    return found


def _told(record: Json) -> str:
    seconds = record["seconds"]
    spent = sum(seconds) if isinstance(seconds, list) else seconds
    return f"{spent:.1f} s of a processor"
