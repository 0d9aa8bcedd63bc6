"""Shares the process's file descriptors among its ports (decision 0032)."""

from __future__ import annotations

import logging
import resource
from collections.abc import Mapping
from contextlib import suppress
from typing import Final

log = logging.getLogger(__name__)

OWN: Final = 384
"""Descriptors kept for the API server, files, and connections accepted in one turn."""


def allotted(wanted: Mapping[str, int]) -> dict[str, int]:
    """Raises the limit and returns the connections of each port."""
    return shared(wanted, limit=raise_limit())


def raise_limit() -> int:
    """Raises the soft limit of descriptors to the hard one if possible; returns the limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        with suppress(OSError, ValueError):  # macOS may refuse its own hard limit
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
            soft = hard
    return soft


def shared(wanted: Mapping[str, int], *, limit: int) -> dict[str, int]:
    """Connections of each port if the process may open `limit` descriptors.

    If not all fit beside OWN (or half of a small limit), each port gets the same share, at least one.
    """
    every = sum(wanted.values())
    left = every if limit == resource.RLIM_INFINITY else min(limit - min(OWN, limit // 2), every)
    if left == every:
        return dict(wanted)
    shares = {port: max(1, count * left // every) for port, count in wanted.items()}
    while sum(shares.values()) > max(left, len(shares)):  # `max` rounded up
        shares[max(shares, key=lambda port: (shares[port], port))] -= 1
    words = ", ".join(f"{port} {share} of {wanted[port]}" for port, share in shares.items())
    log.warning("the process may open only %d descriptors, so connections are fewer: %s", limit, words)
    return shares
