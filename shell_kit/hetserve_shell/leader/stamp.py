"""The text that a new leader writes to an object, so that requests from before are refused."""

from __future__ import annotations

import hashlib


def stamp_of(identity: str, term: int, secret: str) -> str:
    """A label's value for a term: of 32 characters, however long the identity is, and never written before.

    An identity is of one process and a term is won once. Events expose both to tenants, and an object that carries the
    stamp passes for fenced; `secret` stops a tenant from forging it. Who copies the stamp from a fenced object writes
    later than all that an earlier leader can know.
    """
    return hashlib.blake2b(f"{identity}/{term}/{secret}".encode(), digest_size=16).hexdigest()
