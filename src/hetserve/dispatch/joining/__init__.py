"""Which variant serves how many queries together: one module per family of rules. Policies load late."""

from __future__ import annotations

import inspect
from typing import Protocol, cast

from hetserve.dispatch.joining.interface import JoiningPolicy, Variant, VariantModel
from hetserve.registry.joining_policies import JOINING_POLICIES


class JoiningFactory(Protocol):
    def __call__(self, **settings: float | str) -> JoiningPolicy:
        """Every setting has a default, but for a variant's name. Raises ValueError for one out of range."""
        ...


def make_joining_policy(name: str, **settings: float | str) -> JoiningPolicy:
    """Joining policy of this name; settings: of its factory.

    Raises ValueError for an unknown name or a setting out of range, TypeError for an unknown or missing setting.
    """
    if name not in JOINING_POLICIES:
        raise ValueError(f"unknown joining policy {name!r}; there are: {', '.join(JOINING_POLICIES.names)}")
    make = cast("JoiningFactory", JOINING_POLICIES[name].load())
    known = inspect.signature(make).parameters
    for unknown in sorted(settings.keys() - known.keys()):
        there = f"there are: {', '.join(known)}" if known else "it has none"
        raise TypeError(f"joining policy {name} has no setting {unknown}; {there}")
    return make(**settings)


__all__ = ["JoiningFactory", "JoiningPolicy", "Variant", "VariantModel", "make_joining_policy"]
