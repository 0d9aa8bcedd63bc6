"""Hidden factors on service times: how much longer queries really take than the profiles say, by instance type."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from hetserve.base.units import parse_ratio
from hetserve.objects.gpu_sharing import ONE

EVERY_TYPE: Final = "*"
"""Stands for the types that factors leave out."""


def latency_factors(texts: Iterable[str]) -> dict[str, float]:
    """Factors by type of texts such as ``1.2`` and ``g4dn.xlarge=1.3``. Raises ValueError, which names the text."""
    found: dict[str, float] = {}
    for text in texts:
        name, _, factor = text.rpartition("=")
        name = name or EVERY_TYPE
        if name in found:
            which = "all types" if name == EVERY_TYPE else name
            raise ValueError(f"{which}: there are two factors, {found[name]:g} and {factor}; give one")
        found[name] = latency_factor(name, factor)
    return found


def latency_factor(name: str, text: str) -> float:
    """The factor of a type. Raises ValueError."""
    where = "" if name == EVERY_TYPE else f"{name}: "
    try:
        factor = parse_ratio(text) / ONE
    except ValueError as error:
        raise ValueError(f"{where}{error}") from None
    if factor <= 0:
        raise ValueError(f"{where}{text!r} must be above 0, for example 1.2")
    return factor


def factor_of(factors: Mapping[str, float], name: str) -> float:
    """The factor of a type; 1 where nothing is said of it."""
    return factors.get(name, factors.get(EVERY_TYPE, 1.0))
