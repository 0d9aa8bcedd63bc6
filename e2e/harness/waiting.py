"""Polls until a condition holds; reports the last observation on failure."""

from __future__ import annotations

import json
import os
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

import httpx

from harness import limits
from harness.kube import ApiError

T = TypeVar("T")
FIRST_PAUSE: Final = 0.05
LONGEST_PAUSE: Final = 0.25
LONGEST_STATE: Final = 2_000
WAITS_VARIABLE: Final = "HETSERVE_TEST_WAITS"
"""A folder for notes of the waits that used over `NEAR` of their limit; unset: none are taken."""
NEAR: Final = 0.6


class WaitTimeoutError(AssertionError):
    """A condition did not hold in time; the message has its description, the time and the last observation."""


@dataclass(frozen=True, slots=True)
class Unmet:
    """False, with what was seen."""

    seen: Any

    def __bool__(self) -> bool:
        return False


def wait_until(predicate: Callable[[], T | Unmet | bool | None], timeout: float, what: str) -> T:
    """Polls until `predicate` returns something true.

    An ApiError or a refused connection is false. Raises WaitTimeoutError. timeout: seconds, more where the machine has
    become slower since the run began. what: completes "waited for ...".
    """
    begun = time.monotonic()
    deadline = begun + timeout
    pause = FIRST_PAUSE
    while True:
        try:
            answer: Any = predicate()
        except (ApiError, httpx.TransportError) as error:
            answer = Unmet(f"{type(error).__name__}: {error}")
        if answer:
            _note(time.monotonic() - begun, timeout, what)
            return answer  # type: ignore[no-any-return]
        if timeout and time.monotonic() >= deadline:
            deadline = begun + timeout * limits.slower_by_now()
        if time.monotonic() >= deadline:
            raise WaitTimeoutError(f"waited {deadline - begun:.3g} s for {what}; last seen: {_shown(answer)}")
        time.sleep(min(pause, max(0.0, deadline - time.monotonic())))
        pause = min(LONGEST_PAUSE, pause * 1.5)


def _note(used: float, limit: float, what: str) -> None:
    """Says which wait was nearly too long, where somebody asks for it (`make flakes`)."""
    folder = os.environ.get(WAITS_VARIABLE)
    if not folder or used <= NEAR * limit:
        return
    caller = next((f for f in traceback.extract_stack()[::-1] if Path(f.filename).name.startswith("test_")), None)
    line = f"{caller.filename}:{caller.lineno}" if caller else "a fixture"
    note = {"share": used / limit, "limit": limit, "line": line, "what": what}
    with (Path(folder) / f"{os.getpid()}.jsonl").open("a") as sink:
        sink.write(json.dumps(note) + "\n")


def always(predicate: Callable[[], Any], seconds: float, what: str) -> None:
    """Raises WaitTimeoutError the first time that `predicate` does not hold."""
    deadline = time.monotonic() + seconds
    while True:
        answer = predicate()
        if not answer:
            raise WaitTimeoutError(f"{what} did not hold for {seconds:g} s; seen: {_shown(answer)}")
        if time.monotonic() >= deadline:
            return
        time.sleep(min(LONGEST_PAUSE, max(0.0, deadline - time.monotonic())))


def _shown(answer: Any) -> str:
    seen = answer.seen if isinstance(answer, Unmet) else answer
    text = seen if isinstance(seen, str) else json.dumps(seen, indent=1, default=repr)
    return text if len(text) <= LONGEST_STATE else f"{text[:LONGEST_STATE]} ... ({len(text)} characters)"
