"""Text forms of quantities and next steps."""

from __future__ import annotations

from hetserve.base.units import format_money
from hetserve.planning.plan import NOTICEABLE, EvaluatedConfiguration, NextStep, summary


def qps_text(qps: float) -> str:
    """One decimal from 10 q/s on, three significant digits below."""
    return f"{qps:.1f} q/s" if abs(qps) >= 10 else f"{qps:.3g} q/s"


def money_text(micro: int) -> str:
    """2463000 -> ``2.463 $/h``, 300000 -> ``0.3 $/h``."""
    return f"{format_money(micro).rstrip('0').rstrip('.')} $/h"


def latency_text(seconds: float) -> str:
    """In ms below ten seconds, without an exponent: 0.35 -> ``350 ms``."""
    if seconds >= 1000:
        return f"{seconds:,.0f} s"
    return f"{seconds * 1e3:.4g} ms" if seconds < 10 else f"{seconds:.4g} s"


def share_text(share: float) -> str:
    """0.8334 -> ``83.3 %``."""
    return f"{share * 100:.3g} %"


def batches_text(first: int, last: int) -> str:
    """``batch 3``, ``batches 3 to 9``."""
    return f"batch {first}" if first == last else f"batches {first} to {last}"


def total_text(least: int, most: int | None) -> str:
    """``at least 2 and at most 5 instances in all (minInstances, maxInstances)``; one of the bounds must be there."""
    bounds = {"minInstances": f"at least {least}"} if least else {}
    if most is not None:
        bounds["maxInstances"] = f"at most {most}"
    return f"{' and '.join(bounds.values())} instances in all ({', '.join(bounds)})"


def difference_text(qps: float, cost: int, what: str) -> str:
    """Comparison with an alternative: ``5.3 q/s less bound for 0.0174 $/h more``.

    qps, cost: the alternative's minus the chosen one's. what: ``bound`` or ``capacity``.
    """
    rate = f"the same {what}" if abs(qps) < 1e-9 else f"{qps_text(abs(qps))} {'less' if qps < 0 else 'more'} {what}"
    if cost == 0:
        return f"{rate} at the same cost"
    return f"{rate} for {money_text(abs(cost))} {'less' if cost < 0 else 'more'}"


def step_text(step: NextStep | None, known: bool = True) -> str:
    """``next: +0.15 $/h buys +4.1 q/s of upper bound (1xa+2xb)``; arguments as in StepSearch."""
    if step is None and not known:
        return "what a little more money buys is not known: the search gave up early"
    if step is None:
        return f"no more money buys {NOTICEABLE:.0%} more within the limits"
    extra = f"{'-' if step.extra < 0 else '+'}{money_text(abs(step.extra))}"
    of = {"bound": " of upper bound", "ceiling": " of ceiling", "capacity": ""}[step.figure]
    gain = f"+{qps_text(step.gain)}{of} ({summary(step.counts)})"
    return f"next: {extra} buys {gain}" if step.proven else f"next: at most {extra} buys at least {gain}"


def for_less_text(one: EvaluatedConfiguration) -> str:
    """What the best mix for less than a plan holds: ``7xt4 for 0.504 $/h holds 190.0 q/s in simulation``."""
    what = f"{summary(one.candidate.counts)} for {money_text(one.candidate.cost)}"
    if one.held:
        return f"{what} holds {qps_text(one.held)} in simulation"
    if one.below is not None:
        return f"{what} breaks the SLO at {qps_text(one.below)} in simulation"
    return f"{what} holds at most {qps_text(one.candidate.qps)}, not tried"
