"""The next useful step: the least more money that raises a plan's figure noticeably."""

from __future__ import annotations

from typing import Final

from hetserve.planning.plan import NextStep, summary
from hetserve.planning.wording import money_text, qps_text

NOTICEABLE: Final = 0.01
"""Share by which the bound or the capacity must rise; below it one would advise a cent for a hundredth of a query."""


def step_text(step: NextStep | None) -> str:
    """``next: +0.15 $/h buys +4.1 q/s (1xa+2xb)``; what it says where there is no step."""
    if step is None:
        return f"no more money buys {NOTICEABLE:.0%} more within the limits"
    return f"next: +{money_text(step.extra)} buys +{qps_text(step.gain)} ({summary(step.counts)})"
