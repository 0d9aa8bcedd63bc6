"""A process that can never lead again may be forgotten: the cluster and the leader meet the same states without it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Mapping
from dataclasses import replace

import pytest

from harness import limits
from modelcheck.canon import key, parts
from modelcheck.changes import retire_followers
from modelcheck.explore import explore
from modelcheck.scopes import ALL, ALONE, CHANGE, END, FAILOVER, LAPSE, ONE_GPU, ONE_NODE, UNFENCED
from modelcheck.trace import story
from modelcheck.truth import Scope, Shape
from modelcheck.world import World

pytestmark = pytest.mark.deep

ONE: Shape = Shape((ALONE,), {"n0": 1})

SCOPES = (
    Scope("2 pods, 1 GPU, a change of leader", ONE_GPU, CHANGE, 0, processes=2),
    Scope("1 pod, 2 GPUs, a fault beside the change", Shape((ALONE,), ONE_NODE), FAILOVER, 1, processes=2),
    Scope("1 pod, 1 GPU, any fault beside the change", ONE, {**ALL, **CHANGE}, 1, processes=2),
    Scope("1 pod, 1 GPU, a lapse and an end", ONE, {**LAPSE, **END}, 0, processes=2),
    Scope("1 pod, 1 GPU, two changes", ONE, {"promote": 2}, 0, processes=2),
)

LARGEST = SCOPES[2]
TIERED = [pytest.param(scope, marks=pytest.mark.deep) if scope is LARGEST else scope for scope in SCOPES]

Spent = Mapping[str, int]


def reached(scope: Scope) -> dict[Hashable, list[Spent]]:
    """What the cluster and the process that leads look like in all states, and the faults spent by then."""
    found: dict[Hashable, list[Spent]] = defaultdict(list)

    def visit(world: World) -> None:
        seen = world.copy()
        retire_followers(seen)
        seen.requests = [request for request in seen.requests if request.who not in seen.retired]
        seen.spent = {}
        found[key(parts(seen))].append(world.spent)

    finding = explore(scope, visit=visit)
    assert finding.wrong is None, story(finding)
    return found


def within(few: Spent, many: Spent) -> bool:
    return all(count <= many.get(kind, 0) for kind, count in few.items())


@pytest.mark.timeout(limits.LONG_TEST)
@pytest.mark.parametrize("scope", TIERED, ids=lambda scope: scope.name)
def test_forgetting_who_never_leads_again_loses_no_state_of_the_cluster_and_its_leader(scope: Scope) -> None:
    followed, forgotten = reached(scope), reached(replace(scope, retires=True))

    lost = [
        there
        for there, after in followed.items()
        if not all(any(within(fewer, spent) for fewer in forgotten.get(there, ())) for spent in after)
    ]

    assert len(followed) > 100, "a scope in which hardly anything happens proves nothing"
    assert not lost, f"{len(lost)} of {len(followed)} states are never seen, first {lost[0]}"


def test_two_leaders_without_the_fence_break_a_law_where_the_old_one_is_forgotten_too() -> None:
    assert explore(replace(UNFENCED, retires=True)).wrong is not None, "a bind of the forgotten leader must still land"


def test_a_fingerprint_equals_the_one_computed_anew() -> None:
    def visit(world: World) -> None:
        anew = world.copy()
        anew.told = []
        assert key(parts(anew)) == key(parts(world))

    assert explore(SCOPES[3], visit=visit).complete
