"""Which instance serves which query, and when: one module per policy, one interface.

Policies are imported by name and late: their kernels load numba.
"""

from __future__ import annotations

from importlib import import_module
from typing import Final, cast

from hetserve.dispatch.interface import Dispatch, DispatchDecision, DispatchSnapshot, Policy, Query, Worker
from hetserve.dispatch.latency import LatencyModel

POLICIES: Final = ("clockwork_earliest", "clockwork_least_wait", "fcfs", "hetserve", "kairos", "threshold")
# Policies that are variants of one module: (module, factory).
_FACTORIES: Final = {
    "clockwork_earliest": ("clockwork", "earliest_completion"),
    "clockwork_least_wait": ("clockwork", "least_wait"),
}
DEFAULT_POLICY: Final = "hetserve"


def make_policy(name: str, **settings: float) -> Policy:
    """Policy of this name; settings are the keyword arguments of its factory, for example xi of `kairos`.

    Raises ValueError for an unknown name, TypeError for an unknown setting.
    """
    if name not in POLICIES:
        raise ValueError(f"unknown dispatch policy {name!r}; there are: {', '.join(POLICIES)}")
    module, factory = _FACTORIES.get(name, (name, "policy"))
    make = getattr(import_module(f"hetserve.dispatch.{module}"), factory)
    return cast("Policy", make(**settings))


__all__ = [
    "DEFAULT_POLICY",
    "POLICIES",
    "Dispatch",
    "DispatchDecision",
    "DispatchSnapshot",
    "LatencyModel",
    "Policy",
    "Query",
    "Worker",
    "make_policy",
]
