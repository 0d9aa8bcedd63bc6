"""Supervised tasks begin again after an error, ever later, until they are cancelled."""

from __future__ import annotations

import asyncio

import pytest

from hetserve_shell.tasks.supervisor import LONGEST_PAUSE, supervise


async def test_work_that_fails_begins_anew_ever_later_and_each_failure_is_reported() -> None:
    pauses: list[float] = []
    told: list[str] = []

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 9:
            raise asyncio.CancelledError

    async def work() -> None:
        if len(pauses) % 2:
            raise KeyError("a slip")

    with pytest.raises(asyncio.CancelledError):
        await supervise("drift", work, lambda: told.append("drift"), sleep)
    assert pauses == [1, 2, 4, 8, 16, 32, 60, 60, 60]
    assert pauses[-1] == LONGEST_PAUSE
    assert told == ["drift"] * 9


async def test_work_that_went_well_for_long_begins_anew_at_once() -> None:
    pauses: list[float] = []
    now = [0.0]

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 4:
            raise asyncio.CancelledError

    async def work() -> None:
        now[0] += 600.0 if len(pauses) == 2 else 1.0
        raise KeyError("a slip")

    with pytest.raises(asyncio.CancelledError):
        await supervise("queue", work, lambda: None, sleep, lambda: now[0])
    assert pauses == [1, 2, 1, 2]


async def test_work_ends_when_it_is_cancelled() -> None:
    begun = asyncio.Event()

    async def work() -> None:
        begun.set()
        await asyncio.Event().wait()

    task = asyncio.create_task(supervise("queue", work, lambda: None))
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
