"""The joining policies."""

from __future__ import annotations

from typing import Final

from hetserve.registry.members import Member, Registry

JOINING_POLICIES: Final = Registry(
    Member(
        name="max-batch",
        where="hetserve.dispatch.joining.superserve:max_batch",
        about="SuperServe's MaxBatch: as many queries as can be in time, then the most accurate variant",
    ),
    Member(
        name="fang-fixed",
        where="hetserve.dispatch.joining.fang:fixed",
        about="Fang et al.: all that waits, at most 32 items",
    ),
    Member(
        name="fang",
        where="hetserve.dispatch.joining.fang:heuristic",
        about="Fang et al.: the least size that keeps up, then the variant whose answers are worth most",
    ),
    Member(
        name="fang-rl",
        where="hetserve.dispatch.joining.fang_rl:learned",
        about="Fang et al.: a trained network chooses size and variant, or waits; `fang` for another fleet",
    ),
)
"""Their functions are `hetserve.dispatch.joining.JoiningFactory`."""
