"""Real processes that plan: the same plans, a deadline, sudden ends, and none that outlives its operator."""

from __future__ import annotations

import asyncio
import os
import pickle
import select
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from harness import limits
from hetserve.base.units import Seconds
from hetserve.demand.mix import kairos_mixture
from hetserve.planning import Plan, Problem, plan
from hetserve.planning.reach import PlannerJob
from hetserve.reconcile.plans.planner import PlannerAnswer, PlannerTimedOut, PlanQuestion
from hetserve_operator.metrics import OperatorMetrics
from hetserve_operator.plans import worker
from hetserve_operator.plans.pool import PlanningPool, PlanningProcess, ProcessDiedError
from hetserve_operator.plans.queue import PlannerQueue
from hetserve_operator.plans.worker import NICENESS, frame
from hetserve_operator.workqueue import Key
from testing.planning import hetsev_types, kairos_types, min_cost, problem

KEY = Key("ns", "svc")
SMALL = min_cost(hetsev_types(), 2.0)
"""Takes tenths of a second, in trials."""
BY_KAIROS = problem(kairos_types(), planner="kairos")
"""Takes milliseconds, without trials."""
LARGE = problem(
    [replace(option, name=f"{option.name}-{n}") for option in kairos_types() for n in range(3)],
    budget="30",
    mix=kairos_mixture(),
)
"""Takes seconds, in trials and in a solver."""
OPERATOR = """
import asyncio, pickle, sys
from pathlib import Path
from hetserve_operator.plans.pool import PlanningProcess

async def main():
    idle, busy = await PlanningProcess.start(), await PlanningProcess.start()
    work = asyncio.create_task(busy.ask(pickle.loads(Path(sys.argv[1]).read_bytes())))
    await asyncio.sleep(0)
    print(idle.pid, busy.pid, flush=True)
    await work

asyncio.run(main())
"""


def ended(pidfd: int, seconds: float) -> bool:
    """Whether a process ends within so many seconds."""
    return bool(select.select([pidfd], [], [], seconds)[0])


class Pool:
    """A pool of real processes over its queue."""

    def __init__(self, deadline: float) -> None:
        self.woken = asyncio.Event()
        self.started: list[PlanningProcess] = []
        loop = asyncio.get_running_loop()
        self.queue = PlannerQueue(loop.time, lambda _: self.woken.set())
        self.pool = PlanningPool(self.queue, OperatorMetrics(), processes=1, deadline=deadline, start=self._start)

    async def answer(self, asked: Problem) -> PlannerAnswer:
        """The answer to a question, waited for."""
        self.woken.clear()
        self._look(asked)
        await self.woken.wait()
        return self._look(asked)

    def alive(self) -> list[PlanningProcess]:
        """Those of its processes that are ready and have not ended."""
        return [process for process in self.started if process.alive]

    def _look(self, asked: Problem) -> PlannerAnswer:
        return self.queue.run_pass(KEY, lambda planner: planner(PlanQuestion(asked, asked, needed=True)))

    async def _start(self) -> PlanningProcess:
        self.started.append(await PlanningProcess.start())
        return self.started[-1]


@asynccontextmanager
async def running(deadline: float = 30.0) -> AsyncIterator[Pool]:
    pool = Pool(deadline)
    tasks = [asyncio.ensure_future(loop()) for loop in pool.pool.loops()]
    try:
        yield pool
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def test_a_process_makes_the_plans_of_both_objectives_and_ends() -> None:
    process = await PlanningProcess.start()
    assert await process.ask(PlannerJob(BY_KAIROS)) == plan(BY_KAIROS)
    assert await process.ask(PlannerJob(SMALL)) == plan(SMALL)
    pidfd = os.pidfd_open(process.pid)
    await process.end()
    assert ended(pidfd, 0.0)
    os.close(pidfd)


def used_by_niceness(pid: int) -> Counter[int]:
    """Nanoseconds of processor time of a process's threads, by their niceness."""
    used: Counter[int] = Counter()
    for task in Path(f"/proc/{pid}/task").iterdir():
        used[os.getpriority(os.PRIO_PROCESS, int(task.name))] += int((task / "schedstat").read_text().split()[0])
    return used


@pytest.mark.deep
async def test_what_takes_seconds_lets_the_operator_go_first_and_what_services_wait_for_does_not() -> None:
    """Who waits for a process to be ready, or for an untried plan, waits for it alone."""
    process = await PlanningProcess.start()
    try:
        ours = os.getpriority(os.PRIO_PROCESS, 0)
        patient = min(ours + NICENESS, 19)
        assert set(used_by_niceness(process.pid)) == {ours}, "all services wait for it"
        if ours == patient:
            pytest.skip("nobody can give way to who is at the greatest niceness")
        for quick in (False, True):
            before = used_by_niceness(process.pid)
            await process.ask(PlannerJob(SMALL, quick=quick))
            after = used_by_niceness(process.pid)
            assert set(after) <= {ours, patient}
            used = after - before
            assert (used[patient] > used.total() / 2) is not quick
    finally:
        await process.end()


