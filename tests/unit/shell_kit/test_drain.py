"""A pod that has led refuses calls until none comes any more: the address of a pod that is gone answers nothing."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Sequence

import pytest

from hetserve_shell.http.server import listen
from hetserve_shell.leader.service import refuse_calls

QUIET, LEAST, WITHIN = 2.0, 4.0, 6.0


class Time:
    """Seconds that go by in sleep; at each of `calls` one comes, and is answered before time goes on."""

    def __init__(self, listener: socket.socket, calls: Sequence[float]) -> None:
        self.address = listener.getsockname()
        self.now = 100.0
        self.calls = [self.now + call for call in calls]
        self.ends: list[type[Exception] | None] = []

    def clock(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        until = self.now + seconds
        while self.calls and self.calls[0] <= until:
            self.now = self.calls.pop(0)
            self.ends.append(await self._call())
        self.now = until

    async def _call(self) -> type[Exception] | None:
        reader, writer = await asyncio.open_connection(*self.address)
        try:
            await reader.read()
        except ConnectionError as error:
            return type(error)
        finally:
            writer.close()
        return None


@pytest.mark.parametrize(
    ("calls", "ends"),
    [
        pytest.param([], 4.0, id="none"),
        pytest.param([1.0], 4.0, id="one-early"),
        pytest.param([0.5, 1.5, 3.0], 5.0, id="some"),
        pytest.param([1.0, 4.5], 4.0, id="one-that-comes-too-late"),
        pytest.param([0.5 * number for number in range(1, 12)], 6.0, id="calls-that-do-not-end"),
    ],
)
async def test_calls_are_reset_until_none_came_for_a_while(calls: list[float], ends: float) -> None:
    listener = listen("127.0.0.1", 0)
    virtual = Time(listener, calls)
    came = await refuse_calls(listener, QUIET, LEAST, WITHIN, clock=virtual.clock, sleep=virtual.sleep)
    assert virtual.now - 100.0 == ends
    assert virtual.ends == [ConnectionResetError] * came
    assert came == len([call for call in calls if call <= ends])


async def test_nobody_listens_afterwards() -> None:
    listener = listen("127.0.0.1", 0)
    address = listener.getsockname()
    virtual = Time(listener, [])
    await refuse_calls(listener, QUIET, LEAST, WITHIN, clock=virtual.clock, sleep=virtual.sleep)
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection(*address)
