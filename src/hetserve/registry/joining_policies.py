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
)
"""Their functions are `hetserve.dispatch.joining.JoiningFactory`."""
