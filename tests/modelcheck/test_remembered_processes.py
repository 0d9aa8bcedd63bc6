"""What a process did once is not done again: that must find the same states, steps and verdicts as doing it."""

from __future__ import annotations

import pytest

from modelcheck.explore import Finding, explore
from modelcheck.scopes import (
    ALONE,
    EDITED,
    END,
    FAILOVER,
    HAND,
    LAPSE,
    ONE_GPU,
    ONE_NODE,
    ONE_POD,
    OTHER,
    SMALL,
    TWO_NODES,
)
from modelcheck.truth import Scope, Shape

pytestmark = pytest.mark.deep

SCOPES = (
    Scope("1 pod, any fault or edit", Shape((ALONE,), ONE_NODE), EDITED, 1),
    Scope("2 equal pods, 1 GPU, a lost request", ONE_GPU, {"lose": 1}, 1),
    Scope("2 pods that share a GPU", Shape((SMALL, OTHER), {"n0": 1}), {}, 0),
    Scope("2 processes, a change of leader", ONE_POD, {"promote": 1}, 0, processes=2),
    Scope("2 processes, a lost request beside the change", ONE_POD, {"promote": 1, "lose": 1}, 1, 2, retires=True),
    Scope("2 processes, a lapse and an end", ONE_POD, {**LAPSE, **END}, 0, processes=2, retires=True),
    Scope("2 processes without the fence", Shape((ALONE, ALONE), {"n0": 1}), FAILOVER, 1, processes=2, fenced=False),
)

LARGER = (
    Scope("2 pods that share, an edit or a lost request", Shape((SMALL, OTHER), {"n0": 1}), {**HAND, "lose": 1}, 1),
    Scope("2 equal pods, a lost request", Shape((ALONE, ALONE), TWO_NODES), {"lose": 1}, 1),
    Scope("2 processes, a fault beside the change", Shape((ALONE,), ONE_NODE), {"promote": 1, "lose": 1}, 1, 2),
    Scope("2 processes, two ends", ONE_POD, {"end": 2, "promote": 2}, 0, processes=2, retires=True),
)

TIERED = [*SCOPES, *(pytest.param(scope, marks=pytest.mark.deep) for scope in LARGER)]


def told(finding: Finding) -> tuple[object, ...]:
    return finding.states, finding.transitions, finding.depth, finding.wrong, finding.trace, finding.complete


@pytest.mark.parametrize("scope", TIERED, ids=lambda scope: scope.name)
def test_a_search_that_runs_the_code_on_every_path_finds_the_same(scope: Scope) -> None:
    assert told(explore(scope)) == told(explore(scope, remember=False))
