"""Which instance serves which query, and when: one module per policy, one interface.

Policies are imported by name and late: their kernels load numba.
"""

from __future__ import annotations

import inspect
from typing import Protocol, cast

from hetserve.dispatch.interface import Decision, Dispatch, Policy, Query, Snapshot, Worker
from hetserve.dispatch.latency import LatencyModel
from hetserve.registry.dispatch_policies import DISPATCH_POLICIES


class PolicyFactory(Protocol):
    """What the function of a dispatch policy is; `hetserve.registry.dispatch_policies` lists them."""

    def __call__(self, **settings: float) -> Policy:
        """The policy. Raises ValueError for a setting out of range; each setting has a default."""
        ...


def make_policy(name: str, **settings: float) -> Policy:
    """Policy of this name; settings are the keyword arguments of its factory, for example xi of `kairos`.

    Raises ValueError for an unknown name or a setting out of range, TypeError for an unknown setting.
    """
    if name not in DISPATCH_POLICIES:
        raise ValueError(f"unknown dispatch policy {name!r}; there are: {', '.join(DISPATCH_POLICIES.names)}")
    make = cast("PolicyFactory", DISPATCH_POLICIES[name].load())
    known = inspect.signature(make).parameters
    for unknown in sorted(settings.keys() - known.keys()):
        there = f"there are: {', '.join(known)}" if known else "it has none"
        raise TypeError(f"dispatch policy {name} has no setting {unknown}; {there}")
    return make(**settings)


__all__ = [
    "Decision",
    "Dispatch",
    "LatencyModel",
    "Policy",
    "PolicyFactory",
    "Query",
    "Snapshot",
    "Worker",
    "make_policy",
]