def test_the_session_gives_way_as_its_thread_does(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    autogroup = tmp_path / "autogroup"
    monkeypatch.setattr(worker, "AUTOGROUP", autogroup)
    threads, told = worker.PlanningThreads(), []
    for quick in (True, False, False, True):
        threads.plan(PlannerJob(BY_KAIROS, quick=quick))
        told.append(autogroup.read_text())
    threads.plan(PlannerJob(BY_KAIROS), gives_way=False)
    assert [*told, autogroup.read_text()] == ["0", str(NICENESS), str(NICENESS), "0", "0"]


class OftenRefused:
    """A file that the kernel lets be written only now and then."""

    def __init__(self, refusals: int) -> None:
        self.refusals, self.told = refusals, ""

    def write_text(self, text: str, encoding: str) -> None:
        assert encoding == "ascii"
        self.refusals -= 1
        if self.refusals >= 0:
            raise BlockingIOError
        self.told = text


def test_a_session_that_may_not_change_yet_waits_a_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    paused: list[float] = []
    file = OftenRefused(2)
    monkeypatch.setattr(worker, "AUTOGROUP", file)
    threads = worker.PlanningThreads(paused.append)
    threads.plan(PlannerJob(BY_KAIROS, quick=True))
    assert (file.told, len(paused)) == ("0", 2)
    file.refusals = 99
    threads.plan(PlannerJob(BY_KAIROS))
    assert len(paused) < 10, "it plans all the same"
    file.refusals = 0
    threads.plan(PlannerJob(BY_KAIROS))
    assert file.told == str(NICENESS), "and is weighed with the next plan"


def test_a_process_can_plan_where_no_session_is_weighed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(worker, "AUTOGROUP", tmp_path / "none" / "autogroup")
    assert worker.PlanningThreads().plan(PlannerJob(BY_KAIROS)) == plan(BY_KAIROS)


async def silent() -> PlanningProcess:
    """A process that plans nothing, which is there at once."""
    return PlanningProcess(await asyncio.create_subprocess_exec("cat", stdin=-1, stdout=-1, start_new_session=True))


async def test_a_process_that_is_killed_says_so() -> None:
    process = await silent()
    os.kill(process.pid, signal.SIGKILL)
    with pytest.raises(ProcessDiedError, match="SIGKILL"):
        await process.ask(PlannerJob(SMALL))
    await process.end()


async def test_a_call_that_is_cancelled_again_still_waits_for_the_end() -> None:
    process = await silent()
    ending = asyncio.create_task(process.end())
    await asyncio.sleep(0)
    ending.cancel()
    with pytest.raises(asyncio.CancelledError):
        await ending
    assert not process.alive


@pytest.mark.deep
async def test_the_pool_outlives_its_processes_and_ends_them_with_itself() -> None:
    async with running() as pool:
        assert await pool.answer(BY_KAIROS) == plan(BY_KAIROS)
        for process in pool.alive():
            os.kill(process.pid, signal.SIGKILL)
            await process.end()  # waits for it
        other = problem(kairos_types(), budget="2", planner="kairos")
        assert await pool.answer(other) == plan(other), "a problem fails since a process died before it"
        last = [os.pidfd_open(process.pid) for process in pool.alive()]
    assert [ended(pidfd, 0.0) for pidfd in last] == [True] * len(last), "a process outlives the operator"
    assert last, "no process is kept for the next problem"
    for pidfd in last:
        os.close(pidfd)


@pytest.mark.deep
async def test_a_plan_that_takes_long_is_stopped_and_the_next_one_made() -> None:
    async with running(deadline=3.0) as pool:
        assert await pool.answer(LARGE) == PlannerTimedOut("flow", Seconds(3.0))
        made = await pool.answer(BY_KAIROS)
        assert isinstance(made, Plan)
        assert made.feasible


def test_no_process_outlives_an_operator_that_is_killed(tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.write_bytes(pickle.dumps(PlannerJob(LARGE)))
    command = [sys.executable, "-c", OPERATOR, str(work)]
    path = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=path) as operator:
        assert operator.stdout is not None
        pids = [os.pidfd_open(int(pid)) for pid in operator.stdout.readline().split()]
        operator.kill()
    assert [ended(pid, limits.REACTION) for pid in pids] == [True, True]
    for pid in pids:
        os.close(pid)


def test_a_process_ends_with_an_operator_that_is_killed_while_it_sends_a_problem() -> None:
    command = [sys.executable, "-P", "-m", "hetserve_operator.plans.worker"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        sent = frame(PlannerJob(LARGE))
        try:
            process.communicate(sent[: len(sent) // 2], timeout=limits.REACTION)
        finally:
            process.kill()
    assert process.returncode == 1, "it waits for ever for the rest of the problem"
