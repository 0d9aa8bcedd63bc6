"""A registry with one more member, for a while."""

from __future__ import annotations

from contextlib import AbstractContextManager
from unittest.mock import patch

from hetserve.registry.members import M, Registry


def extended(registry: Registry[M], member: M) -> AbstractContextManager[object]:
    """One more member, the last one, inside the `with` block."""
    return patch.dict(registry._members, {member.name: member})
