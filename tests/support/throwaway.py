"""One throw-away member of each family, and the command line that knows them: `python throwaway.py COMMAND ...`."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from hetserve.registry.dispatch_policies import DISPATCH_POLICIES, DispatchMember
from hetserve.registry.placement_policies import PLACEMENT_POLICIES, PlacementMember
from hetserve.registry.planners import PLANNERS, SEARCH_METHODS, PlannerMember, SearchMember
from testing.registered import extended

if TYPE_CHECKING:
    from hetserve.dispatch import Policy
    from hetserve.placement.ledger.index import GpuIndex, Numbers
    from hetserve.placement.pods.requests import GpuRequest
    from hetserve.planning import Plan, Problem
    from hetserve.planning.plan import Evaluator
    from hetserve.planning.search.session import SearchSession

PLANNER: Final = PlannerMember(
    name="one-type", where="throwaway:plan_one_type", about="takes one type", evaluates=True, seeded=True
)
DISPATCH: Final = DispatchMember(
    name="queue_head", where="throwaway:queue_head", about="serves the head", compared=True
)
PLACEMENT: Final = PlacementMember(
    name="FewestFree", where="throwaway:fewest_free", about="the least free memory", best_for="a test"
)
SEARCH: Final = SearchMember(name="first-one", where="throwaway:try_one", about="tries one configuration")


def plan_one_type(problem: Problem, _evaluate: Evaluator | None, _seed: int | None) -> Plan:
    """The best single type, under another name."""
    from hetserve.planning.baselines.homogeneous import plan_homogeneous

    return dataclasses.replace(plan_homogeneous(problem), planner=PLANNER.name)


def queue_head() -> Policy:
    """First come, first served, under another name."""
    from hetserve.dispatch import make_policy

    return dataclasses.replace(make_policy("fcfs"), name=DISPATCH.name)


def fewest_free(index: GpuIndex, _request: GpuRequest) -> Numbers:
    """A rank for each GPU."""
    ranks: Numbers = (1 << 28) - index.free
    return ranks


def try_one(session: SearchSession, _seed: int) -> None:
    """Value the first configuration."""
    session.value(0)


@contextmanager
def registered() -> Iterator[None]:
    """All of them, inside the `with` block."""
    with (
        extended(PLANNERS, PLANNER),
        extended(DISPATCH_POLICIES, DISPATCH),
        extended(PLACEMENT_POLICIES, PLACEMENT),
        extended(SEARCH_METHODS, SEARCH),
    ):
        yield


if __name__ == "__main__":
    with registered():
        from hetserve.cli import main

        main()
