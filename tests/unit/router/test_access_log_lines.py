"""Lines for a pipe that may be full: nobody waits for who reads them, and a later line says how many are missing."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hetserve_router.access_log import MOST, AccessLog, Lines
from hetserve_shell.http.takers import Head

HEAD = Head(b"POST", b"/v2/models/rm2/infer", b"", (), 0)
LINE = b"x" * 99 + b"\n"


@dataclass
class Pipe:
    """A pipe whose reader may rest, and lines for it in turns that a test takes."""

    ends: tuple[int, int] = field(default_factory=os.pipe)
    due: list[Callable[[], None]] = field(default_factory=list)

    def __post_init__(self) -> None:
        os.set_blocking(self.ends[0], False)
        self.lines = Lines(self.ends[1], cast("Any", self._later))

    def _later(self, _delay: float, call: Callable[[], None]) -> asyncio.TimerHandle:
        self.due.append(call)
        return cast("asyncio.TimerHandle", type("Timer", (), {"cancel": self.due.clear}))

    def turn(self) -> None:
        """Calls what is due; never waits, or the test would not end."""
        due, self.due = self.due, []
        for call in due:
            call()

    def read(self) -> bytes:
        found = b""
        try:
            while data := os.read(self.ends[0], 1 << 20):
                found += data
        except BlockingIOError:
            pass
        return found

    def read_all(self) -> bytes:
        found = b""
        while self.due:
            self.turn()
            found += self.read()
        return found


@pytest.fixture
def pipe() -> Iterator[Pipe]:
    made = Pipe()
    yield made
    for end in made.ends:
        os.close(end)


def test_lines_of_one_turn_are_written_together_and_whole(pipe: Pipe) -> None:
    for number in range(5):
        assert pipe.lines.add(b"%d\n" % number)
    assert len(pipe.due) == 1
    assert pipe.read_all() == b"0\n1\n2\n3\n4\n"


def test_a_full_pipe_makes_nobody_wait_and_later_gets_all_that_was_kept(pipe: Pipe) -> None:
    kept = 0
    while pipe.lines.add(LINE):
        kept += 1
        if kept % 50 == 0:
            pipe.turn()
    assert kept * len(LINE) > MOST, "what the pipe took, and as much as may wait"
    assert len(pipe.due) == 1, "it is looked at again"
    assert pipe.read_all() == LINE * kept
    assert pipe.lines.add(LINE)


@given(sizes=st.lists(st.integers(1, 10_000), max_size=60))
def test_whatever_their_length_lines_come_in_order_and_none_is_lost(sizes: list[int]) -> None:
    pipe, sent = Pipe(), b""
    for number, size in enumerate(sizes):
        line = bytes([65 + number % 26]) * size + b"\n"
        assert pipe.lines.add(line)
        sent += line
    assert pipe.read_all() == sent
    for end in pipe.ends:
        os.close(end)


def test_what_nobody_will_read_is_dropped() -> None:
    pipe = Pipe()
    os.close(pipe.ends[0])
    for _ in range(3):
        assert pipe.lines.add(LINE)
    pipe.turn()
    assert not pipe.due
    os.close(pipe.ends[1])


def test_a_file_takes_all_at_once(tmp_path: Any) -> None:
    with (tmp_path / "log").open("wb") as file:
        lines = Lines(file.fileno(), lambda _delay, _call: cast("Any", None))
        for _ in range(1000):
            lines.add(LINE)
        lines.flush()
    assert (tmp_path / "log").read_bytes() == LINE * 1000


def test_a_line_after_some_that_were_dropped_says_how_many(pipe: Pipe) -> None:
    log = AccessLog("errors", pipe.lines)
    while pipe.lines.add(LINE):
        pass
    for _ in range(3):
        log.refused(HEAD, 429, "default/rm2")
    pipe.read_all()
    log.refused(HEAD, 200, "default/rm2")
    for _ in range(2):
        log.refused(HEAD, 503, "default/rm2")
    log.close()
    found = [json.loads(line) for line in pipe.read().splitlines()]
    assert [(line["status"], line.get("dropped")) for line in found] == [(503, 3), (503, None)]
