"""Types of quantities, and their text forms in the API.

Time is seconds (float), money integer micro-dollars per hour, memory MiB (int), CPU millicores (int), rates queries per
second (float), shares and factors of sharing integer millionths.
"""

from __future__ import annotations

import math
import re
from decimal import ROUND_CEILING, Decimal, Overflow
from typing import Final, NewType

Seconds = NewType("Seconds", float)
MicroDollarsPerHour = NewType("MicroDollarsPerHour", int)
MiB = NewType("MiB", int)
MilliCPU = NewType("MilliCPU", int)
QPS = NewType("QPS", float)
Millionths = NewType("Millionths", int)
Percent = NewType("Percent", int)

DURATION_PATTERN: Final = r"^([0-9]{1,9}(\.[0-9]{1,9})?(us|ms|s|m|h))+$"
MONEY_PATTERN: Final = r"^[0-9]{1,6}(\.[0-9]{1,6})?$"
# Other text than that of money, so that an error can tell them apart.
RATIO_PATTERN: Final = r"^[0-9]{1,6}([.][0-9]{1,6})?$"
QUANTITY_PATTERN: Final = r"^[0-9]{1,12}(\.[0-9]{1,9})?(m|k|M|G|T|P|Ki|Mi|Gi|Ti|Pi)?$"

_UNIT_SECONDS: Final = {
    "us": Decimal("1e-6"),
    "ms": Decimal("1e-3"),
    "s": Decimal(1),
    "m": Decimal(60),
    "h": Decimal(3600),
}
_SUFFIX: Final = {
    "": Decimal(1),
    "n": Decimal("1e-9"),
    "u": Decimal("1e-6"),
    "m": Decimal("1e-3"),
    **{suffix: Decimal(10) ** (3 * power) for power, suffix in enumerate("kMGTPE", start=1)},
    **{suffix + "i": Decimal(1024) ** power for power, suffix in enumerate("KMGTPE", start=1)},
}
_LARGEST_QUANTITY: Final = Decimal("1e30")
"""The API server keeps pods that request 1e9999999; int() of it would take minutes."""
_MICRO: Final = 1_000_000


def parse_number(text: str) -> float:
    """A number as people and programs write it, also nan and inf. Raises ValueError.

    Python's own reads 1_000 and the digits of every script: slips of whoever wrote them.
    """
    if "_" in text or not text.isascii():
        raise ValueError(f"{text[:40]!r} is not a number")
    return float(text)


def number_or_nan(text: str | None) -> float:
    """As `parse_number`; nan for what is no number."""
    try:
        return parse_number(text or "")
    except ValueError:
        return math.nan


def parse_duration(text: str) -> Seconds:
    """Seconds of ``350ms``, ``1.5s`` or ``1m30s``. Raises ValueError."""
    if not re.fullmatch(DURATION_PATTERN, text):
        raise ValueError(f"{text!r} is not a duration; write for example 350ms, 1.5s or 2m")
    parts = re.findall(r"([0-9.]+)(us|ms|s|m|h)", text)
    return Seconds(float(sum((Decimal(number) * _UNIT_SECONDS[unit] for number, unit in parts), Decimal(0))))


def parse_money(text: str) -> MicroDollarsPerHour:
    """Micro-dollars per hour of a decimal number of dollars, such as ``2.5``, with at most six decimals.

    Raises ValueError.
    """
    if not re.fullmatch(MONEY_PATTERN, text):
        raise ValueError(
            f"{text!r} is not a price in $/h; write for example 0.526, below 1000000, with at most 6 decimals"
        )
    return MicroDollarsPerHour(int(Decimal(text) * _MICRO))


def format_money(micro: int) -> str:
    """Exact decimal dollars, at least three decimals: 2463000 -> ``2.463``."""
    sign = "-" if micro < 0 else ""
    whole, rest = divmod(abs(micro), _MICRO)
    decimals = f"{rest:06d}".rstrip("0").ljust(3, "0")
    return f"{sign}{whole}.{decimals}"


def parse_ratio(text: str) -> Millionths:
    """Millionths of a decimal number with at most six decimals: ``0.571`` -> 571000. Raises ValueError."""
    if not re.fullmatch(RATIO_PATTERN, text):
        raise ValueError(
            f"{text!r} is not a decimal number such as 0.57 or 1.08: no sign, at most 6 digits before the point and 6 "
            "after"
        )
    return Millionths(int(Decimal(text) * _MICRO))


def format_ratio(millionths: int) -> str:
    """Exact decimal number: 571000 -> ``0.571``."""
    whole, rest = divmod(millionths, _MICRO)
    return f"{whole}.{rest:06d}".rstrip("0").removesuffix(".")


def parse_quantity(text: str) -> Decimal:
    """Number of a Kubernetes quantity such as ``500m``, ``12k``, ``4Gi``, ``+5`` or ``1e3``.

    Raises ValueError for anything else, for negative numbers and for more than 1e30.
    """
    match = re.fullmatch(r"\+?([0-9.]+(?:[eE][+-]?[0-9]+)?)([a-zA-Z]*)", text)
    if match is None or match[2] not in _SUFFIX:
        raise ValueError(_no_quantity(text))
    try:
        value = Decimal(match[1]) * _SUFFIX[match[2]]
    except Overflow:
        value = Decimal("Infinity")
    except ArithmeticError:
        raise ValueError(_no_quantity(text)) from None
    if value > _LARGEST_QUANTITY:
        raise ValueError(f"{_short(text)} is too large for a quantity; at most {_LARGEST_QUANTITY} is possible")
    return value or Decimal(0)  # a zero with a huge exponent is slow, too


def _no_quantity(text: str) -> str:
    return f"{_short(text)} is not a quantity; write for example 500m, 2 or 4Gi"


def _short(text: str) -> str:
    return repr(text if len(text) <= 60 else text[:57] + "...")


def quantity_to_mib(text: str) -> MiB:
    """MiB of a memory quantity, rounded up."""
    return MiB(int((parse_quantity(text) / (1024 * 1024)).to_integral_value(ROUND_CEILING)))


def quantity_to_millicpu(text: str) -> MilliCPU:
    """Millicores of a CPU quantity, rounded up."""
    return MilliCPU(int((parse_quantity(text) * 1000).to_integral_value(ROUND_CEILING)))
