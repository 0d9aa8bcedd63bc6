"""A processor for the extender alone: as on a cluster, where it does not run beside etcd and the API server."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def one_apart() -> Iterator[int]:
    """Keep this process, and what it starts in the block, off one processor; yields that processor's number.

    Raises RuntimeError where there is only one.
    """
    ours = os.sched_getaffinity(0)
    if len(ours) < 2:
        raise RuntimeError("a processor of its own for the extender needs a machine with two")
    apart = max(ours)
    os.sched_setaffinity(0, ours - {apart})
    try:
        yield apart
    finally:
        os.sched_setaffinity(0, ours)
