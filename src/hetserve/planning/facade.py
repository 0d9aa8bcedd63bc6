"""One way in: the planner that fits the objective, its plan checked independently before anyone applies it."""

from __future__ import annotations

from typing import Final

from hetserve.planning.plan import Plan
from hetserve.planning.problem import Problem

PLANNERS: Final = ("kairos", "ilp")


def plan(problem: Problem, planner: str | None = None) -> Plan:
    """Decide for one service; planner: one of PLANNERS, None: kairos for MaxThroughput, ilp for MinCost.

    Never raises for a problem that a user made: what cannot be planned comes back with feasible=False, the
    reason and a message. Raises ValueError for an unknown planner.
    """
    raise NotImplementedError
