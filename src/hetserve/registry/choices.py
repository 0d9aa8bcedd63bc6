"""Fixed choices that the core decides by and the command line offers."""

from __future__ import annotations

from enum import StrEnum
from typing import Final, Literal, get_args


class Arrivals(StrEnum):
    """How queries arrive.

    EXPONENTIAL: a Poisson process. INTEGER_POISSON: Kairos's artifact, each gap a Poisson-distributed whole number of
    milliseconds; more regular than a Poisson process at long gaps, bursty at short ones. RECORDED: recorded times,
    stretched to the rate.
    """

    EXPONENTIAL = "exponential"
    INTEGER_POISSON = "integer-poisson"
    RECORDED = "recorded"


DRAWN_ARRIVALS: Final = (Arrivals.EXPONENTIAL, Arrivals.INTEGER_POISSON)
"""Those that need no recording; the first is the default."""

FitKind = Literal["auto", "linear", "table"]
"""The profile that a fit makes; `auto`: whichever the samples support."""
FIT_KINDS: Final[tuple[FitKind, ...]] = get_args(FitKind)
