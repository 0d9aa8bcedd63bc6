"""Which instance serves which query, and when: one module per policy. Policies load late: kernels need numba."""

from __future__ import annotations

from typing import Protocol

from hetserve.dispatch.interface import Policy
from hetserve.dispatch.latency import LatencyModel
from hetserve.registry.dispatch_policies import DISPATCH_POLICIES
from hetserve.registry.members import make


class PolicyFactory(Protocol):
    def __call__(self, **settings: float) -> Policy:
        """Every setting has a default. Raises ValueError for one out of range."""
        ...


def make_policy(name: str, **settings: float) -> Policy:
    """Policy of this name; settings: of its factory, for example xi of `kairos`.

    Raises ValueError for an unknown name or a setting out of range, TypeError for an unknown setting.
    """
    made: Policy = make(DISPATCH_POLICIES, "dispatch policy", name, settings)
    return made


__all__ = [
    "LatencyModel",
    "Policy",
    "PolicyFactory",
    "make_policy",
]
