"""Deterministic simulation of queries x policy x configuration. Compiled code loads late."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hetserve.registry.choices import Arrivals
from hetserve.simulation.criteria import Confident, Criterion, PerSeed, steady_per_seed
from hetserve.simulation.stability import Backlog, fewest_queries, grows
from hetserve.simulation.system import System
from hetserve.simulation.workload import Recording, Workload, draw_workload, read_recording, record_workload

if TYPE_CHECKING:
    from hetserve.simulation.allowable import Allowable, allowable_throughput
    from hetserve.simulation.report import Decile, RunReport, TypeUse
    from hetserve.simulation.run import PolicyContractError, simulate
    from hetserve.simulation.trial import RateTrial

_LATE = {
    "Allowable": "allowable",
    "RateTrial": "trial",
    "allowable_throughput": "allowable",
    "Decile": "report",
    "RunReport": "report",
    "TypeUse": "report",
    "PolicyContractError": "run",
    "simulate": "run",
}


def __getattr__(name: str) -> object:
    if name not in _LATE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module  # noqa: PLC0415

    return getattr(import_module(f"{__name__}.{_LATE[name]}"), name)


__all__ = [
    "Allowable",
    "Arrivals",
    "Backlog",
    "Confident",
    "Criterion",
    "Decile",
    "PerSeed",
    "PolicyContractError",
    "RateTrial",
    "Recording",
    "RunReport",
    "System",
    "TypeUse",
    "Workload",
    "allowable_throughput",
    "draw_workload",
    "fewest_queries",
    "grows",
    "read_recording",
    "record_workload",
    "simulate",
    "steady_per_seed",
]
