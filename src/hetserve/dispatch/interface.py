"""A dispatch policy: a compiled kernel over arrays (`hetserve.dispatch.kernel`), for the simulator and a router.

Tests compare it with a plain reference, in `tests/support/testing/plain_dispatch.py`.

It is called after every arrival, completion and wake-up, when queries wait and an instance joins, drains or fails, and
again as long as it dispatches or drops something. A dispatch to a busy worker queues there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hetserve.dispatch.kernel import Kernel

ScratchSizes = Callable[[int, int], tuple[int, int]]


def no_scratch(workers: int, queries: int) -> tuple[int, int]:  # noqa: ARG001
    return 0, 0


@dataclass(frozen=True, slots=True)
class Policy:
    """One query-distribution policy.

    parameters: for example xi. scratch: (floats, integers) for so many workers and queries. acts_when_all_busy: whether
    it may send or drop queries, or ask to be woken, while no instance is idle; else it is not called then.
    """

    name: str
    kernel: Kernel
    parameters: tuple[float, ...] = ()
    scratch: ScratchSizes = no_scratch
    acts_when_all_busy: bool = True
