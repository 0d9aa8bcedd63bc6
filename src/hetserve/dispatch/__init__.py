"""Which instance serves which query, and when: one module per policy. Policies load late: kernels need numba."""

from __future__ import annotations

import inspect
from typing import Protocol, cast

from hetserve.dispatch.interface import Policy
from hetserve.dispatch.latency import LatencyModel
from hetserve.registry.dispatch_policies import DISPATCH_POLICIES


class PolicyFactory(Protocol):
    def __call__(self, **settings: float) -> Policy:
        """Every setting has a default. Raises ValueError for one out of range."""
        ...


def make_policy(name: str, **settings: float) -> Policy:
    """Policy of this name; settings: of its factory, for example xi of `kairos`.

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
    "LatencyModel",
    "Policy",
    "PolicyFactory",
    "make_policy",
]
