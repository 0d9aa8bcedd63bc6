"""The operator without watches and network, over an API server in memory: for tests, ours and those of users."""

from __future__ import annotations

from hetserve_operator.testing.controllers import Controllers
from hetserve_operator.testing.planning import PlanningInLoop, PlansAtOnce, decided, judged
from hetserve_operator.testing.simulated_operator import STATUSES, CrashError, SimulatedOperator
from hetserve_shell.testing.apiserver import path_of

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
