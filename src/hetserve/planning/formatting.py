"""How quantities read in messages, so that a condition and a terminal say the same words."""

from __future__ import annotations

from hetserve.units import format_money


def qps_text(qps: float) -> str:
    """Rate with its unit: one decimal from 10 q/s on, three significant digits below."""
    return f"{qps:.1f} q/s" if abs(qps) >= 10 else f"{qps:.3g} q/s"


def money_text(micro: int) -> str:
    """Price with its unit, as people write it: 2463000 -> ``2.463 $/h``, 300000 -> ``0.3 $/h``."""
    return f"{format_money(micro).rstrip('0').rstrip('.')} $/h"


def latency_text(seconds: float) -> str:
    """Latency with its unit, in ms below ten seconds: 0.35 -> ``350 ms``; never in powers of ten."""
    if seconds >= 1000:
        return f"{seconds:,.0f} s"
    return f"{seconds * 1e3:.4g} ms" if seconds < 10 else f"{seconds:.4g} s"


def share_text(share: float) -> str:
    """Share in percent: 0.8334 -> ``83.3 %``."""
    return f"{share * 100:.3g} %"


def difference_text(qps: float, cost: int, what: str) -> str:
    """How an alternative compares: ``5.3 q/s less bound for 0.0174 $/h more``.

    qps and cost: the alternative's minus the chosen one's. what: ``bound`` or ``capacity``.
    """
    rate = f"the same {what}" if abs(qps) < 1e-9 else f"{qps_text(abs(qps))} {'less' if qps < 0 else 'more'} {what}"
    if cost == 0:
        return f"{rate} at the same cost"
    return f"{rate} for {money_text(abs(cost))} {'less' if cost < 0 else 'more'}"
