"""Turns of processes: one alone or several side by side, and what the first process of a run does for all."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from harness import turns
from harness.turns import first_of_run, turn


@contextmanager
def waiting(lock: Path, *, alone: bool) -> Iterator[threading.Event]:
    """Somebody else who asks for a turn; set once they have it. A lock is of the open file, so a thread will do."""
    got, end = threading.Event(), threading.Event()

    def ask() -> None:
        with turn(lock, alone=alone):
            got.set()
            assert end.wait(10)

    other = threading.Thread(target=ask)
    other.start()
    try:
        yield got
    finally:
        end.set()
        other.join(10)


@pytest.mark.parametrize(("mine", "theirs"), [(True, True), (True, False), (False, True)])
def test_who_has_it_alone_keeps_the_others_waiting(tmp_path: Path, mine: bool, theirs: bool) -> None:
    lock = tmp_path / "lock"
    held = turn(lock, alone=mine)
    held.__enter__()
    with waiting(lock, alone=theirs) as got:
        assert not got.wait(0.05)
        held.__exit__(None, None, None)
        assert got.wait(10)


def test_several_have_it_side_by_side(tmp_path: Path) -> None:
    lock = tmp_path / "lock"
    with turn(lock, alone=False), waiting(lock, alone=False) as got:
        assert got.wait(10)


def test_a_turn_ends_with_an_error(tmp_path: Path) -> None:
    lock = tmp_path / "lock"
    with pytest.raises(KeyError), turn(lock):
        raise KeyError
    with waiting(lock, alone=True) as got:
        assert got.wait(10)


def test_one_process_of_each_run_is_the_first(tmp_path: Path) -> None:
    def asked(run: str) -> bool:
        with first_of_run(tmp_path / "mark", run) as first:
            return first

    assert [asked(run) for run in ("a", "a", "b", "b", "a")] == [True, False, True, False, True]


def test_who_fails_as_the_first_leaves_that_to_the_next(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    with pytest.raises(KeyError), first_of_run(mark, "a"):
        raise KeyError
    with first_of_run(mark, "a") as first:
        assert first


def test_who_waits_in_vain_is_told_for_what(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "LIMIT", 0.0)
    monkeypatch.setattr(turns, "PAUSE", 0.001)
    lock = tmp_path / "lock"
    with turn(lock), pytest.raises(TimeoutError, match=r"lock for 0 s"), turn(lock):
        pass
