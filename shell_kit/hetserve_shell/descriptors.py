"""How many files and connections the process may have open, and who may take how many of them.

Without a descriptor nothing can be accepted and nobody be called, the API server neither: so what strangers may open
is bounded together, below what the process may have, and what is left is its own.
"""

from __future__ import annotations

import logging
import resource
from collections.abc import Mapping
from contextlib import suppress
from typing import Final

log = logging.getLogger(__name__)

OWN: Final = 384
"""Descriptors of a component's own: 100 and more connections to the API server, files, what is accepted in one turn
of the loop before those worth less are closed."""


def allotted(wanted: Mapping[str, int]) -> dict[str, int]:
    """How many connections each port may have in this process, whose limit is raised for it as far as it goes."""
    return shared(wanted, limit=raise_limit())


def raise_limit() -> int:
    """Raise the soft limit of open descriptors to the hard one, as far as the system lets us; returns what holds."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        with suppress(OSError, ValueError):  # macOS names a hard limit that it does not grant
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
            soft = hard
    return soft


def shared(wanted: Mapping[str, int], *, limit: int) -> dict[str, int]:
    """How many connections each port may have, at most what it wants, where the process may open `limit` in all.

    Where not all fits beside what is the component's own, each gets the same part of what it wants, and at least one.
    Of a limit that is not even twice what is our own, half is.
    """
    every = sum(wanted.values())
    left = every if limit == resource.RLIM_INFINITY else min(limit - min(OWN, limit // 2), every)
    if left == every:
        return dict(wanted)
    shares = {port: max(1, count * left // every) for port, count in wanted.items()}
    while sum(shares.values()) > max(left, len(shares)):  # those that have one instead of none cost the others
        shares[max(shares, key=lambda port: (shares[port], port))] -= 1
    words = ", ".join(f"{port} {share} of {wanted[port]}" for port, share in shares.items())
    log.warning("the process may open only %d descriptors, so connections are fewer: %s", limit, words)
    return shares
