"""Kairos's matching on scenes small enough to solve by hand."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from hetserve.dispatch import make_policy
from testing.deciding import DispatchSnapshot, Worker, decide
from testing.dispatching import latency_model, snapshot
from testing.plain_dispatch import plainly

BASE, AUXILIARY = 0, 1
IDLE_BASE, IDLE_AUXILIARY = Worker(BASE), Worker(AUXILIARY)


def busy(kind: int, until: float) -> Worker:
    return Worker(kind, busy=True, free_at=until)


@dataclass(frozen=True)
class Case:
    scene: DispatchSnapshot
    sent: set[tuple[int, int]]


# Means at batches 1, 2, 5, 10: base 0.2 0.25 0.4 0.6 (C = 1), auxiliary 0.25 0.45 0.9 1.6 (C = 0.375); SLO 1 s.
CASES = {
    "one query goes where weighted time is least: the auxiliary, 0.375 x 0.25 against 0.2": Case(
        snapshot([(0, 1)], [IDLE_BASE, IDLE_AUXILIARY]), {(100, 1)}
    ),
    "a batch that is late on the auxiliary goes to the base": Case(
        snapshot([(0, 10)], [IDLE_BASE, IDLE_AUXILIARY]), {(100, 0)}
    ),
    "of two, the one with the higher speed-up takes the base": Case(
        snapshot([(0, 5), (0, 1)], [IDLE_BASE, IDLE_AUXILIARY]), {(100, 0), (101, 1)}
    ),
    "a large batch waits for the base that is free soon rather than be late now": Case(
        snapshot([(0, 10)], [busy(BASE, 0.1), IDLE_AUXILIARY]), set()
    ),
    "a batch that must be late anyway is sent to the idle instance: Eq. 7 forces a pair, Eq. 8 prices it": Case(
        snapshot([(-0.9, 10)], [busy(BASE, 3.0), IDLE_AUXILIARY]), {(100, 1)}
    ),
    "0.97 of the SLO is in time": Case(snapshot([(-0.37, 10)], [IDLE_BASE, busy(AUXILIARY, 9.0)]), {(100, 0)}),
    "an overdue instance is as good as free, but nothing is sent to it": Case(
        snapshot([(0, 1)], [IDLE_BASE, busy(AUXILIARY, -5.0)]), set()
    ),
    "no instance is idle": Case(snapshot([(0, 1)], [busy(BASE, 0.1)]), set()),
    "nothing waits": Case(snapshot([], [IDLE_BASE]), set()),
    "the window holds two queries per instance: a third is not seen, however cheap": Case(
        snapshot([(0, 5), (0, 10), (0, 1)], [IDLE_BASE]), {(100, 0)}
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
@pytest.mark.parametrize("compiled", [True, False], ids=["compiled", "plain"])
def test_matching(case: Case, compiled: bool) -> None:
    policy = make_policy("kairos")
    decision = decide(policy, case.scene) if compiled else plainly(policy, case.scene)
    assert {(d.query, d.worker) for d in decision.dispatches} == case.sent
    assert decision.drops == ()


def test_xi_decides_what_counts_as_in_time() -> None:
    # 0.39 s waited + 0.6 s on the base = 0.99 SLO: late at xi = 0.98, and then the cheapest late pair is the auxiliary.
    scene = snapshot([(-0.39, 10)], [IDLE_BASE, IDLE_AUXILIARY])
    assert [d.worker for d in decide(make_policy("kairos"), scene).dispatches] == [1]
    assert [d.worker for d in decide(make_policy("kairos", xi=1.0), scene).dispatches] == [0]


def test_the_window_is_a_setting() -> None:
    scene = snapshot([(0, 5), (0, 10), (0, 1)], [IDLE_BASE])
    assert [d.query for d in decide(make_policy("kairos", window=3.0), scene).dispatches] == [102]


def test_a_type_that_cannot_serve_the_batch_is_never_sent_it() -> None:
    model = latency_model((0.2, 0.25, 0.4, 0.6), (0.25, 0.45, 0.9, float("inf")))
    scene = snapshot([(-5.0, 10)], [busy(BASE, 9.0), IDLE_AUXILIARY], model)
    assert decide(make_policy("kairos"), scene).dispatches == ()


@pytest.mark.parametrize("setting", [{"xi": 0.0}, {"xi": 1.1}, {"penalty": 0.0}, {"window": 0.5}])
def test_settings_out_of_range_are_refused(setting: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="need 0 < xi <= 1"):
        make_policy("kairos", **setting)
