"""The work queue hands out what a plain list of due times would."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from hetserve_operator.workqueue import IN_A_ROW, DelayQueue, Key

KEYS = [Key("ns", name) for name in "abcd"]
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.sampled_from(KEYS), st.integers(0, 6)),
        st.tuples(st.just("urge"), st.sampled_from(KEYS), st.integers(0, 6)),
        st.tuples(st.just("pop"), st.integers(0, 3), st.none()),
        st.tuples(st.just("done"), st.sampled_from(KEYS), st.none()),
    ),
    max_size=60,
)


@given(STEPS)
def test_the_first_due_key_that_is_not_in_work_comes_next(steps: list[tuple[str, Any, Any]]) -> None:
    queue, now, in_a_row = DelayQueue(), 0.0, 0
    due: dict[Key, float] = {}
    working: set[Key] = set()
    urgent: set[Key] = set()
    for kind, what, delay in steps:
        if kind in {"add", "urge"}:
            queue.add(what, now + delay, urgent=kind == "urge")
            due[what] = min(due.get(what, now + delay), now + delay)
            urgent |= {what} if kind == "urge" else set()
        elif kind == "done":
            queue.done(what)
            working.discard(what)
        else:
            now += what
            ready = sorted((at, key) for key, at in due.items() if key not in working and at <= now)
            first = [key for _, key in ready if key in urgent]
            others = [key for _, key in ready if key not in urgent]
            goes_first = bool(first) and (not others or in_a_row < IN_A_ROW)
            expected = next(iter(first if goes_first else others), None)
            assert queue.pop(now) == expected
            if expected is not None:
                in_a_row = in_a_row + 1 if goes_first and others else 0
                del due[expected]
                urgent.discard(expected)
                working.add(expected)
        waiting = [at for key, at in due.items() if key not in working]
        assert queue.next_due() == (min(waiting) if waiting else None)
        assert len(queue) == len(due)
