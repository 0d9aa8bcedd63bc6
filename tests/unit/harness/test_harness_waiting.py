"""Failed waits name their condition; values and resources merge correctly."""

from __future__ import annotations

import time

import pytest

from harness import limits
from harness.waiting import Unmet, WaitTimeoutError, wait_until


def test_a_wait_that_times_out_names_what_and_what_was_seen_last() -> None:
    with pytest.raises(WaitTimeoutError, match=r"waited 0 s for 3 pods to run; last seen: .*\n.*\"Pending\""):
        wait_until(lambda: Unmet(["Pending"]), 0, "3 pods to run")


def test_a_wait_goes_on_where_the_machine_has_become_slower(monkeypatch: pytest.MonkeyPatch) -> None:
    factors = iter([5.0, 5.0, 5.0])
    monkeypatch.setattr(limits, "slower_by_now", lambda: next(factors, 1.0))
    short, asked = 0.1, []

    def late() -> bool:
        asked.append(time.monotonic())
        return asked[-1] - asked[0] > 3 * short

    assert wait_until(late, short, "what comes late")
    with pytest.raises(WaitTimeoutError):
        wait_until(lambda: False, short, "what never comes")
