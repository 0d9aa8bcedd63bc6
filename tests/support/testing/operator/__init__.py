"""The operator without watches and network, over an API server in memory: for tests, ours and those of users."""

from __future__ import annotations

from testing.kit.apiserver import path_of
from testing.operator.controllers import Controllers
from testing.operator.planning import PlanningInLoop, PlansAtOnce, decided, judged
from testing.operator.simulated_operator import STATUSES, CrashError, SimulatedOperator

__all__ = [
    "STATUSES",
    "Controllers",
    "CrashError",
    "PlanningInLoop",
    "PlansAtOnce",
    "SimulatedOperator",
    "decided",
    "judged",
    "path_of",
]
