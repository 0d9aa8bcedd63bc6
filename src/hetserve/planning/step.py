"""The next useful step: the least more money that raises a plan's figure noticeably."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from hetserve.planning.formatting import money_text, qps_text
from hetserve.planning.plan import NextStep, summary

NOTICEABLE: Final = 0.01
"""Share by which the bound or the capacity must rise; below it one would advise a cent for a hundredth of a query."""


@dataclass(frozen=True, slots=True)
class Step:
    """step: None where there is none, or where it is not known: a search gave up before it could tell."""

    step: NextStep | None
    known: bool = True


def step_text(step: NextStep | None, known: bool = True) -> str:
    """``next: +0.15 $/h buys +4.1 q/s of upper bound (1xa+2xb)``; what it says where there is no step.

    known: False where a search gave up before it could tell.
    """
    if step is None and not known:
        return "what a little more money buys is not known: the search gave up early"
    if step is None:
        return f"no more money buys {NOTICEABLE:.0%} more within the limits"
    # A plan that keeps dear instances since launching others weighs more may be dearer than the next one.
    extra = f"{'-' if step.extra < 0 else '+'}{money_text(abs(step.extra))}"
    of = " of upper bound" if step.figure == "bound" else ""
    gain = f"+{qps_text(step.gain)}{of} ({summary(step.counts)})"
    return f"next: {extra} buys {gain}" if step.proven else f"next: at most {extra} buys at least {gain}"
