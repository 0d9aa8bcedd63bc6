"""What happens between queries and instances, decided and simulated in one place. Compiled code loads late.

Instances of several services may share GPUs: while one serves, its busy neighbours slow it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hetserve.serving.services import UNMEASURED, ComputeUse, GpuInstance, Service, coefficient
from hetserve.serving.system import System

if TYPE_CHECKING:
    from hetserve.serving.session import Outcomes, Session

_LATE = ("Outcomes", "Session")


def __getattr__(name: str) -> object:
    if name not in _LATE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from hetserve.serving import session  # noqa: PLC0415

    return getattr(session, name)


__all__ = [
    "UNMEASURED",
    "ComputeUse",
    "GpuInstance",
    "Outcomes",
    "Service",
    "Session",
    "System",
    "coefficient",
]
