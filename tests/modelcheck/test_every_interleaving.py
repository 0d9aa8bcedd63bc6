"""Every state of these scopes keeps the laws; `make modelcheck` prints how many there are."""

from __future__ import annotations

import pytest

from harness import limits
from modelcheck.explore import explore
from modelcheck.scopes import QUICK, SCOPES, UNFENCED
from modelcheck.trace import story
from modelcheck.truth import Scope

TIERED = [scope if scope in QUICK else pytest.param(scope, marks=pytest.mark.deep) for scope in SCOPES]


@pytest.mark.timeout(limits.LONGEST_TEST)  # a minute of processor time, which other tests beside it may share
@pytest.mark.parametrize("scope", TIERED, ids=lambda scope: scope.name)
def test_no_interleaving_breaks_a_law(scope: Scope) -> None:
    finding = explore(scope)

    assert finding.wrong is None, story(finding)
    assert finding.complete
    assert finding.states > 1000, "a scope in which hardly anything happens proves nothing"


def test_two_leaders_without_the_fence_break_a_law() -> None:
    assert explore(UNFENCED).wrong is not None, "the model does not see what the fence is for"
