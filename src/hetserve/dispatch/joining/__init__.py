"""Which variant serves how many queries together: one module per family of rules. Policies load late."""

from __future__ import annotations

from typing import Protocol

from hetserve.dispatch.joining.interface import JoiningPolicy, Variant, VariantModel
from hetserve.registry.joining_policies import JOINING_POLICIES
from hetserve.registry.members import make


class JoiningFactory(Protocol):
    def __call__(self, **settings: float | str) -> JoiningPolicy:
        """Every setting has a default, but for a variant's name. Raises ValueError for one out of range."""
        ...


def make_joining_policy(name: str, **settings: float | str) -> JoiningPolicy:
    """Joining policy of this name; settings: of its factory.

    Raises ValueError for an unknown name or a setting out of range, TypeError for an unknown or missing setting.
    """
    made: JoiningPolicy = make(JOINING_POLICIES, "joining policy", name, settings)
    return made


__all__ = ["JoiningFactory", "JoiningPolicy", "Variant", "VariantModel", "make_joining_policy"]
