"""Several services whose instances share GPUs, simulated together. Compiled code loads late.

While an instance serves, its progress is slowed by its busy neighbours; the speed changes while a query is served.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hetserve.simulation.shared.services import UNMEASURED, ComputeUse, GpuInstance, SharedService, coefficient

if TYPE_CHECKING:
    from hetserve.simulation.shared.report import ServiceLoad, SharedReport, Stretch, play, report_of
    from hetserve.simulation.shared.run import JointOutcome, JointRun

_LATE = {
    "JointOutcome": "run",
    "JointRun": "run",
    "ServiceLoad": "report",
    "SharedReport": "report",
    "Stretch": "report",
    "play": "report",
    "report_of": "report",
}


def __getattr__(name: str) -> object:
    if name not in _LATE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module  # noqa: PLC0415

    return getattr(import_module(f"{__name__}.{_LATE[name]}"), name)


__all__ = [
    "UNMEASURED",
    "ComputeUse",
    "GpuInstance",
    "JointOutcome",
    "JointRun",
    "ServiceLoad",
    "SharedReport",
    "SharedService",
    "Stretch",
    "coefficient",
    "play",
    "report_of",
]
