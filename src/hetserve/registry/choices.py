"""Fixed choices that the core decides by and the command line offers."""

from __future__ import annotations

from enum import StrEnum
from typing import Final, Literal, get_args


class Arrivals(StrEnum):
    """How queries arrive.

    EXPONENTIAL: a Poisson process. INTEGER_POISSON: Kairos's artifact, each gap a Poisson-distributed number of
    milliseconds. RECORDED: recorded times, stretched to the rate.
    """

    EXPONENTIAL = "exponential"
    INTEGER_POISSON = "integer-poisson"
    RECORDED = "recorded"


DRAWN_ARRIVALS: Final = (Arrivals.EXPONENTIAL, Arrivals.INTEGER_POISSON)
"""Without a recording; the first is the default."""

FitKind = Literal["auto", "linear", "table"]
"""`auto`: whichever the samples support."""
FIT_KINDS: Final[tuple[FitKind, ...]] = get_args(FitKind)

SharingMode = Literal["TimeSlicing", "MPS"]
"""How a GPU runs several processes; without MPS their kernels take turns and do not overlap."""
SHARING_MODES: Final[tuple[SharingMode, ...]] = get_args(SharingMode)
