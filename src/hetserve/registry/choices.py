"""Fixed choices that the core decides by and the command line offers."""

from __future__ import annotations

from enum import StrEnum
from typing import Final, Literal, get_args


class Arrivals(StrEnum):
    """How queries arrive.

    EXPONENTIAL: a Poisson process. INTEGER_POISSON: Kairos's artifact, each gap a Poisson-distributed number of
    milliseconds. RECORDED: recorded times, stretched to the rate. BURSTY, RAMP: of `hetserve.simulation.arrivals`.
    """

    EXPONENTIAL = "exponential"
    INTEGER_POISSON = "integer-poisson"
    RECORDED = "recorded"
    BURSTY = "bursty"
    RAMP = "ramp"

    @property
    def is_steady(self) -> bool:
        """Whether the rate is the same all the time."""
        return self not in (Arrivals.RECORDED, Arrivals.RAMP)


DRAWN_ARRIVALS: Final = (Arrivals.EXPONENTIAL, Arrivals.INTEGER_POISSON)
"""At any rate, without a recording; the first is the default."""

FitKind = Literal["auto", "linear", "table"]
"""`auto`: whichever the samples support."""
FIT_KINDS: Final[tuple[FitKind, ...]] = get_args(FitKind)

PricedPer = Literal["Instance", "GiB", "GPU"]
"""What an InstanceType's hourly price is for."""

SharingMode = Literal["TimeSlicing", "MPS"]
"""How a GPU runs several processes; without MPS their kernels take turns and do not overlap."""
SHARING_MODES: Final[tuple[SharingMode, ...]] = get_args(SharingMode)
