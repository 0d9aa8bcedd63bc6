"""A log that something fills in every turn of a loop stays small, and says how much it left out."""

from __future__ import annotations

import io
import logging
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

from hetserve_shell.process import AT_MOST, INTERVAL, KINDS, BoundedHandler, Repeats


@dataclass
class Log:
    now: list[float] = field(default_factory=lambda: [1000.0])
    text: io.StringIO = field(default_factory=io.StringIO)

    def __post_init__(self) -> None:
        self.handler = BoundedHandler(self.text, Repeats(lambda: self.now[0]))
        self.handler.setFormatter(logging.Formatter("%(levelname)s %(name)s: %(message)s"))

    def say(self, text: str, *args: object, level: int = logging.ERROR, name: str = "asyncio") -> None:
        self.handler.handle(logging.LogRecord(name, level, "", 0, text, args, None))

    @property
    def lines(self) -> list[str]:
        return self.text.getvalue().splitlines()


@pytest.fixture
def log() -> Iterator[Log]:
    made = Log()
    yield made
    made.handler.close()


def test_an_error_of_every_turn_is_written_a_few_times_then_counted(log: Log) -> None:
    for _ in range(1000):
        log.say("socket.accept() out of system resource\nsocket: 7")
    assert len(log.lines) == 2 * AT_MOST
    log.now[0] += INTERVAL
    log.say("socket.accept() out of system resource\nsocket: 7")
    said = f"ERROR asyncio: {1000 - AT_MOST} more like this were left out: socket.accept() out of system resource"
    assert log.lines[2 * AT_MOST :] == [said, "ERROR asyncio: socket.accept() out of system resource", "socket: 7"]


def test_anything_that_is_logged_later_brings_the_count(log: Log) -> None:
    for _ in range(AT_MOST + 3):
        log.say("broken")
    log.now[0] += INTERVAL
    log.say("started", level=logging.INFO, name="main")
    assert log.lines[AT_MOST:] == ["ERROR asyncio: 3 more like this were left out: broken", "INFO main: started"]


def test_the_end_of_the_process_brings_the_count(log: Log) -> None:
    for _ in range(AT_MOST + 3):
        log.say("broken")
    log.handler.close()
    assert log.lines[-1] == "ERROR asyncio: 3 more like this were left out: broken"


def test_what_a_client_puts_into_a_message_makes_no_new_kind(log: Log) -> None:
    for number in range(1000):
        log.say("filter: %s", f"pod {number}", level=logging.WARNING)
    assert len(log.lines) == AT_MOST


def test_messages_that_are_never_the_same_are_bounded_together(log: Log) -> None:
    for number in range(10_000):
        log.say(f"failed {number}")
    assert len(log.lines) == KINDS + AT_MOST
    log.handler.close()
    assert log.lines[-1].endswith("more like this were left out: other messages")


def test_other_loggers_and_levels_and_what_is_no_error_are_written(log: Log) -> None:
    for _ in range(AT_MOST + 1):
        log.say("broken")
    log.say("broken", name="other")
    log.say("broken", level=logging.WARNING)
    for _ in range(3 * AT_MOST):
        log.say("broken", level=logging.INFO)
    assert len(log.lines) == AT_MOST + 2 + 3 * AT_MOST


def test_a_message_below_the_bound_is_written_as_it_is_for_ever(log: Log) -> None:
    for _ in range(10 * AT_MOST):
        log.say("now and then")
        log.now[0] += INTERVAL / AT_MOST
    assert log.lines == ["ERROR asyncio: now and then"] * (10 * AT_MOST)
